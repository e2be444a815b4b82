"""The line of a client: one connection with the locks of its sessions, their renewals, and the announced changes.

Promise: one thread keeps the line open, as long as its store is open. A line that breaks is noticed at once, and opened
again; the locks are taken first. Once a second a look compares the followed scopes with the database, so an
announcement that got lost costs a second, and a line on which none arrives is found and opened again.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, Protocol

from tenure.backends.postgres import statements
from tenure.backends.postgres.client import PostgresClient
from tenure.backends.postgres.connection import PostgresConnection, Reply, Rows
from tenure.backends.postgres.errors import NoReply, SqlRefused, Unreplicated
from tenure.clock import Clock
from tenure.errors import AccessDenied, StoreUnavailable, TenureError
from tenure.retry import RetryPolicy

LOOK_S: Final = 1.0
_AGAIN: Final = RetryPolicy(initial=timedelta(milliseconds=50), maximum=timedelta(seconds=2))
"""The pauses after a line could not be opened."""


class LineOwner(Protocol):
    """Has the sessions and the scopes of a line. The line's thread calls it, or the thread of a renewal."""

    def locks(self, connection: PostgresConnection) -> Iterable[str]:
        """The requests that take the locks of the sessions again."""
        ...

    def heard(self, payload: str) -> None:
        """A change was announced."""
        ...

    def look(self, connection: PostgresConnection) -> str | None:
        """The request of a look; None: there is nothing to look at."""
        ...

    def looked(self, rows: list[Rows], connection: PostgresConnection, *, asked_at_s: float) -> bool:
        """Take the answer. Return whether the line hears. Raises StoreUnavailable."""
        ...

    def broke(self) -> None:
        """The line has broken, or was opened."""
        ...


