"""The tables of PostgreSQL that a run writes to, and what the server says of its members: who is in a transaction, and
for how long somebody waits for another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import psycopg
from psycopg import sql

from tests.crash.truth import Row
from tests.soak.kinds import KINDS
from tests.soak.plan import POSTGRES, Query

_TYPES: Final = {"at": "timestamptz", "tag": "text"}
"""Of columns; all others are numbers."""

_SLOW: Final = """
create function {schema}.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.2); return null; end $$
"""
"""Each move of rows takes so long that members are stopped in the middle of some."""

_MOVES: Final = """
select exists (select from pg_stat_activity where application_name = 'tenure' and backend_type = 'client backend'
  and state like %s and query like %s)
"""

_LONGEST_WAIT: Final = """
select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)
from pg_locks l join pg_stat_activity a using (pid) where not l.granted and a.application_name = 'tenure'
"""

_THROW_OUT: Final = """
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = 'tenure' and backend_type = 'client backend'
"""


class Database:
    """The schema of one run. Thread-safe, as its connection is."""

    def __init__(self, url: str, schema: str) -> None:
        """`schema`: has the name of the run's folder."""
        self._url, self._schema = url, schema
        self.longest_wait_s = 0.0
        """For how long a member has waited for a lock, as far as `look` has seen."""

    def make(self, queries: Sequence[Query]) -> None:
        """Make the schema anew, with the tables of the queries."""
        self._connection.execute(self._named("drop schema if exists {schema} cascade"))
        self._connection.execute(self._named("create schema {schema}"))
        self._connection.execute(self._named(_SLOW))
        for query in queries:
            if query.sink == POSTGRES:
                self._make_table(query)

    def _make_table(self, query: Query) -> None:
        kind = KINDS[query.kind]
        columns = [f"{name} {_TYPES.get(name, 'bigint')}" for name in kind.columns]
        keys = [f"primary key ({', '.join(kind.key)})"] if kind.key else []
        table = sql.Identifier(self._schema, query.name)
        made = sql.SQL("create table {} ({})").format(table, sql.SQL(", ".join([*columns, *keys])))
        self._connection.execute(made)
        slow = "create trigger slow after insert on {} for each statement execute function {}()"
        self._connection.execute(sql.SQL(slow).format(table, sql.Identifier(self._schema, "slow")))

    def rows(self, query: Query) -> list[Row]:
        """What is in the table of a query."""
        columns = sql.SQL(", ".join(KINDS[query.kind].columns))
        chosen = sql.SQL("select {} from {}").format(columns, sql.Identifier(self._schema, query.name))
        return [tuple(row) for row in self._connection.execute(chosen).fetchall()]

    def moves(self) -> bool:
        """Whether the server moves rows of a batch now."""
        return self._is_in(state="active")

    def holds(self) -> bool:
        """Whether somebody who moved rows is silent and has not committed."""
        return self._is_in(state="idle in transaction%")

    def look(self) -> None:
        """Look for how long members wait for each other now."""
        found = self._connection.execute(_LONGEST_WAIT).fetchall()[0][0]
        self.longest_wait_s = max(self.longest_wait_s, float(found))

    def leave(self) -> None:
        """Throw the members out, and admit nobody: what a restart of the server looks like to them."""
        self._admits(False)
        self._connection.execute(_THROW_OUT)

    def come_back(self) -> None:
        """Admit everybody again."""
        self._admits(True)

    def _admits(self, yes: bool) -> None:
        """Said by a connection to another database: nobody can shut the one that he is in."""
        assert self._connection.closed is False  # its own connection is there before the door is shut
        name = self._connection.info.dbname
        with psycopg.connect(self._url, dbname="template1", autocommit=True) as other:
            other.execute(
                sql.SQL("alter database {} allow_connections {}").format(sql.Identifier(name), sql.Literal(yes))
            )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _is_in(self, *, state: str) -> bool:
        return bool(self._connection.execute(_MOVES, (state, f'insert into "{self._schema}"%')).fetchall()[0][0])

    def _named(self, text: str) -> sql.Composed:
        return sql.SQL(text).format(schema=sql.Identifier(self._schema))

    @cached_property
    def _connection(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True, options="-c timezone=UTC")
