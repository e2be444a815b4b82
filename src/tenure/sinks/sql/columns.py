"""The columns of rows, as a database has them: pure rules over the JSON of Spark's schemas.

Promise: a type of Spark has one type of the database, which holds each of its values. Other types are refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tenure.errors import UsageError
from tenure.sinks.collations import refuse_collations

PARTITION, ATTEMPT = "tenure_partition", "tenure_attempt"
"""The columns of staged rows that say which task wrote them."""

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)\Z")


@dataclass(frozen=True, slots=True)
class ColumnTypes:
    """The types of a database. `types`: type of Spark -> its type. `decimal`: the name of `decimal(p,s)` there.
    `scale`: the largest scale. `reserved`: names of columns that Tenure needs."""

    product: str
    types: Mapping[str, str]
    decimal: str
    scale: int = 38
    reserved: Collection[str] = (PARTITION, ATTEMPT)

    def columns_of(self, schema: Mapping[str, Any]) -> dict[str, str]:
        """Column -> type of the database, of rows with this schema of Spark. Raises UsageError."""
        found: dict[str, str] = {}
        for field in schema["fields"]:
            name, kind = field["name"], field["type"]
            if name.lower() in self.reserved:
                raise UsageError(f"column {name!r} has a name that Tenure needs for itself", fix="rename it")
            refuse_collations(field, path=name)
            found[name] = self._type_of(kind, column=name)
        if not found:
            raise UsageError("the rows have no columns", fix="select some")
        return found

    def _type_of(self, kind: Any, *, column: str) -> str:
        if isinstance(kind, str):
            if kind in self.types:
                return self.types[kind]
            if (match := _DECIMAL.match(kind)) and int(match[2]) <= self.scale:
                return f"{self.decimal}({match[1]},{match[2]})"
        name = kind["type"] if isinstance(kind, dict) else kind
        raise UsageError(
            f"column {column!r} has type {name}, which has no counterpart in {self.product} here",
            fix=f"cast it, or turn it into text with to_json({column})",
        )


def refuse_keys(columns: Mapping[str, str], keys: Sequence[str]) -> None:
    """Raise UsageError when the rows lack a key column."""
    for key in keys:
        if key not in columns:
            raise UsageError(f"keys names column {key!r}, which the rows lack", fix=f"they have {', '.join(columns)}")
