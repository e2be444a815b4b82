"""The spelling of partitions, and the values that come back from the names of directories."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tenure.errors import UsageError
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.iceberg.partitions import PartitionTerm, expressions, parts_of, refuse_parts, sorted_by, values_of

COLUMNS = {
    "type": "struct",
    "fields": [
        {"id": place + 1, "name": name, "type": kind}
        for place, (name, kind) in enumerate(
            {"s": "string", "n": "long", "i": "int", "b": "boolean", "d": "date", "at": "timestamptz"}.items()
        )
    ]
    + [{"id": 9, "name": "dec", "type": "decimal(5, 2)"}, {"id": 10, "name": "x", "type": "double"}],
}


@pytest.mark.parametrize(
    ("text", "part", "of_spec", "name"),
    [
        ("s", PartitionTerm("s", "identity"), "identity", "s"),
        (" day(at) ", PartitionTerm("at", "day"), "day", "at_day"),
        ("HOUR( at )", PartitionTerm("at", "hour"), "hour", "at_hour"),
        ("truncate(3, s)", PartitionTerm("s", "truncate", 3), "truncate[3]", "s_trunc"),
        ("bucket(16, s)", PartitionTerm("s", "bucket", 16), "bucket[16]", "s_bucket"),
        ("a.b", PartitionTerm("a.b", "identity"), "identity", "a.b"),
    ],
)
def test_spellings(text: str, part: PartitionTerm, of_spec: str, name: str) -> None:
    assert PartitionTerm.parse(text) == part
    assert (part.of_spec, part.name) == (of_spec, name)
    assert PartitionTerm.parse(str(part)) == part


def spec(*fields: tuple[int, str]) -> dict[str, Any]:
    return {"fields": [{"source-id": number, "transform": transform, "name": "p"} for number, transform in fields]}


def test_the_parts_of_a_table() -> None:
    found = parts_of(spec((1, "truncate[4]"), (6, "day"), (77, "void"), (2, "identity")), COLUMNS, where="the table")
    assert [str(part) for part in found] == ["truncate(4, s)", "day(at)", "void()", "n"]
    assert len(expressions(found, COLUMNS)) == 3
    assert values_of(found, COLUMNS, ["vab", "-3", None]) == ["ab", -3, None, None]
    refuse_parts(found, COLUMNS)


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ((1, "unheard"), "is partitioned by unheard of s, which Spark cannot compute"),
        ((50, "identity"), "is partitioned by p, a part of a column"),
    ],
)
def test_a_table_with_other_partitions_is_refused(field: tuple[int, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parts_of(spec(field), COLUMNS, where="the table")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("m", "partition_by names column 'm', which the rows lack; they have s, n"),
        ("hour(d)", r"partition_by has hour\(d\), and 'd' has type date; hour takes timestamp, timestamptz"),
        ("x", "partition_by has x, and 'x' has type double"),
        ("at", "partition_by has at, and 'at' has type timestamptz"),
        ("truncate(2, b)", "has type boolean"),
        ("bucket(2, dec)", r"has type decimal\(5, 2\); bucket takes date, int, long, string, timestamp, timestamptz"),
        ("day(n)", "has type long"),
    ],
)
def test_parts_that_do_not_fit_the_rows(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        refuse_parts([PartitionTerm.parse(text)], COLUMNS)


@pytest.mark.parametrize(
    ("text", "written", "value"),
    [
        ("s", "v", ""),
        ("s", "vvalue", "value"),
        ("s", None, None),
        ("b", "true", True),
        ("b", "false", False),
        ("n", "-9223372036854775808", -(2**63)),
        ("d", "-1", -1),
        ("dec", "-0.50", Decimal("-0.50")),
        ("truncate(2, s)", "vé", "é"),
        ("truncate(10, n)", "-10", -10),
        ("year(d)", "-1", -1),
        ("bucket(4, s)", "3", 3),
    ],
)
def test_values(text: str, written: str | None, value: object) -> None:
    assert values_of([PartitionTerm.parse(text)], COLUMNS, [written]) == [value]


def test_sort_orders() -> None:
    def order(*fields: tuple[int, str]) -> dict[str, Any]:
        some = [
            {"source-id": one, "transform": how, "direction": "desc", "null-order": "nulls-last"} for one, how in fields
        ]
        return {"fields": some}

    assert sorted_by(order((1, "identity"), (2, "identity")), COLUMNS) == [
        ("s", "desc_nulls_last"),
        ("n", "desc_nulls_last"),
    ]
    assert sorted_by(order(), COLUMNS) is None
    assert sorted_by(order((1, "bucket[3]")), COLUMNS) is None
    assert sorted_by(order((50, "identity")), COLUMNS) is None


@pytest.mark.parametrize(
    ("data", "disk", "spark"),
    [
        ("file:///a b/c%20d", "/a b/c%20d", "file:///a b/c%20d/x"),
        ("file:/a/b", "/a/b", "file:///a/b/x"),
        ("/a/b", "/a/b", "file:///a/b/x"),
        ("s3://bucket/t/data", None, "s3a://bucket/t/data/x"),
        ("s3a://bucket/t/data", None, "s3a://bucket/t/data/x"),
        ("hdfs://name/t/data", None, "hdfs://name/t/data/x"),
    ],
)
def test_places(data: str, disk: str | None, spark: str) -> None:
    location = DataFolder(data)
    assert (location.disk, location.for_spark("x"), location.named("x")) == (disk, spark, f"{data}/x")
