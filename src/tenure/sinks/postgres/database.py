"""One table of a PostgreSQL database, the staging tables beside it, and the ledger of batches.

The ledger has one row for each id of a query: the newest batch that the table has, and the newest epoch that wrote. A
row of the ledger and the rows of its batch change in one transaction.

Promise (I3): `move` adds a batch once, over any number of calls, and never under a lower epoch than the newest.
PostgreSQL itself ends a transaction whose client is silent (`limit`), so a leader that is paused keeps nobody waiting.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg
from psycopg import sql

from tenure.errors import Fenced, QueryFailed, StorageError, UsageError
from tenure.libpq import ELSEWHERE, one_line, parameters_of
from tenure.sinks.postgres.columns import ATTEMPT, PARTITION

LEDGER: Final = "tenure_ledger"

_AWAY: Final = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,  # of another class, since the state of the transaction is wrong
)
"""The server cannot be reached, went away, has ended the connection, or has another transaction in the way."""

_OF_A_FILE: Final = ("service", "servicefile", "passfile")
"""Parameters that name files of this host. A connection has their content."""

_ACCEPTED: Final = f"({PARTITION}, {ATTEMPT}) in (select * from unnest(%s::integer[], %s::bigint[]))"

_LIMITS: Final = """
select set_config(name, case name when 'client_connection_check_interval' then '1s' else %(limit)s end, false)
from pg_settings
where name in ('idle_in_transaction_session_timeout', 'lock_timeout', 'client_connection_check_interval')
"""
"""A statement that works has no limit: a long one would never end."""

_CLAIM: Final = """
insert into {ledger} as l (query_id, scope, query, batch, epoch, before)
values (%(query_id)s, %(scope)s, %(query)s, %(batch)s, %(epoch)s, -1)
on conflict (query_id) do update set
  scope = excluded.scope, query = excluded.query, epoch = excluded.epoch, changed = now(),
  before = l.batch, batch = greatest(l.batch, excluded.batch)
