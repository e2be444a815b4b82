"""The sink for PostgreSQL: `sinks/sql/sink.py` has its steps and its promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tenure.sinks.postgres.columns import COLUMNS
from tenure.sinks.sql.sink import SqlSink

if TYPE_CHECKING:
    from tenure.sinks.postgres.database import PostgresTable

_ERROR: Final = re.compile(r"psycopg\.(?:errors\.)?(\w+): (.*)")
"""In the words of a task: the class of the error, and what the server says."""


class Postgres(SqlSink):
    """Write each batch to a table of PostgreSQL, which is created when there is none.

    `url`: postgresql://USER@HOST/DATABASE, without a password: it comes from PGPASSWORD, a passfile or a service.
    `table`: TABLE or SCHEMA.TABLE. `append`: the rows are added. `upsert`: each row replaces the row with the same
    `keys`, or is added; for queries in append or update mode.

    The rows' columns are columns of the table, by name. Executors need the packages psycopg and pyarrow.
    """

    package = "psycopg"
    extra = "postgres"
    column_types = COLUMNS

    def _open(self) -> PostgresTable:
        from tenure.sinks.postgres.database import PostgresTable

        return PostgresTable(self._url, self._table)

    def _by_value(self) -> ModuleType:
        from tenure.sinks.postgres import copying

        return copying

    def _copier(self, columns: Mapping[str, str], name: str | None) -> Callable[..., int]:
        from tenure.sinks.postgres import copying
        from tenure.sinks.sql.table import PRACTICE

        database = self._open()
        before = () if name is not None else (database.staging_definition(PRACTICE, columns, temporary=True),)
        return copying.copier(self._connection(), before, database.copy_into(name, columns), keep=name is not None)

    def _away(self, words: str) -> str | None:
        from tenure.sinks.postgres.database import is_away_by

        found = _ERROR.search(words)
        return found[2] if found is not None and is_away_by(found[1]) else None
