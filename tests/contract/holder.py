"""A process that holds a session of a SQLite store, driven by lines on its standard input.

Not a test: started by `test_sqlite_processes.py`. Each line is a command, each answer one line. Its time, and that of
the test, is moved by the test: no machine is so slow that a ttl passes before the test says so.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.records import Exact, Key, Put, Scope
from tenure.errors import StoreError

SCOPE = Scope("processes")
LEADER = Key("leader")


class AheadClock(SystemClock):
    """The machine's clock, and later by as many seconds as a file says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def monotonic_s(self) -> float:
        return super().monotonic_s() + float(self._path.read_text())

    def advance(self, seconds: float) -> None:
        """Move it, for all that read the file."""
        later = self._path.with_suffix(".later")
        later.write_text(str(float(self._path.read_text()) + seconds))
        later.rename(self._path)


def main() -> None:
    path, ttl_s = sys.argv[1], float(sys.argv[2])
    store = SqliteStore(path, clock=AheadClock(Path(sys.argv[3])))
    session = store.open_session(ttl=timedelta(seconds=ttl_s))
    version = store.commit(SCOPE, guards=[], writes=[Put(LEADER, b"holder", None, session.id)]).versions[LEADER]
    say("ready")
    for line in sys.stdin:
        try:
            match line.strip():
                case "renew":
                    session.renew()
                case "commit":
                    store.commit(SCOPE, guards=[Exact(LEADER, version)], writes=[Put(Key("late"), b"", None)])
                case "fork":
                    if os.fork() == 0:
                        signal.pause()  # lives on when its parent is gone
                case "count":
                    count(store)
            say("ok")
        except StoreError as error:
            say(type(error).__name__)


def count(store: SqliteStore) -> None:
    """Count up for ever; each number is said after its commit returned."""
    version, number = None, 0
    while True:
        number += 1
        put = Put(Key("counter"), str(number).encode(), version)
        version = store.commit(SCOPE, guards=[], writes=[put]).versions[Key("counter")]
        say(str(number))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
