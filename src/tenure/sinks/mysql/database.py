"""A table of a MySQL or MariaDB database: what these say otherwise than other databases (`sinks/sql/table.py`).

Promise: the ledger and the table are InnoDB's, so a batch and its row in the ledger are committed together. The server
itself ends a connection that is silent, and a server that says nothing to a new connection, or whose host is gone, is
away after half a minute. A value that would be changed on its way is an error. Not promised: an early
end of the statement of a client that died; the server completes the statement first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from math import ceil
from typing import Any, Final
from uuid import uuid4

import pymysql

from tenure.errors import QueryFailed, StorageError, UsageError
from tenure.sinks.mysql.columns import (
    ROW,
    ThereColumn,
    UniqueIndex,
    fits,
    made_for,
    refuse_keys_of_table,
    refuse_other_indexes,
    refuse_twins,
    refuse_types,
    tells_all_apart,
)
from tenure.sinks.mysql.inserting import connect
from tenure.sinks.mysql.url import parameters_of, with_password
from tenure.sinks.sql.columns import ATTEMPT, PARTITION
from tenure.sinks.sql.ledger_rules import LEDGER, Staged
from tenure.sinks.sql.table import PRACTICE, SqlTable, definitions

_AWAY: Final = frozenset(
    {
        *(1020, 1205, 1206, 1213),  # another transaction is in the way
        *(1021, 1030, 1041, 1114),  # the server has no space
        *(1040, 1203, 1226),  # it has too many connections
        *(1047, 1053, 1079, 1152, 1180, 1184, 1317, 1927, 4031),  # it ends, or has ended the connection
        *(1158, 1159, 1160, 1161),  # the line broke
        *(1290, 1792, 1836),  # it only reads: another server may have taken its place
    }
)
"""Numbers of errors whose cause passes. Those from 2000 to 2999 are of the client: the line broke."""

_STRICT: Final = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO,ERROR_FOR_DIVISION_BY_ZERO"
"""A value that does not fit is an error, 0 is 0, and a backslash escapes."""

_SESSION: Final = f"set session sql_mode = '{_STRICT}', time_zone = '+00:00'"
_FRESH: Final = "set session transaction isolation level read committed"
"""Each statement sees committed rows, and locks no gaps between them."""

_LIMITS: Final = (
    "wait_timeout",
    "net_read_timeout",
    "net_write_timeout",
    "innodb_lock_wait_timeout",
    "lock_wait_timeout",
)
_RIGHTS: Final[Mapping[str, tuple[str, int]]] = {
    "create": ("create table {} (n int, n int)", 1060),
    "drop": ("drop table {}", 1051),
    "select": ("select n from {}", 1146),
    "insert": ("insert into {} values (1)", 1146),
    "update": ("update {} set n = 1", 1146),
}
"""Right -> a statement that does nothing, and the error of who has the right."""
_PATIENCE: Final = timedelta(minutes=1)
_FOR_A_TASK: Final = timedelta(hours=8)
"""For how long a task may compute rows between two inserts."""


class MySqlTable(SqlTable):
    """The table, with its neighbours in the same database."""

    product = "MySQL"
    quote = "`"
    ledger_columns = (
        "query_id varchar(255) primary key, scope text not null, query text not null, batch bigint not null, "
        "epoch bigint not null, `before` bigint not null, changed timestamp not null default current_timestamp"
    )
    if_new = "on duplicate key update query_id = query_id"

    def __init__(self, url: str, table: str) -> None:
        """Raises UsageError."""
        self._given = parameters_of(url)
        self._collation: str | None = None  # None: not asked yet
        database = self._given["database"]
        super().__init__(table, schema=database, at=f"{self._given['host']}/{database}")

    @contextmanager
    def connected(self, *, limit: timedelta | None = None) -> Iterator[Any]:
        """See `SqlTable`."""
        connection = self._connect()
        try:
            for statement in settings(limit or _PATIENCE):
                self.execute(connection, statement)
            yield connection
        except pymysql.Error as error:
            if is_away(error):
                raise StorageError(f"{self}: {_words(error)}") from error
            raise QueryFailed(f"{self} refused a statement: {_words(error)}") from error
        finally:
            connection.close()

    def _connect(self) -> Any:
        try:
            return connect(self.parameters())
        except pymysql.Error as error:
            raise StorageError(f"{self}: {_words(error)}") from error
        except RuntimeError as error:
            raise UsageError(f"{self}: {error}", fix="pip install cryptography, or use TLS: ?ssl_ca=PATH") from error
        except OSError as error:  # a file of a certificate
            raise UsageError(f"{self}: {error}", fix="name a file that is there") from error

    @contextmanager
    def transaction(self, connection: Any) -> Iterator[Any]:
        """See `SqlTable`. An error leaves the transaction to the end of its connection."""
        self.execute(connection, "begin")
        yield connection
        self.execute(connection, "commit")

    def execute(self, connection: Any, text: str, values: Sequence[Any] = ()) -> Any:
        """See `SqlTable`."""
        cursor = connection.cursor()
        cursor.execute(text, tuple(values))
        return cursor

    def parameters(self) -> dict[str, Any]:
        """See `SqlTable`."""
        return {**with_password(self._given), "charset": "utf8mb4"}

    def ask(self) -> None:
        """See `SqlTable`. Each statement fails: for want of the right, or else for a reason that comes later."""
        with self.connected() as connection:
            self._refuse_settings(connection)
            nowhere = self._beside(f"tenure_doctor_{uuid4().hex}")
            for right, (statement, number) in _RIGHTS.items():
                try:
                    self.execute(connection, statement.format(nowhere))
                except pymysql.Error as error:
                    if error.args[0] == number:
                        continue
                    if is_away(error):
                        raise
                    user = self.parameters()["user"]
                    raise UsageError(
                        f"{self}: user {user!r} has no right to {right} in {self._schema!r}: {_words(error)}",
                        fix=f"grant {', '.join(_RIGHTS)} on {self._schema}.* to {user}",
                    ) from error

    # --- the table ---------------------------------------------------------------------------------------------------

    def engine(self) -> str:
        """See `SqlTable`. The server has said how it compares bytes."""
        collation = "" if self._collation is None else f" collate {self._collation}"
        return f" engine=InnoDB character set utf8mb4{collation}"

    def make(self, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        """See `SqlTable`."""
        with self.connected() as connection:
            self._refuse_settings(connection)
            self._refuse_engine(connection, LEDGER)
        super().make(columns, keys=keys)

    def _refuse_settings(self, connection: Any) -> None:
        """Refuse a server that cannot do what a batch needs, and learn how it compares text byte by byte."""
        asked = "select collation_name from information_schema.collations where character_set_name = 'utf8mb4'"
        found = [name for (name,) in self.execute(connection, asked).fetchall() if name and tells_all_apart(name)]
        if not found:
            raise UsageError(f"{self}: the server has no collation that compares bytes", fix="use MySQL 8 or MariaDB")
        self._collation = min(found, key=lambda name: (len(name), name))
        row = self.execute(connection, "select @@log_bin, @@binlog_format").fetchone()
        if row[0] and row[1] == "STATEMENT":
            raise UsageError(f"{self}: the server logs statements", fix="set its binlog_format to ROW or MIXED")

    def _refuse_engine(self, connection: Any, name: str) -> None:
        asked = "select engine, table_type from information_schema.tables where table_schema = %s and table_name = %s"
        row = self.execute(connection, asked, (self._schema, name)).fetchone()
        if row is not None and row[0] != "InnoDB":
            what = row[0] or row[1].lower()
            raise UsageError(
                f"{self}: {name} is {what}, which has no transactions", fix=f"alter table {name} engine=InnoDB"
            )

    def _exists(self, connection: Any, name: str) -> bool:
        asked = "select 1 from information_schema.tables where table_schema = %s and table_name = %s"
        return self.execute(connection, asked, (self._schema, name)).fetchone() is not None

    def _create(self, connection: Any, statement: str) -> None:
        """Two members may make the same table at once; the second finds it there."""
        self.execute(connection, statement)

    def _columns_there(self, connection: Any) -> Mapping[str, bool]:
        return {one.name: one.needed for one in self._there(connection)}

    def _there(self, connection: Any) -> list[ThereColumn]:
        asked = (
            "select column_name, data_type, datetime_precision, collation_name, is_nullable, column_default, extra, "
            "coalesce(generation_expression, '') from information_schema.columns "
            "where table_schema = %s and table_name = %s"
        )
        found = []
        for name, kind, fraction, collation, null, default, extra, made in self.execute(
            connection, asked, (self._schema, self._name)
        ).fetchall():
            numbered = "auto_increment" in extra
            needed = null == "NO" and default is None and not numbered and not made
            found.append(ThereColumn(name, kind.lower(), fraction, collation, needed, numbered))
        return found

    def _refuse_types(self, connection: Any, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        there = self._there(connection)
        refuse_twins(columns)
        self._refuse_engine(connection, self._name)
        refuse_types(columns, there, where=str(self))
        if keys:
            indexes = self._indexes(connection)
            if not fits(indexes, keys):
                raise self._no_index(keys)
            fitting = self._collation or "utf8mb4_nopad_bin, or utf8mb4_0900_bin"
            refuse_keys_of_table(keys, there, where=str(self), fitting=fitting)
            refuse_other_indexes(indexes, keys, there, columns, where=str(self))

    def _indexes(self, connection: Any) -> list[UniqueIndex]:
        asked = (
            "select index_name, column_name, sub_part from information_schema.statistics "
            "where table_schema = %s and table_name = %s and non_unique = 0 order by index_name, seq_in_index"
        )
        found = self.execute(connection, asked, (self._schema, self._name)).fetchall()
        return [
            UniqueIndex(name, [(column, part) for _, column, part in rows])
            for name, rows in groupby(found, key=lambda row: str(row[0]))
        ]

    def _folded(self, name: str) -> str:
        return name.lower()

    def _defined(self, columns: Mapping[str, str], keys: Sequence[str]) -> Mapping[str, str]:
        refuse_twins(columns)
        return made_for(columns, keys)

    # --- staging and the batch ---------------------------------------------------------------------------------------

    def staging_definition(self, name: str, columns: Mapping[str, str], *, temporary: bool = False) -> str:
        """See `SqlTable`."""
        defined = {ROW: "bigint auto_increment primary key", **columns, **self.task_columns}
        kind = "temporary table" if temporary else "table"
        return f"create {kind} {name} ({definitions(self, defined)}){self.engine()}"

    def insert_into(self, name: str | None, columns: Mapping[str, str]) -> str:
        """The statement, up to its rows, by which a task writes into a staging table; None: into a rehearsal's."""
        place = self.quoted(PRACTICE) if name is None else f"{self.quoted(self._schema)}.{self.quoted(name)}"
        return f"insert into {place} ({', '.join(map(self.quoted, [*columns, PARTITION, ATTEMPT]))}) values "

    def _accepted(self, staged: Staged) -> tuple[str, Sequence[Any]]:
        tasks = ", ".join(f"({int(partition)}, {int(attempt)})" for partition, attempt in staged.accepted)
        return f"(s.{PARTITION}, s.{ATTEMPT}) in ({tasks})", ()

    def _add(self, connection: Any, rows: tuple[str, Sequence[Any]], names: Sequence[str], keys: Sequence[str]) -> int:
        text, values = rows
        if keys:  # a second row of the same keys would replace the first without a word
            of_keys = self.names(keys, of="s.")
            twice = f"select 1 {text} group by {of_keys} having count(*) > 1 limit 1"
            if self.execute(connection, twice, values).fetchone() is not None:
                raise self._two_rows(keys)
        # What an upsert says of its rows is no count of them.
        count = int(self.execute(connection, f"select count(*) {text}", values).fetchone()[0])
        statement = f"insert into {self._table} ({self.names(names)}) select {self.names(names, of='s.')} {text}"
        cursor = self.execute(connection, statement + self._on_duplicate(names, keys), values)
        if cursor.warning_count:
            why = self.execute(connection, "show warnings").fetchone()[2]
            raise QueryFailed(f"{self} would change a value: {why}", fix="give its column a type that holds the rows")
        return count

    def _on_duplicate(self, names: Sequence[str], keys: Sequence[str]) -> str:
        if not keys:
            return ""
        rest = [name for name in names if name not in keys] or keys
        taken = ", ".join(f"{self._table}.{self.name(name)} = s.{self.name(name)}" for name in rest)
        return f" on duplicate key update {taken}"


def settings(limit: timedelta) -> tuple[str, ...]:
    """The statements that begin a connection. `limit`: for how long it may be silent, or wait for a lock."""
    seconds = max(1, ceil(limit.total_seconds()))
    return (_SESSION, _FRESH, "set session " + ", ".join(f"{name} = {seconds}" for name in _LIMITS))


def settings_of_a_task() -> tuple[str, ...]:
    """The same, of a task, whose rows may take their time."""
    return settings(_FOR_A_TASK)


def is_away(error: BaseException) -> bool:
    """Whether the cause of an error of PyMySQL may pass, and nobody knows what became of the statement."""
    number = error.args[0] if error.args else None
    return not isinstance(number, int) or is_away_by(number)


def is_away_by(number: int) -> bool:
    """The same, by the number of the error; 0: the connection was closed."""
    return number == 0 or number in _AWAY or 2000 <= number < 3000


def _words(error: BaseException) -> str:
    return " ".join(str(error.args[-1] if error.args else error).split()) or type(error).__name__