class PostgresLine:
    """The line of a client. It is opened at its first use. Thread-safe."""

    def __init__(self, client: PostgresClient, owner: LineOwner, *, clock: Clock) -> None:
        self._client = client
        self._owner = owner
        self._clock = clock
        self._turn = threading.Lock()  # held by who uses the connection; guards the two below
        self._connection: PostgresConnection | None = None
        self._opened = 0
        self._begins = threading.Lock()  # guards the two below
        self._thread: threading.Thread | None = None
        self._bell: int | None = None  # None: the thread has not begun, or has ended
        self._closed = threading.Event()
        self._tried = threading.Event()
        self._error: TenureError | None = None  # why there is no line; None: there is, or none was tried yet

    @property
    def number(self) -> int:
        """Of its last opening; 0: it was never open."""
        return self._opened

    def standing(self) -> int:
        """The number of this opening of the line. Raises StoreUnavailable: there is no line."""
        self._begin()
        self._tried.wait(self._client.request_s)
        error = self._error
        if error is not None:
            raise error
        if not self._tried.is_set():
            raise StoreUnavailable(f"PostgreSQL at {self._client.place.shown} does not answer")
        return self._opened

    def ask(self, make: Callable[[PostgresConnection], str], what: str, *, within_s: float | None = None) -> Reply:
        """Send a request that writes. `make`: the request. Raises StoreUnavailable, OutcomeUnknown."""
        self._begin()
        within_s = self._client.request_s if within_s is None else within_s
        if not self._turn.acquire(timeout=within_s):
            raise StoreUnavailable(f"the line to {self._client.place.shown} is busy", fix="try again")
        try:
            connection = self._standing()
            reply, failure = self._client.sent(connection, make(connection), within_s=within_s)
            if not connection.is_open:
                self._leave()
        except BaseException:
            self._leave()
            raise
        finally:
            self._turn.release()
        if failure is not None:
            raise self._client.error(failure, what, writes=True)
        return reply

    def leave(self) -> None:
        """Give the line up: the thread opens another."""
        with self._turn:
            self._leave()
        self._ring()

    def close(self) -> None:
        """End the thread and the connection."""
        with self._begins:
            self._closed.set()
            thread = self._thread
        self._ring()
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._client.request_s)
        if self._turn.acquire(timeout=self._client.request_s):
            try:
                self._leave()
            finally:
                self._turn.release()

    # --- inside -------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        with self._begins:
            if self._closed.is_set():
                raise StoreUnavailable("the store is closed")
            if self._thread is None:
                self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
                self._thread = threading.Thread(target=self._run, name="tenure-postgres-line", daemon=True)
                self._thread.start()

    def _ring(self) -> None:
        with self._begins:
            if self._bell is not None:
                os.eventfd_write(self._bell, 1)

    def _run(self) -> None:
        assert self._bell is not None
        try:
            self._run_until_closed(self._bell)
        finally:
            self._error = self._error or StoreUnavailable("the line has ended")
            with self._begins:
                os.close(self._bell)
                self._bell = None
            with self._turn:
                self._leave()

    def _run_until_closed(self, bell: int) -> None:
        pauses = _AGAIN.delays_s()
        while not self._closed.is_set():
            try:
                self._keep(bell)
                pauses = _AGAIN.delays_s()
            except TenureError as error:
                self._error = error
                self._tried.set()
                self._owner.broke()
                _sleep(bell, next(pauses))

    def _keep(self, bell: int) -> None:
        """Open the line, and keep it until it breaks. Raises TenureError."""
        with self._turn:
            connection = self._standing()
        self._error = None
        self._tried.set()
        self._owner.broke()  # who waits looks at the new line
        look_at_s = self._clock.monotonic_s() + LOOK_S
        while not self._closed.is_set():
            _sleep(bell, look_at_s - self._clock.monotonic_s(), connection.fileno())
            if not self._hears(connection):
                return
            if self._clock.monotonic_s() >= look_at_s:
                self._look(connection)
                look_at_s = self._clock.monotonic_s() + LOOK_S

    def _hears(self, connection: PostgresConnection) -> bool:
        """Take the changes that were announced. False: the line has broken, or another connection is the line now."""
        with self._turn:
            if connection is not self._connection:
                return False
            try:
                payloads = connection.notifications()
            except NoReply:
                self._leave()
                return False
        for payload in payloads:
            self._owner.heard(payload)
        return True

    def _look(self, connection: PostgresConnection) -> None:
        """Raises TenureError."""
        self._client.prune()
        asked_at_s = self._clock.monotonic_s()
        with self._turn:
            request = self._owner.look(connection) if connection is self._connection else None
            if request is None:
                return
            try:
                rows = connection.rows(request, within_s=self._client.request_s)
            except (NoReply, SqlRefused, Unreplicated) as failure:
                self._leave()
                raise self._client.error(failure, "show what has changed", writes=False) from failure
        try:
            hears = self._owner.looked(rows, connection, asked_at_s=asked_at_s)
        except AccessDenied:
            self.leave()
            raise
        if not hears:
            self.leave()

    # --- under the turn -----------------------------------------------------------------------------------------

    def _standing(self) -> PostgresConnection:
        """Raises StoreUnavailable, Corrupt."""
        if self._connection is None or not self._connection.is_open:
            connection = self._client.open()
            try:
                listen = self._client.sql(statements.LISTEN, channel=self._client.place.channel)
                for request in (*self._owner.locks(connection), listen):
                    connection.rows(request, within_s=self._client.request_s)
            except (NoReply, SqlRefused, Unreplicated) as failure:
                connection.close()
                raise self._client.error(failure, "keep a line", writes=False) from failure
            self._connection = connection
            self._opened += 1
            if threading.current_thread() is not self._thread:
                self._ring()
        return self._connection

    def _leave(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _sleep(bell: int, seconds: float, line: int = -1) -> None:
    """Until the time has passed, something arrives on the line, or the bell rings."""
    poll = select.poll()
    for number in (bell, line):
        if number >= 0:
            poll.register(number, select.POLLIN)
    if any(number == bell for number, _ in poll.poll(max(0.0, seconds) * 1000)):
        os.eventfd_read(bell)
