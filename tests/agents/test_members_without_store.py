"""`tenure status` while the store is away: the members are asked."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.kit.members import MemberProcess
from tests.kit.servers.process import free_ports
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND


class Site:
    """Two members whose drivers have no Spark, and the commands of an operator with a cache of his own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.store = folder / "ha.db"
        (folder / "storage").mkdir()
        self.ports = dict(zip(("anna", "ben"), free_ports(2), strict=True))
        self.members = {name: stack.enter_context(self._member(name)) for name in self.ports}
        for member in self.members.values():
            member.wait_for("MemberReady")

    def _member(self, name: str) -> MemberProcess:
        arguments = ["run", "rows.py", "--store", f"sqlite://{self.store}", "--scope", "rows", "--ttl", "4s"]
        arguments += ["--storage", f"file://{self.folder}/storage", "--http", f"127.0.0.1:{self.ports[name]}"]
        return MemberProcess(name, folder=self.folder, arguments=arguments, command=COMMAND)

    def status(self, *words: str, cache: str = "cache") -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        command = [*COMMAND, "status", "--store", f"sqlite://{self.store}", "--scope", "rows", *words]
        told = {**os.environ, "XDG_CACHE_HOME": str(self.folder / cache)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=told)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def test_the_members_say_what_they_know(site: Site) -> None:
    wait_until(lambda: "leads" in site.status()[2], what="a leader")
    assert site.status()[0] == 0
    site.members["ben"].kill()
    away = site.store.rename(site.store.with_suffix(".away"))
    wait_until(lambda: "away" in site.status()[1].split(), what="the state of anna")
    code, table, told = site.status()
    assert code == 4
    assert "does not exist" in told
    assert "bad   the store does not answer, also not to its members. Waiting for it: anna. No answer from ben" in told
    rows = {row.split("\t")[0]: row.split("\t") for row in table.splitlines()[1:]}
    assert rows["anna"][1] == "away"
    assert "refused" in rows["ben"][-1]
    code, printed, _ = site.status("--output", "json", "--members", f"127.0.0.1:{site.ports['anna']}")
    (anna,) = json.loads(printed)["members"]
    assert (code, anna["member"], anna["state"], anna["newest_epoch"] >= 1) == (4, "anna", "away", True)
    assert "as its members know it" not in site.status(cache="another")[2], "no address of a member is known there"
    assert site.status("--check")[:2] == (4, "")
    away.rename(site.store)
    wait_until(lambda: site.status()[0] == 0, what="the store")


def test_an_answer_of_another_server_is_not_taken_for_a_member(site: Site) -> None:
    site.store.rename(site.store.with_suffix(".away"))
    answer = site.status("--output", "json", "--members", f"http://127.0.0.1:{site.ports['anna']}/metrics?x=")
    (other,) = json.loads(answer[1])["members"]
    assert other["trouble"]
