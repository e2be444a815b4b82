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
from tests.kit.members import MemberProcess, pause_between_writes
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND

SCOPE = Scope("rows")
NEAR_S = 1.0
"""How much the history and the watcher may differ, for all times without a leader together."""


class Fleet:
    """Members whose drivers have no Spark, on one SQLite store, and a watcher of the `leader` record."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self.url = f"sqlite://{folder}/ha.db"
        self._stack = stack
        (folder / "storage").mkdir()
        self.seen: list[tuple[float, int]] = []
        """When the watcher saw what: wall clock, and the epoch of the leader; 0: nobody led."""

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
                        found = observe(store, SCOPE)
                    except StoreError:
                        continue
                    self.seen.append((time.time(), found.epoch))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @property
    def led(self) -> bool:
        """Whether the watcher has looked, and saw a leader then."""
        return bool(self.seen) and self.seen[-1][1] > 0

    def seen_empty_s(self) -> tuple[float, float]:
        """For how long nobody led, between the first and the last moment at which somebody did: at least, and at most.
        What happens between two looks is not seen, and on a busy machine they are far apart."""
        looks = [number for number, (_, epoch) in enumerate(self.seen) if epoch]
        least, most = 0.0, 0.0
        for before, after in pairwise(looks):
            if after > before + 1 or self.seen[before][1] != self.seen[after][1]:
                most += self.seen[after][0] - self.seen[before][0]
                least += self.seen[after - 1][0] - self.seen[before + 1][0] if after > before + 1 else 0.0
        return least, most

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
    pause_between_writes(anna, store=fleet.url)
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
        wait_until(lambda: fleet.led, what="the watcher")
        why = fault(fleet, anna)
        fleet.leads(ben, epoch=2)
        wait_until(lambda: fleet.led, what="the watcher")
    first, second = fleet.history[:2]
    assert (first["why"], second["holder"]) == (why, "ben")
    least, most = fleet.seen_empty_s()
    assert least - NEAR_S < second["gap_s"] < most + NEAR_S, (first, second)
    assert first["to"] == first["to_at_most"], "somebody told it, or saw it"


def test_a_night_without_members_lies_between_what_is_known(fleet: Fleet) -> None:
    with fleet.watched():
        anna = fleet.member("anna")
        fleet.leads(anna, epoch=1)
        wait_until(lambda: fleet.led, what="the watcher")
        anna.kill()
        wait_until(lambda: not fleet.led, what="an empty office")
        told = fleet.tenure("history")
        assert "nobody has led for" in told
        ben = fleet.member("ben")
        fleet.leads(ben, epoch=2)
        wait_until(lambda: fleet.led, what="the watcher")
    first, second = fleet.history
    assert (first["why"], first["holder"]) == ("session ended", "anna")
    least, most = fleet.seen_empty_s()
    assert second["gap_at_least_s"] - NEAR_S <= most
    assert least <= second["gap_s"] + NEAR_S
    last = max(number for number, (_, epoch) in enumerate(fleet.seen) if epoch == 1)
    last_led, first_empty = (datetime.fromtimestamp(fleet.seen[at][0], tz=UTC) for at in (last, last + 1))
    assert first["to"] <= first_empty.isoformat()
    assert last_led.isoformat() <= first["to_at_most"]


def test_a_holder_that_was_paused_says_so_when_it_is_back(fleet: Fleet) -> None:
    anna = fleet.member("anna")
    fleet.leads(anna, epoch=1)
    ben = fleet.member("ben")
    ben.wait_for("MemberReady")
    pause_between_writes(anna, store=fleet.url)
    fleet.leads(ben, epoch=2)
    assert fleet.history[0]["note"] is None
    anna.wake()
    wait_until(lambda: fleet.history[0]["note"], what="the note of the holder")
    assert "anna said later" in fleet.tenure("history")
