"""The sink for MySQL and MariaDB: `sinks/sql/sink.py` has its steps and its promise."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Final

from tenure.sinks.mysql.columns import COLUMNS
from tenure.sinks.sql.sink import SqlSink

if TYPE_CHECKING:
    from tenure.sinks.mysql.database import MySqlTable

_ERROR: Final = re.compile(r"pymysql\.err\.\w+: \((\d+), (.*)\)")
"""In the words of a task that MySQL has refused, or whose server is away."""


class MySQL(SqlSink):
    """Write each batch to a table of MySQL or MariaDB, which is created when there is none.

    `url`: mysql://USER@HOST/DATABASE, without a password: it comes from MYSQL_PWD or an option file. `table`: TABLE or
    DATABASE.TABLE. `append`: the rows are added. `upsert`: each row replaces the row with the same `keys`, or is added;
    for queries in append or update mode.

    The rows' columns are columns of the table, by name. Executors need the packages pymysql and pyarrow.
    """

    package = "pymysql"
    extra = "mysql"
    column_types = COLUMNS

    def _open(self) -> MySqlTable:
        from tenure.sinks.mysql.database import MySqlTable

        return MySqlTable(self._url, self._table)

    def _by_value(self) -> ModuleType:
        from tenure.sinks.mysql import inserting

        return inserting

    def _copier(self, columns: Mapping[str, str], name: str | None) -> Callable[..., int]:
        from tenure.sinks.mysql import inserting
        from tenure.sinks.mysql.database import settings_of_a_task
        from tenure.sinks.sql.table import PRACTICE

        database, before = self._open(), settings_of_a_task()
        if name is None:
            before = (*before, database.staging_definition(PRACTICE, columns, temporary=True))
        insert = database.insert_into(name, columns)
        return inserting.inserter(self._connection(), before, insert, names=list(columns), keep=name is not None)

    def _away(self, words: str) -> str | None:
        from tenure.sinks.mysql.database import is_away_by

        found = _ERROR.search(words)
        return found[2] if found is not None and is_away_by(int(found[1])) else None
