"""The threads of an idle agent, by name: each is in the tables of docs/internals/processes.md."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.agents import telling
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until
from tests.stores import new_store

MOST: Final = 5
MOST_ON_KUBERNETES: Final = 7
"""The official client blocks a thread for each watch, and a silent Lease must be judged meanwhile."""

OF_AGENTS: Final = ("MainThread", "tenure-driver", "tenure-session")
OF_LEADERS: Final = ("tenure-office",)
OF_CLIENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "sqlite": (),
    "zookeeper": ("zk_loop",),
    "etcd": ("tenure-etcd-watch",),
    "kubernetes": ("tenure-kubernetes-leases", "tenure-kubernetes-scope", "tenure-kubernetes-sessions"),
    "postgres": ("tenure-postgres-line",),
    "s3": (),
}


class Telling(MemberProcess):
    """An agent that tells its threads."""

    def __init__(self, name: str, *, folder: Path, url: str) -> None:
        self._file = folder / f"{name}.threads"
        flags = ["--store", url, "--storage", f"file://{folder}/storage", "--scope", "rows", "--ttl", "4s"]
        super().__init__(
            name,
            folder=folder,
            arguments=["run", "rows.py", *flags, "--standby", "cold"],
            command=telling.COMMAND,
            environment={"THREADS": str(self._file)},
        )

    def threads(self) -> list[str]:
        """As the agent tells them now."""
        self._file.unlink(missing_ok=True)
        os.kill(self.pid, signal.SIGUSR1)
        wait_until(self._file.exists, what="the names of its threads")
        names: list[str] = json.loads(self._file.read_text())
        return names

    def settles_at(self, *names: str) -> None:
        """Wait until it has these threads and no others. A renewal has threads for a moment."""
        seen: list[list[str]] = []

        def settled() -> bool:
            seen.append(self.threads())
            return seen[-1] == sorted(names)

        try:
            wait_until(settled)
        except TimeoutError as late:
            raise AssertionError(f"{self.name} has {seen[-1]}, not {sorted(names)}") from late


@pytest.mark.parametrize("kind", [*OF_CLIENTS])
def test_an_idle_agent_has_few_threads(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    url = new_store(request, kind, tmp_path)
    of_a_standby = (*OF_AGENTS, *OF_CLIENTS[kind])
    with Telling("anna", folder=tmp_path, url=url) as leader:
        leader.wait_for("TermWon")
        with Telling("ben", folder=tmp_path, url=url) as standby:
            standby.wait_for("MemberReady")
            standby.settles_at(*of_a_standby)
            leader.settles_at(*of_a_standby, *OF_LEADERS)
    assert len(of_a_standby) + len(OF_LEADERS) <= (MOST_ON_KUBERNETES if kind == "kubernetes" else MOST)
