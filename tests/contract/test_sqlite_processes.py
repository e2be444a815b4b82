"""Sessions of the SQLite store across real processes: killed, stopped, forked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Delete, Key, Put, Scope
from tests.contract.holder import AheadClock
from tests.kit.waiting import NEVER, NEVER_S

SCOPE = Scope("processes")
LEADER = Key("leader")
HOLDER = Path(__file__).with_name("holder.py")
TTL_S = 10_000.0
"""Passes when the test says so."""


class Holder:
    """A process with a session, in a process group of its own."""

    def __init__(self, path: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HOLDER), str(path), str(TTL_S), str(path.with_name("ahead"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self.hear() == "ready"

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, command: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def ask(self, command: str) -> str:
        self.say(command)
        return self.hear()

    def stop(self) -> None:
        """Stop it, and see that it is stopped."""
        os.kill(self.process.pid, signal.SIGSTOP)
        within(lambda: Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")

    def go_on(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """It and what it forked."""
        with suppress(ProcessLookupError):  # the whole group is gone already
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


def within(happened: Callable[[], bool]) -> float:
    """Wait until it happened; return how long that took."""
    begun = time.monotonic()
    while not happened():
        assert time.monotonic() - begun < NEVER_S, "it did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - begun


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def clock(path: Path) -> AheadClock:
    ahead = path.with_name("ahead")
    ahead.write_text("0")
    return AheadClock(ahead)


@pytest.fixture
def store(path: Path, clock: AheadClock) -> Iterator[SqliteStore]:
    store = SqliteStore(path, clock=clock)
    yield store
    store.close()


@pytest.fixture
def holders(path: Path) -> Iterator[list[Holder]]:
    started: list[Holder] = []
    yield started
    for holder in started:
        holder.end()


def start(holders: list[Holder], path: Path) -> Holder:
    holder = Holder(path)
    holders.append(holder)
    return holder


def test_a_killed_holder_loses_its_records_at_once(path: Path, store: SqliteStore, holders: list[Holder]) -> None:
    holder = start(holders, path)
    before = store.list(SCOPE)
    assert [record.key for record in before.records] == [LEADER]
    with store.watch(SCOPE, after=before.revision) as changes, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(changes.wait, timeout=NEVER)
        killed = time.monotonic()
        holder.kill()
        assert waiting.result() is not None
        assert time.monotonic() - killed < NEVER_S, "only its ttl ended it"
    assert store.list(SCOPE).records == ()
    assert list(path.with_name("store.db-sessions").iterdir()) == []


def test_a_living_fork_of_a_killed_holder_does_not_keep_its_session(
    path: Path, store: SqliteStore, holders: list[Holder]
) -> None:
    holder = start(holders, path)
    assert holder.ask("fork") == "ok"
    holder.kill()
    within(lambda: store.read(SCOPE, LEADER) is None)


@pytest.mark.parametrize("somebody_looks", [True, False])
def test_a_stopped_holder_is_over_at_its_ttl(
    path: Path, store: SqliteStore, clock: AheadClock, holders: list[Holder], somebody_looks: bool
) -> None:
    holder = start(holders, path)
    assert holder.ask("renew") == "ok"
    holder.stop()
    assert store.read(SCOPE, LEADER) is not None
    clock.advance(0.9 * TTL_S)
    if somebody_looks:
        assert store.read(SCOPE, LEADER) is not None, "it was ended before its ttl"
    clock.advance(0.2 * TTL_S)
    if somebody_looks:
        assert store.read(SCOPE, LEADER) is None
        session = store.open_session(ttl=timedelta(seconds=60))
        store.commit(SCOPE, guards=[], writes=[Put(LEADER, b"holder", None, session.id)])
    holder.go_on()
    assert holder.ask("commit") in ("GuardFailed", "SessionEnded")
    assert holder.ask("renew") == "SessionEnded"
    assert holder.ask("commit") in ("GuardFailed", "SessionEnded")
    assert store.read(SCOPE, Key("late")) is None


def test_a_holder_that_renews_outlives_its_ttl(
    path: Path, store: SqliteStore, clock: AheadClock, holders: list[Holder]
) -> None:
    holder = start(holders, path)
    for _ in range(4):
        assert store.read(SCOPE, LEADER) is not None
        clock.advance(0.9 * TTL_S)
        assert holder.ask("renew") == "ok"
        assert store.read(SCOPE, LEADER) is not None
    assert holder.ask("commit") == "ok"


def test_what_a_killed_process_was_told_is_in_the_store(path: Path, store: SqliteStore, holders: list[Holder]) -> None:
    for wait_for in (1, 7, 40):
        holder = start(holders, path)
        holder.say("count")
        said = 0
        while said < wait_for:
            said = int(holder.hear())
        holder.kill()
        assert holder.process.stdout is not None
        said = max([said, *(int(line) for line in holder.process.stdout if line.endswith("\n") and line.strip())])
        record = store.read(SCOPE, Key("counter"))
        assert record is not None
        assert int(record.value) in (said, said + 1)
        store.commit(SCOPE, guards=[], writes=[Delete(record.key, record.version)])
        within(lambda: store.read(SCOPE, LEADER) is None)


def test_processes_that_open_at_once_share_one_store(path: Path) -> None:
    program = (
        "import sys; from tenure.backends.sqlite import SqliteStore; from tenure.coordination.records import *\n"
        "s = SqliteStore(sys.argv[1]); sys.stdin.readline()\n"
        "s.commit(Scope('processes'), guards=[], writes=[Put(Key('k' + sys.argv[2]), b'', None)])\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(number)], stdin=subprocess.PIPE, text=True)
        for number in range(4)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=NEVER_S)
        assert process.returncode == 0
    store = SqliteStore(path)
    assert [record.key for record in store.list(SCOPE).records] == ["k0", "k1", "k2", "k3"]
    store.close()
