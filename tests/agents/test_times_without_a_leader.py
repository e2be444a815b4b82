"""What `tenure history` says of the times without a leader, beside what a watcher of the store saw."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import observe
from tenure.coordination.records import Scope
from tenure.errors import StoreError
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND

SCOPE = Scope("rows")
NEAR_S = 1.0
"""How much the history and the watcher may differ, for all times without a leader together."""


class Fleet:
    """Members whose drivers have no Spark, on one SQLite store, and a watcher of the `leader` record."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/ha.db"
        self._stack = stack
        (folder / "storage").mkdir()
        self.led: list[tuple[float, bool]] = []
        """When the watcher saw what: wall clock, and whether somebody led."""

    def member(self, name: str, *, ttl: str = "3s") -> MemberProcess:
        arguments = ["run", "rows.py", "--store", self.url, "--scope", SCOPE, "--ttl", ttl]
        arguments += ["--storage", f"file://{self.folder}/storage", "--quiet"]
        found = MemberProcess(name, folder=self.folder, arguments=arguments, command=COMMAND)
        return self._stack.enter_context(found)

    def tenure(self, *words: str) -> str:
        command = [*COMMAND, *words, "--store", self.url, "--scope", SCOPE]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def history(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.tenure("history", "--output", "json"))
        return found

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the `leader` record in this process, as fast as it changes."""
        over = threading.Event()

        def watch() -> None:
            with closing(open_store(self.url, clock=SystemClock())) as store:
                while not over.wait(0.01):
                    try:
                        led = observe(store, SCOPE).leader is not None
                    except StoreError:
                        continue
                    self.led.append((time.time(), led))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def seen_empty_s(self) -> float:
        """For how long nobody led, between the first and the last moment at which somebody did."""
        first = next(number for number, (_, led) in enumerate(self.led) if led)
        last = max(number for number, (_, led) in enumerate(self.led) if led)
        looks = self.led[first : last + 1]
        return sum(after[0] - before[0] for before, after in pairwise(looks) if not before[1])

    def leads(self, member: MemberProcess, *, epoch: int) -> None:
        member.wait_for("TermWon", such_that=lambda event: bool(event["epoch"] == epoch))


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(tmp_path, stack)


def host_dies(fleet: Fleet, anna: MemberProcess) -> str:
    anna.kill()
    return "session ended"


def agent_dies(fleet: Fleet, anna: MemberProcess) -> str:
    os.kill(anna.pid, signal.SIGKILL)
    return "session ended"


def driver_dies(fleet: Fleet, anna: MemberProcess) -> str:
    os.killpg(anna.driver() or 0, signal.SIGKILL)
    return "driver died"


def host_pauses(fleet: Fleet, anna: MemberProcess) -> str:
    anna.pause()
    return "session ended"


def is_asked_to_stop(fleet: Fleet, anna: MemberProcess) -> str:
    anna.terminate()
    return "stopped"


def operator_takes_it_away(fleet: Fleet, anna: MemberProcess) -> str:
    fleet.tenure("failover", "--force", "--reason", "it burns")
    return "failover"


def operator_hands_over(fleet: Fleet, anna: MemberProcess) -> str:
    fleet.tenure("switchover", "--reason", "maintenance")
    return "switchover"


@pytest.mark.parametrize(
    "fault",
    [host_dies, agent_dies, driver_dies, host_pauses, is_asked_to_stop, operator_takes_it_away, operator_hands_over],
)
def test_the_gap_of_a_takeover_is_the_time_without_the_leader_record(
    fleet: Fleet, fault: Callable[[Fleet, MemberProcess], str]
) -> None:
    anna = fleet.member("anna")
    fleet.leads(anna, epoch=1)
    with fleet.watched():
        ben = fleet.member("ben")
        ben.wait_for("MemberReady")
        wait_until(lambda: any(led for _, led in fleet.led), what="the watcher")
        why = fault(fleet, anna)
        fleet.leads(ben, epoch=2)
        wait_until(lambda: fleet.led[-1][1], what="the watcher")
    first, second = fleet.history[:2]
    assert (first["why"], second["holder"]) == (why, "ben")
    assert abs(second["gap_s"] - fleet.seen_empty_s()) < NEAR_S, (first, second)
    assert first["to"] == first["to_at_most"], "somebody told it, or saw it"


def test_a_night_without_members_lies_between_what_is_known(fleet: Fleet) -> None:
    with fleet.watched():
        anna = fleet.member("anna")
        fleet.leads(anna, epoch=1)
        wait_until(lambda: any(led for _, led in fleet.led), what="the watcher")
        anna.kill()
        wait_until(lambda: not fleet.led[-1][1], what="an empty office")
        told = fleet.tenure("history")
        assert "nobody has led for" in told
        ben = fleet.member("ben")
        fleet.leads(ben, epoch=2)
        wait_until(lambda: fleet.led[-1][1], what="the watcher")
    first, second = fleet.history
    assert (first["why"], first["holder"]) == ("session ended", "anna")
    assert second["gap_at_least_s"] - NEAR_S <= fleet.seen_empty_s() <= second["gap_s"] + NEAR_S
    went = datetime.fromtimestamp(next(at for at, led in fleet.led[::-1] if led and at < _begin(second)), tz=UTC)
    assert first["to"] <= went.isoformat() <= first["to_at_most"]


def _begin(term: dict[str, Any]) -> float:
    return datetime.fromisoformat(term["from"]).timestamp()


def test_a_holder_that_was_paused_says_so_when_it_is_back(fleet: Fleet) -> None:
    anna = fleet.member("anna")
    fleet.leads(anna, epoch=1)
    ben = fleet.member("ben")
    ben.wait_for("MemberReady")
    anna.pause()
    fleet.leads(ben, epoch=2)
    assert fleet.history[0]["note"] is None
    anna.wake()
    wait_until(lambda: fleet.history[0]["note"], what="the note of the holder")
    assert "anna said later" in fleet.tenure("history")
