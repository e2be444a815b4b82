"""The page *Kubernetes*, done from an empty namespace to a failover, as far as it needs no kubelet: the objects
are applied with kubectl, two members run as processes, the leader is killed.

Promise: the blocks of the page are run in its order, with a folder of the test in the place of /tmp/shop. Blocks that
look share a terminal, blocks that set up are run in the clone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import quote

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.records import Scope
from tenure.operate.snapshot import Snapshot, take_snapshot
from tests.docs.blocks import KUBERNETES, Block, blocks_of
from tests.draw import QUARTERS, only_if_drawn
from tests.house.tree import ROOT
from tests.kit.members import kill_host
from tests.kit.servers import KubernetesServer
from tests.kit.servers.programs import installed, program
from tests.kit.waiting import NEVER_S, wait_until

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[1])]

NAMESPACE, SCOPE = "pipelines", Scope("shop")
RUN = ("setup", "terminal-1", "terminal-2", "look", "kill")


class Reader:
    """Who follows the page, in a clone."""

    def __init__(self, server: KubernetesServer, folder: Path, stack: ExitStack) -> None:
        config = folder / "kubeconfig"
        shutil.copy(server.kubeconfig(), config)
        path = f"{Path(sys.executable).parent}:{Path(program('kubectl', 'kubectl', fix='make kubernetes')).parent}"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        self._environment = {**kept, "KUBECONFIG": str(config), "PATH": f"{path}:{kept['PATH']}"}
        self._folder = folder
        self._stack = stack
        self._url = f"kubernetes://{NAMESPACE}/shop?kubeconfig={quote(str(config))}"
        self.printed = ""
        """By the newest command that was waited for."""

    def do(self, block: Block) -> None:
        """Do what a block says, when it is time for it."""
        if block.role.startswith("terminal"):
            self._start(block)
            return
        if "switchover" in block.text or block.role == "kill":
            wait_until(self._standby_is_warm, what="a warm standby")
        before = self.now() if block.role == "kill" else None
        text = block.text if before is None else block.text.replace("PID", str(self._pid(before)))
        self.printed = self._run(text, entered=block.role != "setup")
        if before is not None:
            wait_until(lambda: self.now().leader not in (None, before.leader), what="the successor")

    def now(self) -> Snapshot:
        with closing(open_store(self._url, clock=SystemClock())) as store:
            return take_snapshot(store, SCOPE)

    def _standby_is_warm(self) -> bool:
        return any(member.state is State.WARM for member in self.now().members)

    def _pid(self, picture: Snapshot) -> int:
        return next(member.pid for member in picture.members if member.member == picture.leader)

    def _here(self, text: str) -> str:
        return text.replace("/tmp/shop", f"{self._folder}/shop")

    def _run(self, text: str, *, entered: bool) -> str:
        """`entered`: in the terminal for looking, which stays where it is; else in the clone."""
        place = self._folder / "place"
        done = subprocess.run(
            ["bash", "-e", "-c", self._here(text) + (f"\npwd >{place}" if entered else "")],
            cwd=place.read_text().strip() if entered and place.exists() else ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=NEVER_S,
            check=False,
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _start(self, block: Block) -> None:
        *before, command = self._here(block.text).strip().splitlines()
        with (self._folder / f"{block.role}.out").open("wb") as output:
            process = subprocess.Popen(
                [
                    "bash",
                    "-e",
                    "-c",
                    "\n".join([*before, f"exec {command} --event-log={self._folder}/{block.role}.jsonl"]),
                ],
                cwd=ROOT,
                env={**self._environment, "TENURE_SPARK_LOG": f"{self._folder}/{block.role}.spark.log"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._stack.callback(end, process)
        wait_until(lambda: self.now().leader is not None, what="a leader")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a member and its driver."""
    if process.poll() is None:
        kill_host(process.pid)
    process.wait()


@pytest.fixture
def reader(kubernetes: KubernetesServer, tmp_path: Path) -> Iterator[Reader]:
    with installed(), ExitStack() as stack:
        yield Reader(kubernetes, tmp_path, stack)


def test_from_an_empty_namespace_to_a_failover(reader: Reader) -> None:
    for block in blocks_of(KUBERNETES):
        if block.language == "sh" and block.role in RUN:
            reader.do(block)
    picture = reader.now()
    assert picture.epoch >= 3  # the switchover, and the kill
