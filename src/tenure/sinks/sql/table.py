"""One table of a database, the staging tables beside it, and the ledger of batches: the same steps for each database.

The ledger has one row for each id of a query (`ledger_rules`). The row and the rows of its batch change in one
transaction, under the lock of the row.

Promise (I3): `move` adds a batch once, over any number of calls, and never under a lower epoch than the newest. The
server itself ends a transaction whose client is silent (`limit`), so a leader that is paused keeps nobody waiting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, ClassVar, Final

from tenure.errors import QueryFailed, UsageError
from tenure.sinks.sql.columns import ATTEMPT, PARTITION
from tenure.sinks.sql.ledger_rules import LEDGER, Claim, Claimed, LedgerRow, Staged, claimed

PRACTICE: Final = "tenure_rehearsal"
"""The temporary table of a rehearsal."""

_FIELDS: Final = ("scope", "query", "batch", "epoch", "before")


class SqlTable(ABC):
    """The table, with its neighbours in the same schema. Each call has a connection of its own."""

    product: ClassVar[str]
    quote: ClassVar[str]
    """The character around names."""
    ledger_columns: ClassVar[str]
    """Of the ledger, after `query_id`."""
    task_columns: ClassVar[Mapping[str, str]] = {PARTITION: "integer", ATTEMPT: "bigint"}
    """Columns of staging tables beside those of the rows."""
    if_new: ClassVar[str]
    """What ends an insert into the ledger that may find a row: that row is kept."""

    def __init__(self, table: str, *, schema: str, at: str) -> None:
        """`schema`: where the table is unless it says so. `at`: the place of the database. Raises UsageError."""
        given, _, self._name = table.rpartition(".")
        self._schema = given or schema
        self._at = at
        if not self._name or "." in self._schema:
            raise UsageError(f"table {table!r} is not the name of a table", fix="write TABLE or SCHEMA.TABLE")

    def __str__(self) -> str:
        return f"table {self._schema}.{self._name} of {self.product}{f' at {self._at}' if self._at else ''}"

    # --- what differs ------------------------------------------------------------------------------------------------

    @abstractmethod
    def connected(self, *, limit: timedelta | None = None) -> AbstractContextManager[Any]:
        """A connection in autocommit. `limit`: for how long a transaction of it may be silent or wait for a lock.

        Raises StorageError: the server cannot be reached, or went away; QueryFailed: it refused a statement.
        """

    @abstractmethod
    def transaction(self, connection: Any) -> AbstractContextManager[Any]:
        """A transaction, which ends with the block: committed, or rolled back by an error."""

    @abstractmethod
    def execute(self, connection: Any, text: str, values: Sequence[Any] = ()) -> Any:
        """The cursor of a statement. `text`: with `%s` for each value, and `%%` for `%`."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """How an executor connects: all that this host's environment and files say. Has the password."""

    @abstractmethod
    def ask(self) -> None:
        """Connect, and ask whether this user may make the tables of a batch. Raises UsageError, StorageError,
        QueryFailed."""

    @abstractmethod
    def _exists(self, connection: Any, name: str) -> bool: ...

    @abstractmethod
    def _create(self, connection: Any, statement: str) -> None:
        """Make a table. Another member may make the same table at once."""

    @abstractmethod
    def _columns_there(self, connection: Any) -> Mapping[str, bool]:
        """Column of the table -> whether rows must have it."""

    @abstractmethod
    def _refuse_types(self, connection: Any, columns: Mapping[str, str], keys: Sequence[str]) -> None:
        """Refuse a table by which rows are not told apart by their keys, or do not stay as they are. Raises
        UsageError."""

    @abstractmethod
    def _accepted(self, staged: Staged) -> tuple[str, Sequence[Any]]:
        """The condition for rows of the accepted tasks, and its values."""

    @abstractmethod
    def _add(self, connection: Any, rows: tuple[str, Sequence[Any]], names: Sequence[str], keys: Sequence[str]) -> int:
        """Add staged rows to the table; return how many there were. `rows`: "from ... where ...", and its values.
        Raises QueryFailed: two rows have the same keys."""

    def engine(self) -> str:
        """What ends a statement that makes a table."""
        return ""

    def _folded(self, name: str) -> str:
        """A name of a column, as the database compares it."""
        return name

    def _defined(self, columns: Mapping[str, str], keys: Sequence[str]) -> Mapping[str, str]:
        """The columns of a table that is made."""
        return columns

    # --- the table ---------------------------------------------------------------------------------------------------

    def make(self, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        """Make the ledger, and the table where there is none. Raises UsageError: the rows do not fit into the table
        that is there."""
        with self.connected() as connection:
            if not self._exists(connection, LEDGER):
                self._create(connection, self._made(LEDGER, [self.ledger_columns]))
            if not self._exists(connection, self._name):
                defined = _definitions(self, self._defined(columns, keys))
                if keys:
                    defined.append(f"primary key ({self.names(keys)})")
                self._create(connection, self._made(self._name, defined))
            self._refuse(connection, columns, keys=keys)

    def look(self, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        """Refuse rows that do not fit into the table, if it is there. Raises UsageError."""
        with self.connected() as connection:
            if self._exists(connection, self._name):
                self._refuse(connection, columns, keys=keys)

    def _made(self, name: str, defined: Sequence[str]) -> str:
        return f"create table if not exists {self._beside(name)} ({', '.join(defined)}){self.engine()}"

    def _refuse(self, connection: Any, columns: Mapping[str, str], *, keys: Sequence[str]) -> None:
        there = {self._folded(name): need for name, need in self._columns_there(connection).items()}
        given = {self._folded(name) for name in columns}
        if lacking := [name for name in columns if self._folded(name) not in there]:
            raise UsageError(f"{self} lacks column {lacking[0]!r} of the rows", fix="add it, or leave it out")
        if needed := [name for name, need in there.items() if need and name not in given]:
            raise UsageError(f"{self} needs column {needed[0]!r}, which the rows lack", fix="add it to the rows")
        self._refuse_types(connection, columns, keys)

    def _no_index(self, keys: Sequence[str]) -> UsageError:
        return UsageError(
            f"{self} has no unique index over exactly {', '.join(keys)}",
            fix=f"create unique index on {self._schema}.{self._name} ({', '.join(keys)})",
        )

    # --- staging -----------------------------------------------------------------------------------------------------

    def make_staging(self, name: str, columns: Mapping[str, str], *, limit: timedelta) -> None:
        """Make an empty staging table, in the place of a table of that name. Raises StorageError: somebody uses it."""
        with self.connected(limit=limit) as connection:
            self.execute(connection, f"drop table if exists {self._beside(name)}")
            self.execute(connection, self.staging_definition(self._beside(name), columns))

    @abstractmethod
    def staging_definition(self, name: str, columns: Mapping[str, str], *, temporary: bool = False) -> str:
        """The statement that makes a staging table, and for a rehearsal a table that ends with its connection."""

    def staging_tables(self, prefix: str) -> list[str]:
        """The staging tables whose names begin so."""
        asked = "select table_name from information_schema.tables where table_schema = %s and table_type = 'BASE TABLE'"
        with self.connected() as connection:
            found = self.execute(connection, asked, (self._schema,)).fetchall()
        return sorted(name for (name,) in found if name.startswith(prefix))

    def drop(self, name: str, *, limit: timedelta) -> None:
        """Drop a staging table, if it is there. Raises StorageError: somebody uses it."""
        with self.connected(limit=limit) as connection:
            self.execute(connection, f"drop table if exists {self._beside(name)}")

    # --- the batch ---------------------------------------------------------------------------------------------------

    def move(
        self, claim: Claim, staged: Staged, columns: Mapping[str, str], *, keys: Sequence[str], limit: timedelta
    ) -> bool:
        """Move the rows of a batch into the table, once, and drop its staging table; return whether the table has had
        the batch before. The drop is no part of the transaction: in MySQL it would commit.

        Raises Fenced: a higher epoch has written; QueryFailed: the rows are not those that the tasks wrote, or break a
        rule of the table, or the ledger lacks batches before, or has the batch of another scope; StorageError: nobody
        knows whether the rows were moved.
        """
        with self.connected(limit=limit) as connection:
            with self.transaction(connection):
                outcome = self._claim(connection, claim)
                if outcome.moves and staged.rows:
                    self._insert(connection, staged, list(columns), keys)
            self.execute(connection, f"drop table if exists {self._beside(staged.table)}")
        return outcome.repeated

    def _claim(self, connection: Any, claim: Claim) -> Claimed:
        """Lock the row of the query, note the batch in it, and say what becomes of the batch. The row stays locked
        until the transaction ends. Raises Fenced, QueryFailed."""
        ledger, fields = self._beside(LEDGER), self.names(_FIELDS)
        added = f"insert into {ledger} (query_id, {fields}) values (%s, %s, %s, %s, %s, %s) {self.if_new}"
        self.execute(connection, added, (claim.query_id, *_values(LedgerRow.empty(claim))))
        locked = f"select {fields} from {ledger} where query_id = %s for update"
        scope, query, *numbers = self.execute(connection, locked, (claim.query_id,)).fetchone()
        outcome = claimed(LedgerRow(scope, query, *map(int, numbers)), claim, where=str(self))
        noted = ", ".join(f"{self.name(name)} = %s" for name in _FIELDS)
        self.execute(
            connection,
            f"update {ledger} set {noted}, changed = current_timestamp where query_id = %s",
            (*_values(outcome.row), claim.query_id),
        )
        return outcome

    def _insert(self, connection: Any, staged: Staged, names: Sequence[str], keys: Sequence[str]) -> None:
        accepted, values = self._accepted(staged)
        rows = f"from {self._beside(staged.table)} s where {accepted}"
        for key in keys:
            without = f"select 1 {rows} and s.{self.name(key)} is null limit 1"
            if self.execute(connection, without, values).fetchone() is not None:
                raise QueryFailed(f"a row of a batch has no {key}, which is a key of {self}", fix="filter such rows")
        moved = self._add(connection, (rows, values), names, keys)
        if moved != staged.rows:  # a server that crashed may have emptied the staging table
            raise QueryFailed(
                f"{self}: {staged.rows} rows were staged, and {moved} are there", fix="the batch runs again"
            )

    def _two_rows(self, keys: Sequence[str]) -> QueryFailed:
        return QueryFailed(
            f"a batch has two rows with the same {', '.join(keys)}, for {self}", fix="group the rows by the keys"
        )

    # --- names -------------------------------------------------------------------------------------------------------

    def quoted(self, name: str) -> str:
        """A name, for a statement without values."""
        return f"{self.quote}{name.replace(self.quote, self.quote * 2)}{self.quote}"

    def name(self, name: str) -> str:
        """A name, for a statement with values. There a value begins with `%`, also within a quoted name."""
        return self.quoted(name).replace("%", "%%")

    def names(self, names: Sequence[str], *, of: str = "") -> str:
        """Names with commas. `of`: of which table of the statement."""
        return ", ".join(f"{of}{self.name(name)}" for name in names)

    @property
    def _table(self) -> str:
        return self._beside(self._name)

    def _beside(self, name: str) -> str:
        return f"{self.name(self._schema)}.{self.name(name)}"


def _definitions(table: SqlTable, columns: Mapping[str, str]) -> list[str]:
    return [f"{table.name(name)} {kind}" for name, kind in columns.items()]


def definitions(table: SqlTable, columns: Mapping[str, str]) -> str:
    """Columns with their types, as a statement that makes a table has them."""
    return ", ".join(_definitions(table, columns))


def _values(row: LedgerRow) -> list[Any]:
    return [getattr(row, name) for name in _FIELDS]
