"""Whether rows fit into an Iceberg table: pure rules over the JSON of schemas.

Promise: a batch is written only when its columns are the table's, by name and type; no column is cast, added or omitted
silently. A table whose rules are not checked here (required columns) is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.errors import UsageError
from tenure.sinks.collations import refuse_collations

Json = dict[str, Any]

NAME_MAPPING: Final = "schema.name-mapping.default"
"""The table's property that gives the columns of files without field ids by their names."""

_PRIMITIVES: Final = {
    "string": "string",
    "long": "long",
    "integer": "int",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
"""Spark's type -> Iceberg's."""
_DECIMAL: Final = re.compile(r"decimal\((\d+), ?(\d+)\)\Z")
_BARE: Final = frozenset({"type", "fields", "name", "element", "key", "value"})
_NUMBERS: Final = frozenset(
    {"id", "required", "element-id", "element-required", "key-id", "value-id", "value-required"}
)
_KEYS: Final = frozenset({"string", "int", "long", "boolean", "date", "timestamp", "timestamptz"})


def columns_of(spark_schema: Json) -> Json:
    """The columns of rows with this Spark schema, in Iceberg's types, without ids. Raises UsageError for a type that
    Iceberg does not have and for names that differ in case only, naming the column."""
    return _struct_of(spark_schema, path="")


def _struct_of(struct: Json, *, path: str) -> Json:
    seen: dict[str, str] = {}
    fields = []
    for field in struct["fields"]:
        inside = f"{path}.{field['name']}" if path else field["name"]
        if (other := seen.setdefault(field["name"].lower(), inside)) != inside:
            raise UsageError(
                f"columns {other} and {inside} differ in case only, which Spark does not keep apart",
                fix="rename one of them",
            )
        refuse_collations(field, path=inside)
        fields.append({"name": field["name"], "type": _type_of(field["type"], path=inside)})
    return {"type": "struct", "fields": fields}


def _type_of(kind: Any, *, path: str) -> Any:
    match kind:
        case str() if kind in _PRIMITIVES:
            return _PRIMITIVES[kind]
        case str() if found := _DECIMAL.match(kind):
            return f"decimal({found[1]}, {found[2]})"
        case {"type": "struct"}:
            return _struct_of(kind, path=path)
        case {"type": "array", "elementType": element}:
            return {"type": "list", "element": _type_of(element, path=f"{path}.element")}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {
                "type": "map",
                "key": _type_of(key, path=f"{path}.key"),
                "value": _type_of(value, path=f"{path}.value"),
            }
        case _:
            name = kind if isinstance(kind, str) else kind["type"]
            raise UsageError(
                f"column {path} has type {name}, which Iceberg does not have",
                fix=f"cast {path} to int" if name in ("byte", "short") else f"cast or drop {path}",
            )


def numbered(columns: Json) -> Json:
    """The columns with ids, in the order in which a catalog gives them: those of a struct come behind its
    neighbours."""
    counter = iter(range(1, 1_000_000))
    return _numbered_struct(columns, counter)


def _numbered_struct(struct: Json, counter: Iterator[int]) -> Json:
    ids = [next(counter) for _ in struct["fields"]]
    fields = [
        {"id": number, "name": field["name"], "type": _numbered(field["type"], counter), "required": False}
        for number, field in zip(ids, struct["fields"], strict=True)
    ]
    return {"type": "struct", "fields": fields}


def _numbered(kind: Any, counter: Iterator[int]) -> Any:
    match kind:
        case {"type": "struct"}:
            return _numbered_struct(kind, counter)
        case {"type": "list", "element": element}:
            number = next(counter)
            return {
                "type": "list",
                "element-id": number,
                "element": _numbered(element, counter),
                "element-required": False,
            }
        case {"type": "map", "key": key, "value": value}:
            of_key, of_value = next(counter), next(counter)
            return {
                "type": "map",
                "key-id": of_key,
                "key": _numbered(key, counter),
                "value-id": of_value,
                "value": _numbered(value, counter),
                "value-required": False,
            }
        case _:
            return kind


def refuse_key(columns: Json, key: Sequence[str]) -> None:
    """Raise UsageError when the key columns cannot serve for rows of these columns."""
    types = {field["name"]: field["type"] for field in columns["fields"]}
    for name in key:
        if name not in types:
            raise UsageError(f"key names column {name!r}, which the rows lack", fix=f"they have {', '.join(types)}")
        kind = types[name]
        if not isinstance(kind, str) or (kind not in _KEYS and not _DECIMAL.match(kind)):
            raise UsageError(f"key column {name!r} has type {shown(kind)}", fix="use a string, an integer or a date")


def refuse_difference(rows: Json, table: Json, *, where: str) -> None:
    """Raise UsageError when rows of the columns `rows` do not fit into a table of the columns `table`, which have
    ids."""
    mine = {field["name"]: field["type"] for field in rows["fields"]}
    theirs = {field["name"]: field for field in table["fields"]}
    extra = [name for name in mine if name not in theirs]
    missing = [name for name in theirs if name not in mine]
    if extra or missing:
        parts = [f"the rows have {', '.join(extra)}, which the table lacks"] if extra else []
        parts += [f"the table has {', '.join(missing)}, which the rows lack"] if missing else []
        raise UsageError(f"columns do not fit {where}: {' and '.join(parts)}", fix="alter the table or the query")
    for name, field in theirs.items():
        if (bare := _kept(field["type"], _BARE)) != mine[name]:
            raise UsageError(
                f"column {name} is {shown(mine[name])} in the rows and {shown(bare)} in {where}",
                fix="cast it in the query; nothing is cast silently",
            )
        if field.get("required") or _has_required(field["type"]):
            raise UsageError(
                f"column {name} of {where} is required, which is not checked here", fix="make the column optional"
            )


def refuse_table(version: int, properties: Mapping[str, str], *, where: str) -> None:
    """Raise UsageError when this sink cannot keep its promise, or a rule of the table, in a table of this format
    version."""
    if version == 1:
        # Nothing in the format keeps a late commit out once an operator has rolled the table back.
        raise UsageError(f"{where} has format version 1", fix="set its property format-version to 2")
    if version != 2:
        raise UsageError(
            f"{where} has format version {version}, which is not written here", fix="use a table of version 2"
        )
    if properties.get("encryption.key-id"):
        raise UsageError(f"{where} is encrypted, which is not done here", fix="use a table without encryption")
    if properties.get("write.wap.enabled", "").lower() == "true":
        raise UsageError(
            f"{where} has write.wap.enabled: its writes are published by hand",
            fix="unset write.wap.enabled",
        )


def has_repeated(columns: Json) -> bool:
    """Whether a column has a list or a map, in whose elements Spark writes no field ids."""
    return any(_is_repeated(field["type"]) for field in columns["fields"])


def _is_repeated(kind: Any) -> bool:
    if isinstance(kind, str):
        return False
    return kind["type"] in ("list", "map") or has_repeated(kind)


def name_mapping(table: Json) -> list[Json]:
    """The table's columns as the property `NAME_MAPPING` has them."""
    return [
        {
            "field-id": field["id"],
            "names": [field["name"]],
            **({"fields": inner} if (inner := _mapping_of(field["type"])) else {}),
        }
        for field in table["fields"]
    ]


def _mapping_of(kind: Any) -> list[Json]:
    match kind:
        case {"type": "struct"}:
            return name_mapping(kind)
        case {"type": "list"}:
            return name_mapping(
                {"fields": [{"id": kind["element-id"], "name": "element", "type": kind["element"]}]},
            )
        case {"type": "map"}:
            parts = [{"id": kind[f"{part}-id"], "name": part, "type": kind[part]} for part in ("key", "value")]
            return name_mapping({"fields": parts})
        case _:
            return []


def refuse_mapping(table: Json, mapping: str, *, where: str) -> None:
    """Raise UsageError when the table's property `NAME_MAPPING` would give a column of our files another id."""
    try:
        found = json.loads(mapping)
        lacking = _unmapped(name_mapping(table), found, path="")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError(
            f"the property {NAME_MAPPING} of {where} does not decode: {error}", fix="repair or unset it"
        ) from error
    if lacking is not None:
        raise UsageError(
            f"the property {NAME_MAPPING} of {where} has no name {lacking} for that column",
            fix="add it there: Spark writes no field ids into lists and maps",
        )


def _unmapped(ours: Sequence[Json], theirs: Sequence[Json], *, path: str) -> str | None:
    """The first column that a mapping lacks or gives to another id; None: it has all."""
    by_name = {name: field for field in theirs for name in field["names"]}
    for field in ours:
        (name,) = field["names"]
        inside = f"{path}.{name}" if path else name
        found = by_name.get(name, {})
        if found.get("field-id") != field["field-id"]:
            return inside
        inner = _unmapped(field.get("fields", ()), found.get("fields") or (), path=inside)
        if inner is not None:
            return inner
    return None


def without_docs(table: Json) -> Json:
    """The table's columns by id, name and type alone."""
    kept: Json = _kept(table, _BARE | _NUMBERS)
    return kept


def _kept(part: Any, names: frozenset[str]) -> Any:
    """A part of a schema's JSON without all but these names."""
    if isinstance(part, dict):
        return {name: _kept(inner, names) for name, inner in part.items() if name in names}
    return [_kept(inner, names) for inner in part] if isinstance(part, list | tuple) else part


def _has_required(kind: Any) -> bool:
    match kind:
        case {"type": "struct", "fields": fields}:
            return any(field.get("required") or _has_required(field["type"]) for field in fields)
        case {"type": "list", "element": element}:
            return bool(kind.get("element-required")) or _has_required(element)
        case {"type": "map", "key": key, "value": value}:
            return bool(kind.get("value-required")) or _has_required(key) or _has_required(value)
        case _:
            return False


def shown(kind: Any) -> str:
    """The type for people."""
    match kind:
        case str():
            return kind
        case {"type": "struct", "fields": fields}:
            inside = ", ".join(f"{field['name']}: {shown(field['type'])}" for field in fields)
            return f"struct<{inside}>"
        case {"type": "list", "element": element}:
            return f"list<{shown(element)}>"
        case _:
            return f"map<{shown(kind['key'])}, {shown(kind['value'])}>"
