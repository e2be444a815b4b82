"""One connection to the database: bounded in time, durable, and to a server that is the primary.

Promise: `ask` returns or raises by its deadline, also if the server hangs; libpq itself waits for an answer for ever.
A request is one message of SQL, so a client that is paused never stands in the middle of a transaction: PostgreSQL
begins a request when it has all of it. In libpq's pipeline mode the server would wait between two messages, with the
locks of the first, and no limit of PostgreSQL before version 17 ends that wait.

A server that could lose a commit, and a pooler that gives each transaction another connection, are refused.
"""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg import pq

from tenure.backends.postgres.errors import NoReply, SqlRefused, Unreplicated
from tenure.backends.postgres.lineage import Incarnation
from tenure.clock import Clock
from tenure.libpq import one_line

SILENT_S: Final = 2
"""After this time the server ends a transaction whose client says nothing."""

_BEFORE: Final = 0.8
"""The share of the time for an answer after which the server itself gives a statement, or a wait for a lock, up: then
the outcome is known."""

_SETTINGS: Final = """
select set_config(name, value, false) from (values
  ('synchronous_commit', %(synchronous_commit)s), ('statement_timeout', %(limit)s), ('lock_timeout', %(limit)s),
  ('idle_in_transaction_session_timeout', %(silent)s), ('idle_session_timeout', '0'),
  ('client_connection_check_interval', '1s'),
  ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'), ('tcp_keepalives_count', '3'),
  ('default_transaction_isolation', 'read committed'), ('search_path', 'pg_catalog'), ('bytea_output', 'hex'),
  ('client_min_messages', 'warning'), ('jit', 'off')
) as wanted (name, value) join pg_settings using (name)
"""

FACTS: Final = """
select (select system_identifier from pg_control_system())::text,
  case when pg_is_in_recovery() then '' else pg_walfile_name(pg_current_wal_lsn()) end,
  extract(epoch from pg_postmaster_start_time())::text, pg_backend_pid()::text,
  current_setting('fsync'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names')
"""

Row = tuple[bytes | None, ...]
Rows = list[Row]


class Reply:
    """The answer to a request: the rows of each statement that the server carried out."""

    def __init__(self) -> None:
        self.rows: list[Rows] = []
        self.committed = False
        """Whether the server has said that it did the request's own COMMIT."""
        self.incarnation = Incarnation("", 0, "")
        """Of the server that answered."""
        self.failure: SqlRefused | NoReply | None = None
        self.unreplicated = ""
        """What the server says of a commit that its standby may lack; empty: it is fit."""

    def take(self, result: pq.abc.PGresult) -> None:
        """Take the result of a statement."""
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            self.committed = self.committed or result.command_status == b"COMMIT"
            columns = range(result.nfields)
            self.rows.append(
                [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]
            )
            return
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        words = " ".join(result.error_message.decode(errors="replace").split())
        self.failure = self.failure or SqlRefused(state, words)


