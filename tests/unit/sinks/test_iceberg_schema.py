"""Which rows fit into which Iceberg table."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import create_mapping_from_schema

from tenure.errors import UsageError
from tenure.sinks.iceberg.layout import leaf_ids
from tenure.sinks.iceberg.schema import (
    columns_of,
    has_repeated,
    name_mapping,
    numbered,
    refuse_difference,
    refuse_mapping,
    refuse_table,
    without_docs,
)


def rows(**types: Any) -> dict[str, Any]:
    """Spark's JSON of a schema."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    return {"type": "struct", "fields": fields}


POINT = rows(x="long", y="double")
NAMES = {"type": "array", "elementType": "string", "containsNull": True}
POINTS = {"type": "array", "elementType": POINT, "containsNull": False}
COUNTS = {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": True}
ALL = rows(a="string", p=POINT, names=NAMES, counts=COUNTS, points=POINTS, d="decimal(10,2)", t="timestamp")


def test_types() -> None:
    pairs = {
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
        "decimal(38,18)": "decimal(38, 18)",
    }
    found = columns_of(rows(**{f"c{place}": kind for place, kind in enumerate(pairs)}))
    assert [field["type"] for field in found["fields"]] == list(pairs.values())


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("short", "column c has type short, which Iceberg does not have; cast c to int"),
        ("byte", "column c has type byte"),
        ("interval day", "column c has type interval day, which Iceberg does not have; cast or drop c"),
        ({"type": "udt", "class": "x"}, "column c has type udt"),
        ({"type": "array", "elementType": "void", "containsNull": True}, r"column c\.element has type void"),
        (rows(x="short"), r"column c\.x has type short"),
        (rows(x="long", X="long"), r"columns c\.x and c\.X differ in case only"),
    ],
)
def test_what_iceberg_does_not_have_names_its_column(kind: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        columns_of(rows(c=kind))


def test_a_collation_is_refused() -> None:
    kind = rows(c="string")
    kind["fields"][0]["metadata"] = {"__COLLATIONS": {"c": "icu.UNICODE_CI"}}
    with pytest.raises(UsageError, match=r"column c has the collation icu\.UNICODE_CI"):
        columns_of(kind)


def test_ids_and_name_mappings_are_those_of_pyiceberg() -> None:
    table = numbered(columns_of(ALL))
    schema = Schema.model_validate(table)
    assert without_docs(schema.model_dump()) == table
    assert [field["id"] for field in table["fields"]] == list(range(1, 8))
    assert name_mapping(table) == json.loads(create_mapping_from_schema(schema).model_dump_json(exclude_none=True))
    assert has_repeated(table)
    assert not has_repeated(numbered(columns_of(rows(p=POINT))))


def test_the_columns_of_a_file_are_found_by_their_place() -> None:
    """Whose parts of lists and maps have no bounds."""
    table = numbered(columns_of(ALL))
    a, p, names, _, _, d, _ = (field["id"] for field in table["fields"])
    x, y = (field["id"] for field in table["fields"][1]["type"]["fields"])
    assert leaf_ids(table, ["d", "p", "counts", "a"]) == [d, x, y, None, None, a]
    assert leaf_ids(table, ["points", "names"]) == [None, None, None]
    assert {p, names}.isdisjoint({x, y})


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (rows(n="long", m="long"), "the rows have m, which the table lacks"),
        (rows(m="long"), "the rows have m, which the table lacks and the table has n, which the rows lack"),
        (rows(n="integer"), "column n is int in the rows and long in the table; cast it in the query"),
        (rows(n=POINT), r"column n is struct<x: long, y: double> in the rows and long"),
        (rows(n=NAMES), r"column n is list<string> in the rows and long"),
        (rows(n=COUNTS), r"column n is map<string, int> in the rows and long"),
        (rows(N="long"), "the rows have N"),
    ],
)
def test_other_columns_are_refused(mine: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        refuse_difference(columns_of(mine), numbered(columns_of(rows(n="long"))), where="the table")


def test_the_order_of_columns_does_not_matter() -> None:
    table = numbered(columns_of(ALL))
    mine = columns_of(rows(**{field["name"]: field["type"] for field in reversed(ALL["fields"])}))
    refuse_difference(mine, table, where="the table")


@pytest.mark.parametrize("column", ["a", "p", "names", "counts", "points"])
def test_a_required_column_is_refused(column: str) -> None:
    text = json.dumps(numbered(columns_of(ALL)))
    marks = {"a": '"required": false', "names": '"element-required": false', "counts": '"value-required": false'}
    table = json.loads(text)
    field = next(field for field in table["fields"] if field["name"] == column)
    inside = json.dumps(field)
    mark = next(mark for mark in (marks.get(column, '"required": false'),) if mark in inside)
    last = inside.replace(mark, mark.replace("false", "true")) if column != "p" else _last(inside, mark)
    table["fields"] = [json.loads(last) if one is field else one for one in table["fields"]]
    with pytest.raises(UsageError, match=f"column {column} of the table is required"):
        refuse_difference(columns_of(ALL), table, where="the table")


def _last(text: str, mark: str) -> str:
    """Within the struct, and not the struct itself."""
    place = text.index(mark)
    return text[:place] + mark.replace("false", "true") + text[place + len(mark) :]


@pytest.mark.parametrize(
    ("version", "properties", "words"),
    [
        (1, {}, "has format version 1; set its property format-version to 2"),
        (3, {}, "has format version 3, which is not written here"),
        (2, {"encryption.key-id": "k"}, "is encrypted"),
        (2, {"write.wap.enabled": "True"}, "has write.wap.enabled"),
    ],
)
def test_tables_that_cannot_be_written_right_are_refused(version: int, properties: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        refuse_table(version, properties, where="the table")
    refuse_table(2, {"write.wap.enabled": "false"}, where="the table")


def test_a_name_mapping_of_others_must_have_our_names() -> None:
    table = numbered(columns_of(ALL))
    mapping = name_mapping(table)
    wider = [*mapping, {"field-id": 99, "names": ["gone"]}, {"names": ["unknown"]}]
    wider[0] = {**wider[0], "names": ["a", "was"]}
    refuse_mapping(table, json.dumps(wider), where="the table")
    for broken, words in (
        (mapping[1:], "has no name a for that column"),
        ([{**mapping[0], "field-id": 7}, *mapping[1:]], "has no name a for that column"),
        ([*mapping[:2], {**mapping[2], "fields": []}, *mapping[3:]], r"has no name names\.element"),
    ):
        with pytest.raises(UsageError, match=words):
            refuse_mapping(table, json.dumps(broken), where="the table")
    for text in ("{", "[1]", '[{"field-id": 1}]'):
        with pytest.raises(UsageError, match="does not decode"):
            refuse_mapping(table, text, where="the table")
