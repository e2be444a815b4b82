"""The partitions of an Iceberg table: their spelling in a pipeline file, Spark's expressions for them, and the values
that come back in the names of directories. Pure rules, over the JSON of specs.

Promise: a value is the value of Iceberg's own transform, also before 1970, in years of any length and with any time
zone of the session. Null and the empty string are two values. A transform that Spark cannot compute is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from tenure.errors import UsageError
from tenure.sinks.iceberg import hashing
from tenure.sinks.iceberg.schema import Json, shown

_TIMES: Final = frozenset({"date", "timestamp", "timestamptz"})
_TAKES: Final[Mapping[str, frozenset[str]]] = {
    "identity": frozenset({"string", "int", "long", "boolean", "date"}),
    "year": _TIMES,
    "month": _TIMES,
    "day": _TIMES,
    "hour": _TIMES - {"date"},
    "truncate": frozenset({"string", "int", "long"}),
    "bucket": hashing.TAKES,
}
"""Transform -> the types that it takes here. The identity of a decimal is taken, too."""
_CALL: Final = re.compile(r"(?P<transform>\w+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>.+?)\s*\)")
_OF_SPEC: Final = re.compile(r"(?P<transform>\w+)(?:\[(?P<width>\d+)\])?")
_WITH_WIDTH: Final = ("truncate", "bucket")
_NAMES: Final = {"identity": "{}", "truncate": "{}_trunc"}
"""Transform -> the name of its field in a new spec."""
_MARK: Final = "v"
"""Stands before each text, as Spark writes null and the empty string alike."""
_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One field of a partition spec."""

    column: str
    transform: str
    width: int | None = None
    """Of `truncate`, and how many buckets."""

    @classmethod
    def parse(cls, text: str) -> PartitionTerm:
        """A part in the spelling of a pipeline file: `carrier`, `day(at)`, `truncate(3, code)`, `bucket(16, id)`.

        Raises UsageError.
        """
        found = _CALL.fullmatch(text.strip())
        if found is None:
            return cls(text, "identity")
        transform, width = found["transform"].lower(), found["width"]
        if transform not in _TAKES or (transform in _WITH_WIDTH) != (width is not None):
            raise UsageError(
                f"partition_by has {text!r}",
                fix="write a column, year(c), month(c), day(c), hour(c), truncate(3, c) or bucket(16, c)",
            )
        if width is not None and not 0 < int(width) < 2**31:
            raise UsageError(f"partition_by has {text!r}", fix="give a width from 1 to 2147483647")
        return cls(found["column"], transform, None if width is None else int(width))

    def __str__(self) -> str:
        if self.transform == "identity":
            return self.column
        return f"{self.transform}({'' if self.width is None else f'{self.width}, '}{self.column})"

    @property
    def of_spec(self) -> str:
        """The transform as a spec has it."""
        return self.transform if self.width is None else f"{self.transform}[{self.width}]"

    @property
    def name(self) -> str:
        """The name of the field in a new spec."""
        return _NAMES.get(self.transform, f"{{}}_{self.transform}").format(self.column)


def parts_of(spec: Json, columns: Json, *, where: str) -> list[PartitionTerm]:
    """The parts of a table's spec. `columns`: the table's, with ids. Raises UsageError: Spark cannot compute one."""
    names = {field["id"]: field["name"] for field in columns["fields"]}
    parts = []
    for field in spec["fields"]:
        found = _OF_SPEC.fullmatch(field["transform"])
        column = names.get(field["source-id"])
        if found is None or (found["transform"] not in _TAKES and found["transform"] != "void"):
            raise UsageError(
                f"{where} is partitioned by {field['transform']} of {column}, which Spark cannot compute",
                fix="use identity, year, month, day, hour, truncate or bucket",
            )
        if column is None and found["transform"] != "void":
            raise UsageError(
                f"{where} is partitioned by {field['name']}, a part of a column", fix="partition by whole columns"
            )
        parts.append(
            PartitionTerm(column or "", found["transform"], None if found["width"] is None else int(found["width"]))
        )
    return parts


