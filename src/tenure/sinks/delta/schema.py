"""Whether rows fit into a Delta table: pure rules over the JSON of schemas.

Promise: a batch is written only when its columns are the table's, by name and type; no column is cast, added or omitted
silently. A table whose rules need Delta's own engines (constraints, generated columns, column mapping) is refused,
because Tenure adds files without these engines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tenure.errors import UsageError

Json = dict[str, Any]

_PRIMITIVES = re.compile(
    r"(string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\))\Z"
)
_KEYS = re.compile(r"(string|long|integer|short|byte|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\))\Z")
_PARTITIONS = re.compile(r"(string|long|integer|short|byte|boolean|date)\Z")
_ENGINE_ONLY = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def columns_of(spark_schema: Json) -> Json:
    """The Delta schema of rows with this Spark schema: all nullable, without Spark's own metadata (watermarks).

    Raises UsageError for a type that Delta does not have, naming the column.
    """
    return _struct(spark_schema, path="")


def _struct(struct: Json, *, path: str) -> Json:
    fields = [
        {
            "name": field["name"],
            "type": _type(field["type"], path=f"{path}{field['name']}"),
            "nullable": True,
            "metadata": {},
        }
        for field in struct["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _type(spark: str | Json, *, path: str) -> str | Json:
    if isinstance(spark, str):
        if _PRIMITIVES.match(spark):
            return spark
        raise UsageError(f"column {path} has type {spark}, which Delta does not have", fix=f"cast or drop {path}")
    if spark["type"] == "struct":
        return _struct(spark, path=f"{path}.")
    if spark["type"] == "array":
        element = _type(spark["elementType"], path=f"{path}.element")
        return {"type": "array", "elementType": element, "containsNull": True}
    if spark["type"] == "map":
        key = _type(spark["keyType"], path=f"{path}.key")
        value = _type(spark["valueType"], path=f"{path}.value")
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    raise UsageError(f"column {path} has type {spark['type']}, which Delta does not have", fix=f"cast or drop {path}")


def refuse_layout(columns: Json, *, partition_by: Sequence[str], key: Sequence[str]) -> None:
    """Raise UsageError when the sink's partition or key columns cannot serve for rows of these columns."""
    types = {field["name"]: field["type"] for field in columns["fields"]}
    for word, names, allowed in (("partition_by", partition_by, _PARTITIONS), ("key", key, _KEYS)):
        for name in names:
            if name not in types:
                raise UsageError(
                    f"{word} names column {name!r}, which the rows lack", fix=f"they have {', '.join(types)}"
                )
            kind = types[name]
            if not isinstance(kind, str) or not allowed.match(kind):
                shown = kind if isinstance(kind, str) else kind["type"]
                raise UsageError(f"{word} column {name!r} has type {shown}", fix="use a string, an integer or a date")
    if partition_by and len(partition_by) == len(types):
        raise UsageError("partition_by names every column of the rows", fix="leave one column out")


def refuse_difference(rows: Json, table: Json, *, where: str) -> None:
    """Raise UsageError when rows of the columns `rows` do not fit into a table of the columns `table`."""
    mine = {field["name"]: field["type"] for field in rows["fields"]}
    theirs = {field["name"]: field for field in table["fields"]}
    extra = [name for name in mine if name not in theirs]
    missing = [name for name in theirs if name not in mine]
    if extra or missing:
        parts = [f"the rows have {', '.join(extra)}, which the table lacks"] if extra else []
        parts += [f"the table has {', '.join(missing)}, which the rows lack"] if missing else []
        raise UsageError(f"columns do not fit {where}: {' and '.join(parts)}", fix="alter the table or the query")
    for name, field in theirs.items():
        if _bare(field["type"]) != mine[name]:
            raise UsageError(
                f"column {name} is {_shown(mine[name])} in the rows and {_shown(_bare(field['type']))} in {where}",
                fix="cast it in the query; nothing is cast silently",
            )
        if not field["nullable"]:
            raise UsageError(f"column {name} of {where} is NOT NULL, which is not checked here", fix="drop NOT NULL")


def refuse_table(table: Json, configuration: Mapping[str, str | None], *, where: str) -> None:
    """Raise UsageError when adding files to this table would break a rule that only its engines check."""
    for name, value in configuration.items():
        if name.startswith("delta.constraints."):
            raise UsageError(f"{where} has the constraint {name}, which is not checked here", fix="drop it")
        if name == "delta.columnMapping.mode" and value not in (None, "none"):
            raise UsageError(f"{where} uses column mapping {value!r}", fix="use a table without column mapping")
        if name == "delta.setTransactionRetentionDuration" and value:
            # The log would forget its newest batch, and take an old batch again.
            raise UsageError(f"{where} forgets transactions after {value}", fix=f"unset {name}")
    for field in table["fields"]:
        for name in field["metadata"]:
            if name.startswith(_ENGINE_ONLY):
                raise UsageError(f"column {field['name']} of {where} has {name}", fix="use a table without it")


def _bare(kind: str | Json) -> str | Json:
    """The type without nullability and metadata, as in `columns_of`."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = [
            {"name": field["name"], "type": _bare(field["type"]), "nullable": True, "metadata": {}}
            for field in kind["fields"]
        ]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "array":
        return {"type": "array", "elementType": _bare(kind["elementType"]), "containsNull": True}
    key, value = _bare(kind["keyType"]), _bare(kind["valueType"])
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _shown(kind: str | Json) -> str:
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        fields = ", ".join(f"{field['name']} {_shown(field['type'])}" for field in kind["fields"])
        return f"struct<{fields}>"
    if kind["type"] == "array":
        return f"array<{_shown(kind['elementType'])}>"
    return f"map<{_shown(kind['keyType'])}, {_shown(kind['valueType'])}>"
