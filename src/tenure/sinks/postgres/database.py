"""A table of a PostgreSQL database: what PostgreSQL says otherwise than other databases (`sinks/sql/table.py`).

Promise: PostgreSQL itself ends a transaction whose client is silent, or whose client died in a long statement. A server
whose host is gone is away after half a minute, and a server that says nothing to a new connection after two (psycopg).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any, Final

import psycopg

from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.libpq import ELSEWHERE, one_line, parameters_of
from tenure.sinks.sql.columns import ATTEMPT, PARTITION
from tenure.sinks.sql.ledger_rules import Staged
from tenure.sinks.sql.table import PRACTICE, SqlTable, definitions

_AWAY: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,  # of another class, since the state of the transaction is wrong
    psycopg.errors.TransactionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
)
"""The server cannot be reached, went away, has ended the connection, or has another transaction in the way. Or it only
reads: another server may have taken its place, or its disk is filling."""

_OF_A_FILE: Final = ("service", "servicefile", "passfile")
"""Parameters that name files of this host. A connection has their content."""

_LIMITS: Final = """
select set_config(name, case name when 'client_connection_check_interval' then '1s' else %(limit)s end, false)
from pg_settings
where name in ('idle_in_transaction_session_timeout', 'lock_timeout', 'client_connection_check_interval')
"""
"""A statement that works has no limit: a long one would never end."""


_SILENT_LINE: Final = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
"""A host that does not answer for half a minute is gone. Linux waits for two hours by itself."""


def is_away_by(name: str) -> bool:
    """Whether the class of psycopg's errors with this name is of those whose cause passes."""
    kind = getattr(psycopg.errors, name, None) or getattr(psycopg, name, None)
    return isinstance(kind, type) and issubclass(kind, _AWAY)