class PostgresConnection:
    """A connection that `connect` has opened. One thread at a time uses it."""

    def __init__(self, raw: psycopg.Connection[Any], *, clock: Clock) -> None:
        self._raw = raw
        self._clock = clock
        self._cursor = psycopg.ClientCursor(raw)
        self._said = ""  # by the server, of the request that runs
        self.incarnation = Incarnation("", 0, "")
        """The server's, once `examine` has asked."""
        self.server: Mapping[str, Any] = {}
        """The parameters of its server."""
        self.server_pid = 0
        """The number of the process that answered, once `examine` has asked."""
        self.idle_since_s = 0.0
        raw.add_notice_handler(self._note)

    @property
    def is_open(self) -> bool:
        """Whether it stands, as far as this side knows."""
        return bool(self._raw.pgconn.status == pq.ConnStatus.OK)

    @property
    def shown(self) -> str:
        """Its server, for people."""
        return f"{self._raw.info.host}:{self._raw.info.port}"

    @property
    def pid(self) -> int:
        """The number of the server's process, as the server said when the connection was opened."""
        return self._raw.info.backend_pid

    def fileno(self) -> int:
        """The socket; -1: the connection has ended."""
        return self._raw.pgconn.socket if self.is_open else -1

    def looks_well(self) -> bool:
        """Whether nothing says that an idle connection has ended. Takes what has arrived."""
        try:
            self._raw.pgconn.consume_input()
        except psycopg.Error:
            return False
        return self.is_open

    def notifications(self) -> list[str]:
        """The payloads that have arrived. Raises NoReply: the connection has ended."""
        if not self.looks_well():
            raise NoReply("the connection has ended")
        found = []
        while (one := self._raw.pgconn.notifies()) is not None:
            found.append(one.extra.decode(errors="replace"))
        return found

    def text(self, query: str, values: Mapping[str, Any]) -> str:
        """The statement with the values in it, quoted."""
        return self._cursor.mogrify(query, values)

    def ask(self, query: str, *, within_s: float) -> Reply:
        """Send a request, which may have several statements, and take its answer. Raises NoReply: nothing was sent."""
        until_s = self._clock.monotonic_s() + within_s
        reply, line = Reply(), self._raw.pgconn
        reply.incarnation = self.incarnation
        self._said = ""
        try:
            line.send_query(query.encode())
        except psycopg.Error as error:
            self.close()
            raise NoReply(one_line(error)) from error
        try:
            self._finish(reply, until_s)
        except psycopg.Error as error:
            reply.failure = NoReply(one_line(error))
            self.close()
        except NoReply:
            reply.failure = NoReply(f"no answer for {within_s:.3g} s")
            self.close()
        if reply.failure is not None and not self.is_open:
            reply.failure = NoReply(str(reply.failure))
        reply.unreplicated = self._said
        return reply

    def rows(self, query: str, *, within_s: float) -> list[Rows]:
        """The answers to a request that changes nothing, or that may be repeated. Raises SqlRefused, NoReply,
        Unreplicated."""
        reply = self.ask(query, within_s=within_s)
        if reply.failure is not None:
            raise reply.failure
        if reply.unreplicated:
            raise Unreplicated(reply.unreplicated)
        return reply.rows

    def close(self) -> None:
        """Break the line; the server frees the locks."""
        self._raw.pgconn.finish()

    def _finish(self, reply: Reply, until_s: float) -> None:
        """Take all results. Raises NoReply: the time is over; psycopg.Error: the line broke."""
        line, poll = self._raw.pgconn, select.poll()
        while True:
            while not line.is_busy():
                result = line.get_result()
                if result is None:
                    return
                reply.take(result)
            more = line.flush()
            left_s = until_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise NoReply
            poll.register(line.socket, select.POLLIN | (select.POLLOUT if more else 0))
            if any(event & ~select.POLLOUT for _, event in poll.poll(left_s * 1000)):
                line.consume_input()

    def _note(self, said: psycopg.errors.Diagnostic) -> None:
        if said.sqlstate == "01000":  # the words are in the server's language
            self._said = str(said.message_primary)


def connect(server: Mapping[str, Any], *, connect_s: float, clock: Clock) -> PostgresConnection:
    """Open a connection to one server. Raises NoReply, SqlRefused: it does not let in this client."""
    given = {
        "target_session_attrs": "read-write",
        "application_name": "tenure store",
        "client_encoding": "utf8",
        **server,
        "connect_timeout": max(2, round(connect_s)),
    }
    try:
        raw = psycopg.Connection.connect(**given, autocommit=True)
    except psycopg.OperationalError as error:
        raise NoReply(one_line(error)) from error
    return PostgresConnection(raw, clock=clock)


def examine(connection: PostgresConnection, *, within_s: float) -> Sequence[str]:
    """Ask a new connection for its server, and set its limits. Return why the server is unfit, and the fix; empty: it
    is fit. Raises SqlRefused, NoReply."""
    (row,) = connection.rows(FACTS, within_s=within_s)[0]
    system, wal, started, pid, fsync, synchronous, standbys = ((value or b"").decode() for value in row)
    wrong = unfit(fsync=fsync, synchronous=synchronous, standbys=standbys)
    if wrong or not wal:
        return wrong or ("is a standby", "name the primary, too")
    connection.incarnation = Incarnation(system, int(wal[:8], 16), started)
    values = {
        "synchronous_commit": synchronous,
        "limit": f"{round(within_s * _BEFORE * 1000)}ms",
        "silent": f"{SILENT_S}s",
    }
    connection.rows(connection.text(_SETTINGS, values), within_s=within_s)
    connection.server_pid = int(pid)
    return ()


def unfit(*, fsync: str, synchronous: str, standbys: str) -> Sequence[str]:
    """Why a server with these settings is unfit, and the fix; empty: nothing."""
    if fsync == "off":
        return ("has fsync = off, and may lose what it has committed", "set fsync = on")
    if synchronous == "off":
        return (
            "has synchronous_commit = off for this user, and may lose what it has committed",
            "alter role ... set synchronous_commit = on",
        )
    if synchronous == "local" and standbys:
        return (
            "has synchronous_commit = local for this user: a failover may lose what it has committed",
            "alter role ... set synchronous_commit = on",
        )
    return ()
