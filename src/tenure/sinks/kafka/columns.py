"""The columns of rows that become records of Kafka: pure rules over the JSON of Spark's schemas.

Promise: a column has the name and the type that Spark's own sink for Kafka takes; `timestamp` comes on top. Other
columns and types are refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tenure.errors import UsageError

TYPES: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("string", "binary"),
    "value": ("string", "binary"),
    "topic": ("string",),
    "partition": ("integer",),
    "headers": ("array<struct<key:string,value:binary>>",),
    "timestamp": ("timestamp",),
}
"""Column -> the types of Spark that it may have."""


def refuse_columns(schema: Mapping[str, Any], *, topic: str | None) -> None:
    """Refuse rows with this schema of Spark. `topic`: of all records; None: the rows name it. Raises UsageError."""
    names = Counter(field["name"] for field in schema["fields"])
    for field in schema["fields"]:
        name = field["name"]
        if name not in TYPES:
            raise UsageError(
                f"column {name!r} is no part of a record of Kafka",
                fix=f"select some of {', '.join(TYPES)}; turn other columns into a value with to_json(struct(...))",
            )
        if names[name] > 1:
            raise UsageError(f"the rows have {names[name]} columns {name!r}", fix="select it once")
        kind = _in_words(field["type"])
        if kind not in TYPES[name]:
            raise UsageError(
                f"column {name!r} has type {kind}, and a record of Kafka takes {' or '.join(TYPES[name])}",
                fix="cast it, or turn it into text with to_json",
            )
    if "value" not in names:
        raise UsageError("the rows have no column 'value'", fix="select one, for example to_json(struct(*)) as value")
    if topic is None and "topic" not in names:
        raise UsageError("no topic is named", fix="write Kafka(servers, topic), or add a column 'topic' to the rows")


def _in_words(kind: Any) -> str:
    """A type in the words of SQL."""
    match kind:
        case {"type": "array", "elementType": element}:
            return f"array<{_in_words(element)}>"
        case {"type": "struct", "fields": fields}:
            inside = ",".join(f"{field['name']}:{_in_words(field['type'])}" for field in fields)
            return f"struct<{inside}>"
        case {"type": other}:
            return str(other)
    return str(kind)