where l.epoch <= excluded.epoch and (l.scope = excluded.scope or l.batch < excluded.batch)
returning before
"""
"""A batch of another scope counts for nothing here: two scopes adopted one copy of a checkpoint, and read different
input."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch of a query, under an epoch."""

    scope: str
    query: str
    query_id: str
    batch: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows in a staging table. `accepted`: (partition, attempt) of each task that counts. `rows`: how many in all."""

    table: str
    accepted: Sequence[tuple[int, int]]
    rows: int


class PostgresTable:
    """The table, with its neighbours in the same schema. Each call has a connection of its own."""

    def __init__(self, url: str, table: str) -> None:
        """Raises UsageError."""
        self._given = _parameters(url)
        schema, _, self._name = table.rpartition(".")
        self._schema = schema or "public"
        if not self._name or "." in self._schema:
            raise UsageError(f"table {table!r} is not the name of a table", fix="write TABLE or SCHEMA.TABLE")

    def __str__(self) -> str:
        place = "/".join(str(self._given[part]) for part in ("host", "dbname") if part in self._given)
        return f"table {self._schema}.{self._name} of PostgreSQL{f' at {place}' if place else ''}"

    @contextmanager
    def connected(self, *, limit: timedelta | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A connection in autocommit. `limit`: for how long a transaction of it may be silent or wait for a lock;
        then the server looks each second whether the client is still there, too.

        Raises StorageError: the server cannot be reached, or went away; QueryFailed: it refused a statement.
        """
        try:
            with psycopg.connect(**self._given, autocommit=True, application_name="tenure") as connection:
                if limit is not None:
                    connection.execute(_LIMITS, {"limit": f"{_ms(limit)}ms"})
                yield connection
        except _AWAY as error:
            raise StorageError(f"{self}: {one_line(error)}") from error
        except psycopg.Error as error:
            raise QueryFailed(f"{self} refused a statement: {one_line(error)}") from error

    def parameters(self) -> dict[str, Any]:
        """How an executor connects: all that this host's environment, passfile and services say. Has the password."""
        with self.connected() as connection:
            found = dict(connection.info.get_parameters())
            if connection.info.password:
                found["password"] = connection.info.password
        return {name: value for name, value in found.items() if name not in _OF_A_FILE}

    def ask(self) -> None:
        """Connect, and ask whether this user may make the tables of a batch. Raises UsageError, StorageError,
        QueryFailed."""
        with self.connected() as connection:
            asked = "select has_schema_privilege(current_user, %s, 'create'), current_user"
            row = connection.execute(asked, (self._schema,)).fetchone()
            if row is None or not row[0]:
                user = "" if row is None else row[1]
                raise UsageError(
                    f"{self}: user {user!r} may not create tables in schema {self._schema!r}",
                    fix=f"grant create on schema {self._schema} to {user}",
                )

    # --- the table --------------------------------------------------------------------------------------------------

    def make(self, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        """Make the ledger, and the table where there is none. Raises UsageError: the rows do not fit into the table
        that is there."""
        with self.connected() as connection:
            if not self._exists(connection, LEDGER):
                self._make_quietly(connection, sql.SQL(_LEDGER_TABLE).format(ledger=self._beside(LEDGER)))
            if not self._exists(connection, self._name):
                defined: list[sql.Composable] = _definitions(columns)
                if keys:
                    defined.append(sql.SQL("primary key ({})").format(_names(keys)))
                made = sql.SQL("create table if not exists {} ({})").format(self._table, sql.SQL(", ").join(defined))
                self._make_quietly(connection, made)
            self._refuse(connection, columns, keys=keys)

    def look(self, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        """Refuse rows that do not fit into the table, if it is there. Raises UsageError."""
        with self.connected() as connection:
            if self._exists(connection, self._name):
                self._refuse(connection, columns, keys=keys)

    def _refuse(self, connection: psycopg.Connection[Any], columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        found = connection.execute(
            "select attname, attnotnull and not atthasdef and attidentity = '' from pg_attribute "
            "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            (self._table.as_string(connection),),
        )
        there = dict(found.fetchall())
        if lacking := [name for name in columns if name not in there]:
            raise UsageError(f"{self} lacks column {lacking[0]!r} of the rows", fix="add it, or leave it out")
        if needed := [name for name, need in there.items() if need and name not in columns]:
            raise UsageError(f"{self} needs column {needed[0]!r}, which the rows lack", fix="add it to the rows")
        if keys and not self._is_unique(connection, keys):
            raise UsageError(
                f"{self} has no unique index over exactly {', '.join(keys)}",
                fix=f"create unique index on {self._schema}.{self._name} ({', '.join(keys)})",
            )

    def _is_unique(self, connection: psycopg.Connection[Any], keys: Sequence[str]) -> bool:
        found = connection.execute(
            "select array(select attname::text from pg_attribute where attrelid = indrelid and attnum = any(indkey)) "
            "from pg_index where indrelid = %s::regclass and indisunique and indpred is null and indexprs is null",
            (self._table.as_string(connection),),
        )
        return any(set(names) == set(keys) for (names,) in found)

    # --- staging ----------------------------------------------------------------------------------------------------

    def make_staging(self, name: str, columns: Mapping[str, str], *, limit: timedelta) -> None:
        """Make an empty staging table, in the place of a table of that name. Raises StorageError: somebody uses it."""
        defined = _definitions({**columns, PARTITION: "integer", ATTEMPT: "bigint"})
        with self.connected(limit=limit) as connection, connection.transaction():
            connection.execute(sql.SQL("drop table if exists {}").format(self._beside(name)))
            made = sql.SQL("create unlogged table {} ({})").format(self._beside(name), sql.SQL(", ").join(defined))
            connection.execute(made)

    def copy_into(self, name: str, columns: Mapping[str, str]) -> str:
        """The statement by which a task copies rows into a staging table."""
        statement = sql.SQL("copy {} ({}) from stdin (format csv)")
        return statement.format(self._beside(name), _names([*columns, PARTITION, ATTEMPT])).as_string()

    def copy_for_practice(self, columns: Mapping[str, str]) -> tuple[str, str]:
        """A table that ends with its connection, and the statement that copies into it."""
        defined = _definitions({**columns, PARTITION: "integer", ATTEMPT: "bigint"})
        made = sql.SQL("create temporary table tenure_rehearsal ({})").format(sql.SQL(", ").join(defined))
        copied = sql.SQL("copy tenure_rehearsal ({}) from stdin (format csv)")
        return made.as_string(), copied.format(_names([*columns, PARTITION, ATTEMPT])).as_string()

    def staging_tables(self, prefix: str) -> list[str]:
        """The staging tables whose names begin so."""
        with self.connected() as connection:
            found = connection.execute(
                "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
                "where n.nspname = %s and starts_with(c.relname, %s) and c.relkind = 'r' order by 1",
                (self._schema, prefix),
            )
            return [name for (name,) in found]

    def drop(self, name: str, *, limit: timedelta) -> None:
        """Drop a staging table, if it is there. Raises StorageError: somebody uses it."""
        with self.connected(limit=limit) as connection:
            connection.execute(sql.SQL("drop table if exists {}").format(self._beside(name)))

    # --- the batch --------------------------------------------------------------------------------------------------

    def move(
        self, claim: Claim, staged: Staged, columns: Mapping[str, str], *, keys: Sequence[str], limit: timedelta
    ) -> bool:
        """Move the rows of a batch into the table, once; return whether the table has had the batch before.

        Raises Fenced: a higher epoch has written; QueryFailed: the rows are not those that the tasks wrote, or break a
        rule of the table, or the ledger lacks batches before, or has the batch of another scope; StorageError: nobody
        knows whether the rows were moved.
        """
        with self.connected(limit=limit) as connection, connection.transaction():
            before = self._claim(connection, claim)
            if before is None:
                raise self._refusal(connection, claim)
            if 0 <= before < claim.batch - 1:  # each batch is noted, also without rows
                raise QueryFailed(
                    f"{self} has query {claim.query!r} up to batch {before}, and batch {claim.batch} is next: the "
                    "database was restored from an older copy",
                    fix="restore the newer database, or begin anew with another --scope and an empty table",
                )
            repeated = before >= claim.batch
            if not repeated and staged.rows:
                self._insert(connection, staged, columns, keys)
            connection.execute(sql.SQL("drop table if exists {}").format(self._beside(staged.table)))
        return repeated

    def newest(self, query_id: str) -> tuple[int, int, int] | None:
        """The newest batch of a query in the ledger, the epoch that wrote last, and the newest batch before that; None:
        the ledger has none."""
        with self.connected() as connection:
            found = connection.execute(
                self._sql("select batch, epoch, before from {ledger} where query_id = %s", ledger=self._beside(LEDGER)),
                (query_id,),
            )
            row = found.fetchone()
            return None if row is None else (int(row[0]), int(row[1]), int(row[2]))

    def _claim(self, connection: psycopg.Connection[Any], claim: Claim) -> int | None:
        """Note the batch in the ledger, and return the newest batch before; None: the ledger refuses it. The row stays
        locked until the transaction ends."""
        values = {name: getattr(claim, name) for name in Claim.__slots__}
        row = connection.execute(self._sql(_CLAIM, ledger=self._beside(LEDGER)), values).fetchone()
        return None if row is None else int(row[0])

    def _refusal(self, connection: psycopg.Connection[Any], claim: Claim) -> Fenced | QueryFailed:
        """Why the ledger has refused a claim."""
        found = self._sql("select scope, batch from {ledger} where query_id = %s", ledger=self._beside(LEDGER))
        scope, batch = connection.execute(found, (claim.query_id,)).fetchone() or (claim.scope, -1)
        if scope != claim.scope and batch >= claim.batch:
            return QueryFailed(
                f"{self} has batch {claim.batch} of query {claim.query!r} from scope {scope!r}: two scopes have "
                "adopted one copy of a checkpoint",
                fix="copy the checkpoint for each scope: tenure export --batch gives each copy an id of its own",
            )
        return Fenced(f"{self} has seen a higher epoch than {claim.epoch} of query {claim.query!r}")

    def _insert(
        self,
        connection: psycopg.Connection[Any],
        staged: Staged,
        columns: Mapping[str, str],
        keys: Sequence[str],
    ) -> None:
        rows = sql.SQL("from {} where " + _ACCEPTED).format(_beside_values(self._beside(staged.table)))
        tasks = [[pair[number] for pair in staged.accepted] for number in (0, 1)]
        for key in keys:
            without = sql.SQL("select 1 {} and {} is null limit 1").format(rows, _beside_values(sql.Identifier(key)))
            if connection.execute(without, tasks).fetchone() is not None:
                raise QueryFailed(f"a row of a batch has no {key}, which is a key of {self}", fix="filter such rows")
        statement = sql.SQL("insert into {} ({names}) select {names} {}{}").format(
            _beside_values(self._table),
            rows,
            _beside_values(_on_conflict(columns, keys)),
            names=_beside_values(_names(list(columns))),
        )
        try:
            moved = connection.execute(statement, tasks).rowcount
        except psycopg.errors.CardinalityViolation as error:
            raise QueryFailed(
                f"a batch has two rows with the same {', '.join(keys)}, for {self}", fix="group the rows by the keys"
            ) from error
        if moved != staged.rows:  # a server that crashed has emptied the staging table
            raise QueryFailed(
                f"{self}: {staged.rows} rows were staged, and {moved} are there", fix="the batch runs again"
            )

    # --- names ------------------------------------------------------------------------------------------------------

    @property
    def _table(self) -> sql.Identifier:
        return sql.Identifier(self._schema, self._name)

    def _beside(self, name: str) -> sql.Identifier:
        return sql.Identifier(self._schema, name)

    def _sql(self, text: str, **names: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**{name: _beside_values(one) for name, one in names.items()})

    def _exists(self, connection: psycopg.Connection[Any], name: str) -> bool:
        asked = (self._beside(name).as_string(connection),)
        row = connection.execute("select to_regclass(%s) is not null", asked).fetchone()
        return bool(row and row[0])

    def _make_quietly(self, connection: psycopg.Connection[Any], statement: sql.Composed) -> None:
        """Two members may make the same table at once."""
        try:
            connection.execute(statement)
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject):
            return


_LEDGER_TABLE: Final = """
create table if not exists {ledger} (
  query_id text primary key, scope text not null, query text not null, batch bigint not null, epoch bigint not null,
  before bigint not null, changed timestamptz not null default now()
)
"""


def _parameters(url: str) -> dict[str, Any]:
    found = parameters_of(url, "a Postgres sink")
    if found.pop("password", None) is not None:
        raise UsageError("the URL of a Postgres sink has a password", fix=ELSEWHERE)
    return found


def _definitions(columns: Mapping[str, str]) -> list[sql.Composable]:
    return [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in columns.items()]


def _names(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, columns))


def _beside_values(names: sql.Composable) -> sql.SQL:
    """Names for a statement with values. There a value begins with `%`, also within a quoted name."""
    return sql.SQL(names.as_string().replace("%", "%%"))


def _on_conflict(columns: Mapping[str, str], keys: Sequence[str]) -> sql.Composable:
    if not keys:
        return sql.SQL("")
    rest = [name for name in columns if name not in keys] or keys
    taken = [sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in rest]
    return sql.SQL(" on conflict ({}) do update set {}").format(_names(keys), sql.SQL(", ").join(taken))


def _ms(limit: timedelta) -> int:
    return max(1, int(limit.total_seconds() * 1000))
