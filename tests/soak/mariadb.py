"""The tables of MySQL that a run writes to, on a MariaDB that is killed and hangs, and what the server says of its
members: who is in a transaction, and for how long somebody waits for another one.

Promise: while the server is away, `rows` and the longest wait stay as they were, and nobody is in a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pymysql

from tests.crash.truth import Row
from tests.kit.servers import MariaDbServer
from tests.soak.kinds import KINDS
from tests.soak.plan import MYSQL, Query
from tests.soak.targets import ServerAway

_TYPES: Final = {"at": "datetime(6)", "tag": "varchar(255)"}
"""Of columns; all others are numbers."""

_SLOW: Final = """
create trigger `slow_{0}` before insert on `{0}` for each row
if coalesce(@began, 0) <> now(6) then set @began = now(6); do sleep(0.2); end if
"""
"""Each move of rows takes so long that members are stopped in the middle of some: in a trigger, `now` is the moment at
which the statement began."""

_ANSWER_S: Final = 5

_MOVES: Final = """
select exists (select 1 from information_schema.processlist where db = %s and command = 'Query'
  and info like 'insert into%%select%%')
"""

_HOLDS: Final = """
select exists (select 1 from information_schema.innodb_trx t join information_schema.processlist p
  on p.id = t.trx_mysql_thread_id where p.db = %s and p.command = 'Sleep' and t.trx_rows_modified > 0)
"""

_LONGEST_WAIT: Final = """
select coalesce(max(timestampdiff(microsecond, t.trx_wait_started, now(6))), 0) / 1e6
from information_schema.innodb_trx t join information_schema.processlist p on p.id = t.trx_mysql_thread_id
where p.db = %s and t.trx_state = 'LOCK WAIT'
"""


class MariaDb:
    """The database of one run. One thread asks; another one lets the server leave and come back."""

    def __init__(self, server: MariaDbServer, name: str) -> None:
        """`name`: that of the run's folder."""
        self._server, self._name = server, name
        self._connection: Any = None  # None: not used yet, or broken
        self._read: dict[str, list[Row]] = {}  # query -> what was in its table
        self._away = ServerAway(server)
        self.longest_wait_s = 0.0
        """For how long a member has waited for a lock, as far as `look` has seen."""

    def make(self, queries: Sequence[Query]) -> None:
        """Make the database anew, with the tables of the queries."""
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"drop database if exists `{self._name}`")
            cursor.execute(f"create database `{self._name}`")
            cursor.execute(f"use `{self._name}`")
            for query in queries:
                if query.sink == MYSQL:
                    kind = KINDS[query.kind]
                    columns = [f"`{name}` {_TYPES.get(name, 'bigint')}" for name in kind.columns]
                    keys = [f"primary key ({', '.join(f'`{name}`' for name in kind.key)})"] if kind.key else []
                    cursor.execute(f"create table `{query.name}` ({', '.join([*columns, *keys])}) engine=InnoDB")
                    cursor.execute(_SLOW.format(query.name))

    def rows(self, query: Query) -> list[Row]:
        """What is in the table of a query."""
        columns = ", ".join(f"`{name}`" for name in KINDS[query.kind].columns)
        found = self._ask(f"select {columns} from `{self._name}`.`{query.name}`")
        if found is not None:
            self._read[query.name] = [tuple(map(_plain, row)) for row in found]
        return self._read.get(query.name, [])

    def moves(self) -> bool:
        """Whether the server moves rows of a batch now."""
        return self._is_so(_MOVES)

    def holds(self) -> bool:
        """Whether somebody who moved rows is silent and has not committed."""
        return self._is_so(_HOLDS)

    def look(self) -> None:
        """Look for how long members wait for each other now."""
        for (found,) in self._ask(_LONGEST_WAIT, self._name) or ():
            self.longest_wait_s = max(self.longest_wait_s, float(found))

    def leave(self) -> None:
        """Take the server away."""
        self._away.leave()

    def come_back(self) -> None:
        """Bring the server back."""
        self._away.come_back()

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_so(self, asked: str) -> bool:
        return any(found for (found,) in self._ask(asked, self._name) or ())

    def _ask(self, asked: str, *values: str) -> Sequence[tuple[Any, ...]] | None:
        """The answer; None: the server is away."""
        try:
            if self._connection is None:
                self._connection = self._server.connect(connect_timeout=_ANSWER_S, read_timeout=_ANSWER_S)
            with self._connection.cursor() as cursor:
                cursor.execute(asked, values)
                return list(cursor.fetchall())
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
            self._connection = None
            return None


def _plain(value: object) -> Any:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
