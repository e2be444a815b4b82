"""A test stopped a member in the midst of a transaction of SQLite: nobody else could write until it was woken."""

from __future__ import annotations

import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.members import pause_between_writes
from tests.kit.process import GroupProcess
from tests.kit.waiting import wait_until

WRITER = """
import signal, sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA journal_mode=WAL")
store.execute("CREATE TABLE numbers (n)")
store.execute("BEGIN IMMEDIATE")
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("within", flush=True)
signal.sigwait({signal.SIGUSR1})
store.execute("COMMIT")
print("outside", flush=True)
signal.pause()
"""


class Writer(GroupProcess):
    """Is in a transaction until it was woken once."""

    stops = 0

    def pause(self) -> None:
        super().pause()
        self.stops += 1

    def wake(self) -> None:
        super().wake()
        self.signal(signal.SIGUSR1)
        wait_until(lambda: "outside" in self.output())


def test_a_store_that_is_not_there_is_told_and_not_made(tmp_path: Path) -> None:
    group = GroupProcess(["sleep", "infinity"], log=tmp_path / "log")
    group.start()
    try:
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            pause_between_writes(group, store=f"sqlite://{tmp_path}/none.db")
        assert not (tmp_path / "none.db").exists()
    finally:
        group.kill()


def test_a_member_is_stopped_outside_of_its_transactions(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    writer = Writer([sys.executable, "-c", WRITER, str(path)], log=tmp_path / "log")
    writer.start()
    try:
        wait_until(lambda: "within" in writer.output())
        pause_between_writes(writer, store=f"sqlite://{path}")
        with closing(sqlite3.connect(path, timeout=0)) as other:
            other.execute("INSERT INTO numbers VALUES (1)")
            other.commit()
        assert writer.stops == 2
    finally:
        writer.kill()
