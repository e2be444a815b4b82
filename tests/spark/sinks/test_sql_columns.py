"""The sinks for databases: names and types of columns, and tables of users."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.sinks.sink import Written
from tests.spark.sinks.sql_places import Place
from tests.spark.sinks.support import a_batch, numbers, write

pytestmark = pytest.mark.spark


def test_columns_keys_and_tables_may_have_any_name(place: Place, spark: SparkSession) -> None:
    """In a statement with values, `%s` and `%b` were values within names, too."""
    place.run(f"create schema {place.quoted('100%s')}")
    names = ("a.b", "100%s", 'the "Key" %b', "it's", "x`y", "sp ace")
    sink = place.a_sink("100%s.t%b", mode="upsert", keys=names[2:4])
    for number, kept in enumerate(("old", "new")):
        values = ", ".join(f"'{kept if name == 'a.b' else 'v'}' as `{name.replace('`', '``')}`" for name in names)
        rows = spark.sql(f"select {values}")
        sink.check_rows(rows)
        assert write(sink, rows, a_batch(number)) == Written(repeated=False)
    assert write(sink, rows, a_batch(1)) == Written(repeated=True)
    table = f"{place.quoted('100%s')}.{place.quoted('t%b')}"
    assert place.run(f"select * from {table}") == [("new", "v", "v", "v", "v", "v")]
    for made in (table, f"{place.quoted('100%s')}.tenure_ledger"):
        place.run(f"drop table {made}")
    place.run(f"drop schema {place.quoted('100%s')}")


def test_each_type_arrives_as_it_was(place: Place, spark: SparkSession) -> None:
    columns = {
        "b": ("true", True),
        "y": ("cast(-128 as byte)", -128),
        "h": ("cast(7 as short)", 7),
        "i": ("-1", -1),
        "l": ("9223372036854775807L", 2**63 - 1),
        "f": ("cast(0.5 as float)", 0.5),
        "d": ("double('1e300')", 1e300),
        "third": ("1D/3", 1 / 3),
        "e": ("cast('1234567890123456789.123' as decimal(38,3))", Decimal("1234567890123456789.123")),
        "empty": ("''", ""),
        "none": ("cast(null as string)", None),
        "s": ("'a,\"b\"\\n\\\\N ä \\'q\\' 🜁 '", "a,\"b\"\n\\N ä 'q' 🜁 "),
        "x": ("X'00ff'", b"\x00\xff"),
        "day": ("date'0001-01-01'", date(1, 1, 1)),
        "at": ("timestamp'2026-01-02 03:04:05.000006 UTC'", datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
        "local": ("timestamp_ntz'2026-07-02 03:04:05'", datetime(2026, 7, 2, 3, 4, 5)),  # noqa: DTZ001 - it has no zone
        'a "Name"': ("1", 1),
    }
    rows = spark.range(1).selectExpr(*(f"{value} as `{name}`" for name, (value, _) in columns.items()))
    sink = place.a_sink()
    sink.check_rows(rows)
    write(sink, rows, a_batch(0))
    (found,) = place.content()
    assert [place.zoned(value) if name == "at" else value for name, value in zip(columns, found, strict=True)] == [
        value for _, value in columns.values()
    ]


@pytest.mark.parametrize("expression", ["array(1)", "map(1, 2)", "struct(1)", "interval 1 day", "1 as tenure_attempt"])
def test_other_types_are_refused_before_the_start(place: Place, spark: SparkSession, expression: str) -> None:
    named = expression if " as " in expression else f"{expression} as odd"
    with pytest.raises(UsageError, match=r"column '(odd|tenure_attempt)' has"):
        place.a_sink().check_rows(spark.range(1).selectExpr(named))


@pytest.mark.parametrize(
    ("made", "options", "line"),
    [
        ("n bigint, other text not null", {}, "needs column 'other', which the rows lack"),
        ("other text", {}, "lacks column 'n' of the rows"),
        ("n bigint", {"mode": "upsert", "keys": ["n"]}, "has no unique index over exactly n"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_start(
    place: Place, spark: SparkSession, made: str, options: dict[str, Any], line: str
) -> None:
    place.run(f"create table t ({made})")
    with pytest.raises(UsageError, match=line):
        place.a_sink(**options).check_rows(numbers(spark, [1]))


def test_a_table_with_more_columns_is_written_to(place: Place, spark: SparkSession) -> None:
    place.run(f"create table t (id bigint {place.numbered}, n integer, note varchar(9) default 'x')")
    write(place.a_sink(), numbers(spark, [5]), a_batch(0))
    assert place.content() == [(1, 5, "x")]
