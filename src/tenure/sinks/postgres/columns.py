"""The columns of rows, as PostgreSQL has them: pure rules over the JSON of Spark's schemas.

Promise: a type of Spark has one type of PostgreSQL, which holds each of its values. Other types are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tenure.errors import UsageError
from tenure.sinks.collations import refuse_collations

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

PARTITION, ATTEMPT = "tenure_partition", "tenure_attempt"
"""The columns of staged rows that say which task wrote them."""

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)\Z")


def columns_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """Column -> type of PostgreSQL, of rows with this schema of Spark. Raises UsageError."""
    found: dict[str, str] = {}
    for field in schema["fields"]:
        name, kind = field["name"], field["type"]
        if name in (PARTITION, ATTEMPT):
            raise UsageError(f"column {name!r} has a name that Tenure needs for itself", fix="rename it")
        refuse_collations(field, path=name)
        found[name] = _type_of(kind, column=name)
    if not found:
        raise UsageError("the rows have no columns", fix="select some")
    return found


def _type_of(kind: Any, *, column: str) -> str:
    if isinstance(kind, str):
        if kind in TYPES:
            return TYPES[kind]
        if match := _DECIMAL.match(kind):
            return f"numeric({match[1]},{match[2]})"
    name = kind["type"] if isinstance(kind, dict) else kind
    raise UsageError(
        f"column {column!r} has type {name}, which has no counterpart in PostgreSQL here",
        fix=f"cast it, or turn it into text with to_json({column})",
    )


def refuse_keys(columns: Mapping[str, str], keys: Sequence[str]) -> None:
    """Raise UsageError when the rows lack a key column."""
    for key in keys:
        if key not in columns:
            raise UsageError(f"keys names column {key!r}, which the rows lack", fix=f"they have {', '.join(columns)}")
