"""The types of columns, as MySQL and MariaDB have them, and what MySQL changes in a value without a word: pure rules.

Promise: a table whose column rounds the values of the rows, or takes two keys of Spark for one key, is refused by name.
An `insert ... on duplicate key update` replaces the row of *any* unique index, so an upsert takes no table with an
index by which it could replace another row. Not promised: a `float` column of your own has the digits of its values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import UsageError
from tenure.sinks.sql.columns import ATTEMPT, PARTITION, ColumnTypes

TYPES: Final[Mapping[str, str]] = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "double",  # clients show six digits of a `float`
    "double": "double",
    "string": "longtext",
    "binary": "longblob",
    "date": "date",
    "timestamp": "datetime(6)",  # a `timestamp` ends in 2038
    "timestamp_ntz": "datetime(6)",
}
"""Type of Spark -> type of MySQL. `decimal(p,s)` is `decimal(p,s)`, with at most 30 digits after the point."""

ROW: Final = "tenure_row"
"""The column of staged rows that numbers them: servers of clusters want a primary key in each table."""

COLUMNS: Final = ColumnTypes("MySQL", TYPES, decimal="decimal", scale=30, reserved=(PARTITION, ATTEMPT, ROW))

_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_MOST_OF_KEYS: Final = 700
"""Characters of all text keys in one index: InnoDB has 3072 bytes, and four for a character."""
_INDEXED: Final = {"longtext": "varchar", "longblob": "varbinary"}
_BLURRED: Final = ("char", "binary", "float", "enum", "set", "bit", "year", "json")
"""Types in which two values may be one key: they pad, or round."""


@dataclass(frozen=True, slots=True)
class ThereColumn:
    """A column of a table. `needed`: rows must have it. `numbered`: auto_increment."""

    name: str
    type: str
    fraction: int | None
    """Digits of a second; None: no time."""
    collation: str | None
    needed: bool
    numbered: bool


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """`columns`: with the length of each prefix; a name None is an expression, a length None is the whole column."""

    name: str
    columns: Sequence[tuple[str | None, int | None]]


def made_for(columns: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """The columns of a table that is made: keys have a length, since an index has one."""
    long = [key for key in keys if columns[key] in _INDEXED]
    length = min(255, _MOST_OF_KEYS // max(1, len(long)))
    return {name: f"{_INDEXED[kind]}({length})" if name in long else kind for name, kind in columns.items()}


def refuse_twins(columns: Mapping[str, str]) -> None:
    """Raise UsageError when two names differ in case only, which is one name in MySQL."""
    seen: dict[str, str] = {}
    for name in columns:
        if other := seen.get(name.lower()):
            raise UsageError(f"columns {other!r} and {name!r} are one name in MySQL", fix="rename one of them")
        seen[name.lower()] = name


def refuse_types(columns: Mapping[str, str], there: Sequence[ThereColumn], *, where: str) -> None:
    """Raise UsageError when a column would round the values of the rows: MySQL does so without a word."""
    found = {one.name.lower(): one for one in there}
    for name, kind in columns.items():
        one = found[name.lower()]
        rounds = (
            (
                kind == "datetime(6)"
                and (one.type in ("date", "year") or (one.fraction is not None and one.fraction < 6))
            )
            or (kind == "double" and (one.type in _INTEGERS or one.type == "decimal"))
            or (kind.startswith("decimal") and one.type in _INTEGERS)
        )
        if rounds:
            precision = "" if one.fraction is None else f"({one.fraction})"
            raise UsageError(
                f"column {name!r} of {where} is {one.type}{precision}, which rounds {kind} without a word",
                fix=f"make it {kind}, or cast the rows",
            )


def refuse_keys_of_table(keys: Sequence[str], there: Sequence[ThereColumn], *, where: str, fitting: str) -> None:
    """Raise UsageError when two keys of Spark could be one key here. `fitting`: the collation that tells all apart."""
    found = {one.name.lower(): one for one in there}
    for key in keys:
        one = found[key.lower()]
        if one.type in _BLURRED:
            raise UsageError(f"key {key!r} of {where} is {one.type}, which rounds or pads", fix="give it another type")
        if one.collation is not None and not tells_all_apart(one.collation):
            raise UsageError(
                f"key {key!r} of {where} has the collation {one.collation}, by which two keys of Spark can be one",
                fix=f"alter its column: character set utf8mb4 collate {fitting}",
            )


def tells_all_apart(collation: str) -> bool:
    """Whether text that differs in a byte, or in spaces at its end, differs by this collation. `utf8mb4_bin` pads with
    spaces: 'a' equals 'a ' there."""
    return collation.endswith(("_nopad_bin", "_0900_bin"))


def fits(indexes: Sequence[UniqueIndex], keys: Sequence[str]) -> bool:
    """Whether one of the indexes is over exactly the keys, each as a whole."""
    wanted = {key.lower() for key in keys}
    return any(
        {name and name.lower() for name, _ in index.columns} == wanted
        and all(part is None for _, part in index.columns)
        for index in indexes
    )


def refuse_other_indexes(
    indexes: Sequence[UniqueIndex],
    keys: Sequence[str],
    there: Sequence[ThereColumn],
    columns: Mapping[str, str],
    *,
    where: str,
) -> None:
    """Raise UsageError when an upsert could replace the row of another key, by another unique index. An index that has
    all keys finds rows of the same keys only; one with a number that the server gives finds none."""
    given, wanted = {name.lower() for name in columns}, {key.lower() for key in keys}
    numbered = {one.name.lower() for one in there if one.numbered} - given
    for index in indexes:
        whole = {name.lower() for name, part in index.columns if name and part is None}
        if not (wanted <= whole or whole & numbered):
            raise UsageError(
                f"{where} has the unique index {index.name!r}, by which an upsert would replace rows of other keys",
                fix="drop it, or make it an index that is not unique",
            )
