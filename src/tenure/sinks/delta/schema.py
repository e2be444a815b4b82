"""Whether rows fit into a Delta table: pure rules over the JSON of schemas.

Promise: a batch is written only when its columns are the table's, by name and type; no column is cast, added or omitted
silently. A table whose rules need Delta's own engines (constraints, generated columns, column mapping) is refused,
because Tenure adds files without these engines.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tenure.errors import UsageError
from tenure.sinks.collations import refuse_collations

Json = dict[str, Any]

_PRIMITIVES = re.compile(
    r"(string|long|integer|short|byte|float|double|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\))\Z"
)
_KEYS = re.compile(r"(string|long|integer|short|byte|boolean|binary|date|timestamp|timestamp_ntz|decimal\(\d+,\d+\))\Z")
_PARTITIONS = re.compile(r"(string|long|integer|short|byte|boolean|date)\Z")
_ENGINE_ONLY = ("delta.generationExpression", "delta.invariants", "delta.identity.start")


def columns_of(spark_schema: Json) -> Json:
    """The Delta schema of rows with this Spark schema: all nullable, without Spark's own metadata (watermarks).

    Raises UsageError for a type that Delta does not have and for names that differ in case only, naming the column.
    """
    _refuse_unknown(spark_schema, path="")
    return _struct(spark_schema)


def _refuse_unknown(kind: Any, *, path: str) -> None:
    match kind:
        case str() if _PRIMITIVES.match(kind):
            return
        case {"type": "struct", "fields": fields}:
            seen: dict[str, str] = {}
            for field in fields:
                inside = f"{path}.{field['name']}" if path else field["name"]
                if (other := seen.setdefault(field["name"].lower(), inside)) != inside:
                    raise UsageError(
                        f"columns {other} and {inside} differ in case only, which they may not in Delta",
                        fix="rename one of them",
                    )
                refuse_collations(field, path=inside)
                _refuse_unknown(field["type"], path=inside)
        case {"type": "array", "elementType": element}:
            _refuse_unknown(element, path=f"{path}.element")
        case {"type": "map", "keyType": key, "valueType": value}:
            _refuse_unknown(key, path=f"{path}.key")
            _refuse_unknown(value, path=f"{path}.value")
        case _:
            raise UsageError(
                f"column {path} has type {_name_of(kind)}, which Delta does not have", fix=f"cast or drop {path}"
            )


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
                raise UsageError(
                    f"{word} column {name!r} has type {_name_of(kind)}", fix="use a string, an integer or a date"
                )
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


def indexed_columns(configuration: Mapping[str, str | None], *, usual: int) -> int:
    """How many columns of a file have statistics, by the table's properties. A value that is no number is passed
    over."""
    text = configuration.get("delta.dataSkippingNumIndexedCols") or ""
    if not re.fullmatch(r"-?\d+", text):
        return usual
    return sys.maxsize if int(text) < 0 else int(text)


def refuse_rewriting(features: Collection[str], *, where: str) -> None:
    """Raise UsageError when rows of the table's files cannot be copied without its own engines. `features`: what its
    readers must know."""
    if "deletionVectors" in features:
        raise UsageError(
            f"{where} has deletion vectors, which update mode does not read",
            fix="drop that feature of the table, or use another table",
        )


def _name_of(kind: str | Json) -> str:
    return kind if isinstance(kind, str) else str(kind["type"])


def _struct(struct: Json) -> Json:
    fields = [
        {"name": field["name"], "type": _bare(field["type"]), "nullable": True, "metadata": {}}
        for field in struct["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _bare(kind: str | Json) -> str | Json:
    """The type without nullability and metadata."""
    if isinstance(kind, str):
        return kind
    if kind["type"] == "struct":
        return _struct(kind)
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
