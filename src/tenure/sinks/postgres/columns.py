"""The types of columns, as PostgreSQL has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tenure.sinks.sql.columns import ColumnTypes

TYPES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
"""Type of Spark -> type of PostgreSQL. `decimal(p,s)` is `numeric(p,s)`."""

COLUMNS: Final = ColumnTypes("PostgreSQL", TYPES, decimal="numeric")