class PostgresTable(SqlTable):
    """The table, with its neighbours in the same schema."""

    product = "PostgreSQL"
    quote = '"'
    ledger_columns = (
        "query_id text primary key, scope text not null, query text not null, batch bigint not null, "
        "epoch bigint not null, before bigint not null, changed timestamptz not null default now()"
    )
    if_new = "on conflict (query_id) do nothing"

    def __init__(self, url: str, table: str) -> None:
        """Raises UsageError."""
        self._given = _parameters(url)
        place = "/".join(str(self._given[part]) for part in ("host", "dbname") if part in self._given)
        super().__init__(table, schema="public", at=place)

    @contextmanager
    def connected(self, *, limit: timedelta | None = None) -> Iterator[psycopg.Connection[Any]]:
        """See `SqlTable`. With a limit the server looks each second whether the client is still there, too."""
        try:
            with psycopg.connect(**self._given, autocommit=True, application_name="tenure") as connection:
                if limit is not None:
                    connection.execute(_LIMITS, {"limit": f"{_ms(limit)}ms"})
                yield connection
        except _AWAY as error:
            raise StorageError(f"{self}: {one_line(error)}") from error
        except psycopg.Error as error:
            raise QueryFailed(f"{self} refused a statement: {one_line(error)}") from error

    def transaction(self, connection: psycopg.Connection[Any]) -> AbstractContextManager[Any]:
        """See `SqlTable`."""
        return connection.transaction()

    def execute(self, connection: psycopg.Connection[Any], text: str, values: Sequence[Any] = ()) -> Any:
        """See `SqlTable`."""
        return connection.execute(text.encode(), values)

    def parameters(self) -> dict[str, Any]:
        """See `SqlTable`."""
        with self.connected() as connection:
            found = dict(connection.info.get_parameters())
            if connection.info.password:
                found["password"] = connection.info.password
        return {name: value for name, value in found.items() if name not in _OF_A_FILE}

    def ask(self) -> None:
        """See `SqlTable`."""
        with self.connected() as connection:
            asked = "select has_schema_privilege(current_user, %s, 'create'), current_user"
            row = connection.execute(asked, (self._schema,)).fetchone()
            if row is None or not row[0]:
                user = "" if row is None else row[1]
                raise UsageError(
                    f"{self}: user {user!r} may not create tables in schema {self._schema!r}",
                    fix=f"grant create on schema {self._schema} to {user}",
                )

    def _exists(self, connection: psycopg.Connection[Any], name: str) -> bool:
        row = connection.execute("select to_regclass(%s) is not null", (self._reference(name),)).fetchone()
        return bool(row and row[0])

    def _create(self, connection: psycopg.Connection[Any], statement: str) -> None:
        """Two members may make the same table at once."""
        try:
            self.execute(connection, statement)
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject):
            return

    def _columns_there(self, connection: psycopg.Connection[Any]) -> Mapping[str, bool]:
        found = connection.execute(
            "select attname, attnotnull and not atthasdef and attidentity = '' from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            (self._reference(self._name),),
        )
        return dict(found.fetchall())

    def _refuse_types(self, connection: Any, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        """An index tells two keys apart as Spark does, and an upsert goes by the index over the keys alone."""
        found = connection.execute(
            "select array(select attname::text from pg_attribute where attrelid = indrelid and attnum = any(indkey)) "
            "from pg_index where indrelid = %s::regclass and indisunique and indpred is null and indexprs is null",
            (self._reference(self._name),),
        )
        if keys and not any(set(names) == set(keys) for (names,) in found):
            raise self._no_index(keys)

    def staging_definition(self, name: str, columns: Mapping[str, str], *, temporary: bool = False) -> str:
        """See `SqlTable`. A server that crashes empties an unlogged table."""
        kind = "temporary" if temporary else "unlogged"
        return f"create {kind} table {name} ({definitions(self, {**columns, **self.task_columns})})"

    def copy_into(self, name: str | None, columns: Mapping[str, str]) -> str:
        """The statement by which a task copies rows into a staging table; None: into that of a rehearsal."""
        place = PRACTICE if name is None else f"{self.quoted(self._schema)}.{self.quoted(name)}"
        return f"copy {place} ({', '.join(map(self.quoted, [*columns, PARTITION, ATTEMPT]))}) from stdin (format csv)"

    def _accepted(self, staged: Staged) -> tuple[str, Sequence[Any]]:
        tasks = [[pair[number] for pair in staged.accepted] for number in (0, 1)]
        return f"({PARTITION}, {ATTEMPT}) in (select * from unnest(%s::integer[], %s::bigint[]))", tasks

    def _add(self, connection: Any, rows: tuple[str, Sequence[Any]], names: Sequence[str], keys: Sequence[str]) -> int:
        text, values = rows
        statement = f"insert into {self._table} ({self.names(names)}) select {self.names(names)} {text}"
        try:
            return int(self.execute(connection, statement + self._on_conflict(names, keys), values).rowcount)
        except psycopg.errors.CardinalityViolation as error:
            raise self._two_rows(keys) from error

    def _on_conflict(self, names: Sequence[str], keys: Sequence[str]) -> str:
        if not keys:
            return ""
        rest = [name for name in names if name not in keys] or keys
        taken = ", ".join(f"{self.name(name)} = excluded.{self.name(name)}" for name in rest)
        return f" on conflict ({self.names(keys)}) do update set {taken}"

    def _reference(self, name: str) -> str:
        return f"{self.quoted(self._schema)}.{self.quoted(name)}"


def _parameters(url: str) -> dict[str, Any]:
    """What the URL says, and how soon a silent host is gone where it does not say."""
    found = parameters_of(url, "a Postgres sink")
    if found.pop("password", None) is not None:
        raise UsageError("the URL of a Postgres sink has a password", fix=ELSEWHERE)
    return {**_SILENT_LINE, **found}


def _ms(limit: timedelta) -> int:
    return max(1, int(limit.total_seconds() * 1000))