def refuse_parts(parts: Sequence[PartitionTerm], columns: Json) -> None:
    """Raise UsageError when a part does not fit the columns of the rows."""
    types = {field["name"]: field["type"] for field in columns["fields"]}
    for part in parts:
        if part.transform == "void":
            continue
        if part.column not in types:
            raise UsageError(
                f"partition_by names column {part.column!r}, which the rows lack", fix=f"they have {', '.join(types)}"
            )
        kind = types[part.column]
        is_decimal = part.transform == "identity" and isinstance(kind, str) and kind.startswith("decimal(")
        if not is_decimal and (not isinstance(kind, str) or kind not in _TAKES[part.transform]):
            raise UsageError(
                f"partition_by has {part}, and {part.column!r} has type {shown(kind)}",
                fix=f"{part.transform} takes {', '.join(sorted(_TAKES[part.transform]))}",
            )


def expressions(parts: Sequence[PartitionTerm], columns: Json) -> list[str]:
    """For each part, but void, the expression by which Spark computes it, in a type that a directory's name keeps."""
    types = {field["name"]: field["type"] for field in columns["fields"]}
    return [_expression(part, types[part.column]) for part in parts if part.transform != "void"]


def _expression(part: PartitionTerm, kind: str) -> str:
    name = f"`{part.column.replace('`', '``')}`"
    match part.transform:
        case "bucket":
            assert part.width is not None
            return hashing.bucket(name, kind, part.width)
        case "identity" if kind == "string":
            return f"concat('{_MARK}', {name})"
        case "identity" if kind == "date":
            return f"unix_date({name})"
        case "identity":
            return f"cast({name} as string)"
        case "truncate" if kind == "string":
            return f"concat('{_MARK}', substring({name}, 1, {part.width}))"
        case "truncate":
            return f"{name} - pmod({name}, {part.width}{'L' if kind == 'long' else ''})"
        case "hour" if kind == "timestamptz":
            return _floored(name, _HOUR_US)
        case "hour":
            return f"unix_date(cast({name} as date)) * 24 + hour({name})"
    days = f"unix_date(cast({name} as date))"
    if kind == "timestamptz":  # its date in the session's time zone is not its date in UTC
        days = f"cast({_floored(name, _DAY_US)} as int)"
    if part.transform == "day":
        return days
    year = f"year(date_from_unix_date({days}))"
    if part.transform == "year":
        return f"{year} - 1970"
    return f"({year} - 1970) * 12 + month(date_from_unix_date({days})) - 1"


def _floored(name: str, unit_us: int) -> str:
    """An instant in whole units since 1970."""
    return f"(unix_micros({name}) - pmod(unix_micros({name}), {unit_us}L)) div {unit_us}L"


def values_of(parts: Sequence[PartitionTerm], columns: Json, texts: Sequence[str | None]) -> list[Any]:
    """The values of a file's partition, as a manifest has them. `texts`: of the expressions, from the names of
    directories; None is null."""
    types = {field["name"]: field["type"] for field in columns["fields"]}
    left = iter(texts)
    values: list[Any] = []
    for part in parts:
        text = None if part.transform == "void" else next(left)
        values.append(None if text is None else _value(part, types[part.column], text))
    return values


def _value(part: PartitionTerm, kind: str, text: str) -> Any:
    if part.transform in ("identity", "truncate") and kind == "string":
        return text.removeprefix(_MARK)
    if part.transform == "identity" and kind == "boolean":
        return text == "true"
    if part.transform == "identity" and kind.startswith("decimal("):
        return Decimal(text)
    return int(text)


def sorted_by(order: Json, columns: Json) -> list[tuple[str, str]] | None:
    """The table's sort order: each column, and the method of Spark's columns for its direction. None: the table has no
    order, or its order is not of plain columns."""
    names = {field["id"]: field["name"] for field in columns["fields"]}
    found = []
    for field in order["fields"]:
        name = names.get(field["source-id"])
        if field["transform"] != "identity" or name is None:
            return None
        found.append((name, f"{field['direction']}_{field['null-order'].replace('-', '_')}"))
    return found or None
