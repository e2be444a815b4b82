"""The connections of one client: a few for requests, opened to whichever server of the URL is the primary.

Promise: a server that may lose commits, an old primary, another database and a pooler of transactions are refused in a
line. A server that does not answer is asked last from then on. A request that was not sent, or that PostgreSQL rolled
back for another's sake, is sent again. A request that may have been committed is sent once.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Final

from tenure.backends.postgres import errors, statements
from tenure.backends.postgres.connection import PostgresConnection, Reply, connect, examine
from tenure.backends.postgres.errors import Failure, NoReply, SqlRefused, Unreplicated
from tenure.backends.postgres.lineage import LINEAGES, Incarnation
from tenure.backends.postgres.url import PostgresPlace
from tenure.clock import Clock
from tenure.errors import AccessDenied, Corrupt, StoreUnavailable
from tenure.retry import RetryPolicy

FORMAT: Final = "1"
MOST: Final = 4
"""How many connections a client has for requests: more threads wait for each other."""
IDLE_S: Final = 60.0
"""After this time without a request a connection is closed."""

_AGAIN: Final = RetryPolicy(
    initial=timedelta(milliseconds=10), maximum=timedelta(milliseconds=500), attempts=8, jitter=1.0
)


class PostgresClient:
    """Connections to a place. Thread-safe."""

    def __init__(self, place: PostgresPlace, *, existing: bool, clock: Clock) -> None:
        """`existing`: the tables are not made."""
        self.place = place
        self.request_s: Final = place.request_timeout.total_seconds()
        self._existing = existing
        self._clock = clock
        self._lock = threading.Lock()  # guards the three below
        self._order = list(place.servers)
        self._idle: list[PostgresConnection] = []
        self._closed = False
        self._free = threading.BoundedSemaphore(MOST)

    def sql(self, text: str, **names: str) -> str:
        """A statement with the schema, and further names, in it."""
        return text.format(s=self.place.schema, **names)

    def ask(self, make: Callable[[PostgresConnection], str], what: str, *, writes: bool) -> Reply:
        """Send a request on a connection of its own. `make`: the request; `what`: its name for people; `writes`: its
        outcome matters. Raises StoreUnavailable, and where it writes OutcomeUnknown."""
        delays = _AGAIN.delays_s()
        while True:
            with self._connection() as connection:
                reply, failure = self.sent(connection, make(connection))
            if failure is None:
                return reply
            pause_s = next(delays, None)
            if isinstance(failure, SqlRefused) and failure.state in errors.AGAIN and pause_s is not None:
                self._clock.sleep(pause_s)
                continue
            raise self.error(failure, what, writes=writes)

    def sent(
        self, connection: PostgresConnection, request: str, *, within_s: float | None = None
    ) -> tuple[Reply, Failure | None]:
        """Send a request. The failure is None where it is done: also where a statement behind its COMMIT failed.
        Raises StoreUnavailable: nothing was sent."""
        within_s = self.request_s if within_s is None else within_s
        try:
            reply = connection.ask(request, within_s=within_s)
        except NoReply as error:
            raise self._unavailable(error, "serve this client") from error
        if isinstance(reply.failure, NoReply):
            self._demote(connection)
        elif reply.failure is not None:
            with suppress(NoReply):  # the connection has ended, and the transaction with it
                connection.ask("rollback", within_s=within_s)
        if reply.unreplicated:
            return reply, Unreplicated(reply.unreplicated)
        return reply, None if reply.committed else reply.failure

    def error(self, failure: Failure, what: str, *, writes: bool) -> Exception:
        """The error to raise for a request that was sent."""
        told = errors.outcome if writes else errors.unavailable
        return told(failure, what, self.place.shown)

    def open(self) -> PostgresConnection:
        """A new connection to the primary. Raises StoreUnavailable, Corrupt."""
        with self._lock:
            order = list(self._order)
        failures: list[StoreUnavailable] = []
        for server in order:
            if self._closed:
                raise StoreUnavailable(f"the store in {self.place.shown} is closed")
            try:
                return self._open(server)
            except StoreUnavailable as failed:
                failures.append(failed)
                self._put_last(server)
        raise next((one for one in failures if one.fix is not None), failures[0])

    def prune(self) -> None:
        """Close connections that had no request for a while."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            old = [one for one in self._idle if now_s - one.idle_since_s > IDLE_S]
            self._idle = [one for one in self._idle if one not in old]
        for connection in old:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # --- inside -------------------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[PostgresConnection]:
        """A connection that no other thread uses meanwhile."""
        if not self._free.acquire(timeout=self.request_s):
            raise StoreUnavailable(f"all {MOST} connections to {self.place.shown} are busy", fix="try again")
        try:
            connection = self._taken() or self.open()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def _taken(self) -> PostgresConnection | None:
        """An idle connection that has not ended, as far as this side knows; None: there is none."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.looks_well():
                return connection
            connection.close()

    def _give_back(self, connection: PostgresConnection) -> None:
        connection.idle_since_s = self._clock.monotonic_s()
        with self._lock:
            if connection.is_open and not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def _open(self, server: Mapping[str, Any]) -> PostgresConnection:
        try:
            connection = connect(server, connect_s=self.place.connect_timeout.total_seconds(), clock=self._clock)
        except NoReply as error:
            words = str(error)
            raise self._unavailable(SqlRefused(errors.state_of(words), words), "let this client in") from error
        try:
            connection.server = server
            self._check(connection)
        except (SqlRefused, NoReply, Unreplicated) as error:
            connection.close()
            raise self._unavailable(error, "serve this client") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: PostgresConnection) -> None:
        """Raises StoreUnavailable, Corrupt, SqlRefused, NoReply, Unreplicated."""
        shown = f"PostgreSQL at {connection.shown}"
        if wrong := examine(connection, within_s=self.request_s):
            raise AccessDenied(f"{shown} {wrong[0]}", fix=wrong[1])
        if connection.server_pid != connection.pid and self._is_shared(connection):
            raise AccessDenied(
                f"{shown} is a pooler that gives each transaction another connection",
                fix="name the server itself, or a pool in session mode",
            )
        found = connection.incarnation
        origin = self._origin(connection)
        connection.incarnation = Incarnation(found.system, found.timeline, found.started, origin)
        foreign = LINEAGES.admit(self.place.identity, connection.incarnation)
        if foreign is not None:
            raise StoreUnavailable(f"{shown} is refused: {foreign.why}", fix=foreign.fix)

    def _is_shared(self, connection: PostgresConnection) -> bool:
        """Whether two connections have the same process of the server, or a connection has another process later."""
        other = connect(connection.server, connect_s=self.place.connect_timeout.total_seconds(), clock=self._clock)
        ask = "select pg_backend_pid()"
        within_s = self.request_s
        try:
            first = connection.rows(ask, within_s=within_s)
            beside = other.rows(f"begin; {ask}", within_s=within_s)
            second = connection.rows(ask, within_s=within_s)
        except NoReply as error:
            if "statement pooling mode" in str(error):
                return True
            raise
        finally:
            other.close()
        return first != second or first[0] == beside[1]

    def _origin(self, connection: PostgresConnection) -> str:
        """The name of the store in the database; the first client makes it. Raises as `_check`."""
        try:
            return self._read_origin(connection)
        except SqlRefused as refused:
            if refused.state not in errors.NO_STORE:
                raise
        if self._existing:
            raise StoreUnavailable(
                f"there is no store in schema {self.place.schema!r} of {self.place.shown}",
                fix="check the URL; the first member of a new store makes it",
            )
        ((_, has_schema),) = connection.rows(self.sql(statements.ABOUT), within_s=self.request_s)[0]
        made = "" if has_schema == b"t" else self.sql(statements.SCHEMA)
        request = connection.text(self.sql(statements.TABLES, schema=made), {"origin": secrets.token_hex(6)})
        try:
            connection.rows(request, within_s=self.request_s)
        except SqlRefused as refused:
            if refused.state != "42501":
                raise
            raise AccessDenied(
                f"this user may not make the store in {self.place.shown}: {refused}",
                fix=f"create schema {self.place.schema} authorization USER",
            ) from refused
        return self._read_origin(connection)

    def _read_origin(self, connection: PostgresConnection) -> str:
        ((known, origin),) = connection.rows(self.sql(statements.ORIGIN), within_s=self.request_s)[0]
        if known != FORMAT.encode():
            raise Corrupt(
                f"the store in {self.place.shown} has another format than {FORMAT}, which this version knows",
                fix="use the version of Tenure that made it",
            )
        return (origin or b"").decode()

    def _demote(self, connection: PostgresConnection) -> None:
        self._put_last(connection.server)

    def _put_last(self, server: Mapping[str, Any]) -> None:
        with self._lock:
            self._order = [one for one in self._order if one is not server] + [server]

    def _unavailable(self, failure: Failure, what: str) -> StoreUnavailable:
        return errors.unavailable(failure, what, self.place.shown)
