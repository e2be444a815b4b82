"""A process that contends and leads on a SQLite store, driven by lines on its standard input.

Not a test: `Member` starts it. Each line is a command, each answer one line: the outcome, or the name of an error. A
command is one attempt: nothing is tried again behind the test's back.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenure.backends.sqlite import SqliteStore
from tenure.backends.sqlite.store import SqliteSession
from tenure.clock import SystemClock, timestamp
from tenure.coordination.election import seen_in
from tenure.coordination.election_rules import TakeOffice, next_step
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Exact, Guard, Key, Put, Scope
from tenure.coordination.term import EPOCH, LEADER
from tenure.errors import TenureError

SCOPE: Final = Scope("scene")
TTL: Final = timedelta(hours=1)
PATIENCE: Final = timedelta(milliseconds=100)


class LaterClock(SystemClock):
    """The machine's clock, and later by as much as the test says."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


class Contender:
    """What a member is to the store: a session, and at times a term."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._clock = LaterClock()
        self._store: SqliteStore | None = None  # None: not open
        self._session: SqliteSession | None = None  # None: no session was opened
        self._guards: tuple[Guard, ...] = ()  # empty: no term
        self._begun = ExitStack()

    @property
    def _opened(self) -> SqliteStore:
        assert self._store is not None, "open first"
        return self._store

    def open(self, path: str) -> str:
        """Open the store by this name."""
        self._store = SqliteStore(path, clock=self._clock, busy_timeout=PATIENCE)
        self._store.read(SCOPE, LEADER)
        return "open"

    def lead(self) -> str:
        """Contend once."""
        store = self._opened
        if self._session is None:
            self._session = store.open_session(ttl=TTL)
        seen = seen_in(store.list(SCOPE).records)
        step = next_step(seen, member=self._name, session=self._session.id, now=timestamp(self._clock), uid=new_uid())
        if not isinstance(step, TakeOffice):
            return type(step).__name__
        commit = store.commit(SCOPE, guards=step.guards, writes=step.writes)
        self._guards = (Exact(LEADER, commit.versions[LEADER]), Exact(EPOCH, commit.versions[EPOCH]))
        return f"leads {step.epoch}"

    def check(self) -> str:
        """Ask whether the term stands, as `Leadership.check` does."""
        if not self._guards:
            return "no term"
        self._opened.commit(SCOPE, guards=self._guards, writes=())
        return "stands"

    def write(self) -> str:
        """Write under the term."""
        if not self._guards:
            return "no term"
        self._opened.commit(SCOPE, guards=self._guards, writes=[Put(Key("rows").child(new_uid()), b"", None)])
        return "written"

    def begin(self) -> str:
        """Begin a write, as a process that is stopped within its transaction has begun one."""
        self._begun = ExitStack()
        self._begun.enter_context(self._opened._database.writing())
        return "begun"

    def commit(self) -> str:
        """Go on with the write that was begun."""
        self._begun.close()
        return "committed"

    def read_bytes(self, *paths: str) -> str:
        """Open, read and close files in another thread, as a backup or a checksum does."""
        reader = threading.Thread(target=lambda: [Path(path).read_bytes() for path in paths if Path(path).exists()])
        reader.start()
        reader.join()
        return "read"

    def pass_a_ttl(self) -> str:
        """For the clock of this process."""
        self._clock.ahead_s += TTL.total_seconds()
        return "passed"

    def close(self) -> str:
        """Close the store, and the term with it."""
        if self._store is not None:
            self._store.close()
        self._store, self._session, self._guards = None, None, ()
        return "closed"


class Member:
    """A contender in a process of its own."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.store_member", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, command: str, *arguments: object) -> str:
        """The answer to a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([command, *map(str, arguments)]) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


def serve(name: str, lines: Iterable[str]) -> None:
    """Obey the commands."""
    contender = Contender(name)
    commands: dict[str, Callable[..., str]] = {
        "open": contender.open,
        "lead": contender.lead,
        "check": contender.check,
        "write": contender.write,
        "begin": contender.begin,
        "commit": contender.commit,
        "read": contender.read_bytes,
        "pass": contender.pass_a_ttl,
        "close": contender.close,
    }
    for line in lines:
        command, *arguments = line.rstrip("\n").split("\t")
        try:
            answer = commands[command](*arguments)
        except TenureError as error:
            answer = f"{type(error).__name__} {error}"
        sys.stdout.write(answer + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin)
