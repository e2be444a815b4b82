"""Which rows fit into which table, decided without either."""

from __future__ import annotations

import re
import sys
from typing import Any

import pytest

from tenure.errors import UsageError
from tenure.sinks.delta.schema import (
    columns_of,
    indexed_columns,
    refuse_difference,
    refuse_layout,
    refuse_rewriting,
    refuse_table,
)


def struct(*fields: tuple[str, Any], nullable: bool = True, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": nullable, "metadata": metadata or {}} for name, kind in fields
        ],
    }


ARRAY = {"type": "array", "elementType": "long", "containsNull": False}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": False}


def test_columns_are_nullable_and_without_spark_s_metadata() -> None:
    spark = struct(("n", "long"), ("s", struct(("m", MAP), nullable=False)), nullable=False, metadata={"watermark": 5})
    loose = {**MAP, "valueType": {**ARRAY, "containsNull": True}, "valueContainsNull": True}
    assert columns_of(spark) == struct(("n", "long"), ("s", struct(("m", loose))))


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (("gap", "interval day to second"), "column gap has type interval day to second"),
        (("v", "variant"), "column v has type variant"),
        (("nothing", "void"), "column nothing has type void"),
        (("t", "time(6)"), "column t has type time(6)"),
        (("c", "string collate UNICODE_CI"), "column c has type string collate UNICODE_CI"),
        (("s", struct(("v", "variant"))), "column s.v has type variant"),
        (("a", {**ARRAY, "elementType": "variant"}), "column a.element has type variant"),
        (("m", {**MAP, "keyType": "void"}), "column m.key has type void"),
        (("u", {"type": "udt", "sqlType": "long"}), "column u has type udt"),
    ],
)
def test_types_that_delta_lacks(field: tuple[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        columns_of(struct(("n", "long"), field))


@pytest.mark.parametrize(
    ("partition_by", "key", "words"),
    [
        (["x"], [], "partition_by names column 'x', which the rows lack"),
        (["f"], [], "partition_by column 'f' has type double"),
        (["at"], [], "partition_by column 'at' has type timestamp"),
        (["n", "f", "at", "a"], [], "partition_by column 'f'"),
        ([], ["x"], "key names column 'x', which the rows lack"),
        ([], ["f"], "key column 'f' has type double"),
        ([], ["a"], "key column 'a' has type array"),
    ],
)
def test_columns_that_cannot_serve(partition_by: list[str], key: list[str], words: str) -> None:
    columns = struct(("n", "long"), ("f", "double"), ("at", "timestamp"), ("a", ARRAY))
    with pytest.raises(UsageError, match=re.escape(words)):
        refuse_layout(columns, partition_by=partition_by, key=key)


def test_all_columns_cannot_be_partitions() -> None:
    with pytest.raises(UsageError, match="every column"):
        refuse_layout(struct(("n", "long")), partition_by=["n"], key=[])
    refuse_layout(struct(("n", "long"), ("at", "timestamp")), partition_by=["n"], key=["at"])


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (struct(("n", "long")), "the rows have a, which the table lacks"),
        (struct(("n", "long"), ("a", ARRAY), ("z", "long")), "the table has z, which the rows lack"),
        (struct(("n", "integer"), ("a", ARRAY)), "column n is long in the rows and integer in t"),
        (
            struct(("n", "long"), ("a", {**ARRAY, "elementType": "short"})),
            "column a is array<long> in the rows and array<short> in t",
        ),
        (struct(("n", "long"), ("a", ARRAY), nullable=False), "column n of t is NOT NULL"),
        (struct(("N", "long"), ("a", ARRAY)), "the rows have n, which the table lacks and the table has N"),
    ],
)
def test_rows_that_do_not_fit(table: dict[str, Any], words: str) -> None:
    rows = columns_of(struct(("n", "long"), ("a", ARRAY)))
    with pytest.raises(UsageError, match=re.escape(words)):
        refuse_difference(rows, table, where="t")


def test_the_order_of_columns_does_not_matter() -> None:
    rows = columns_of(struct(("n", "long"), ("m", MAP), ("s", struct(("x", "date")))))
    refuse_difference(
        rows, struct(("s", struct(("x", "date"))), ("m", MAP), ("n", "long"), metadata={"comment": "c"}), where="t"
    )


@pytest.mark.parametrize(
    ("table", "configuration", "words"),
    [
        (struct(("n", "long")), {"delta.constraints.positive": "n > 0"}, "constraint delta.constraints.positive"),
        (struct(("n", "long")), {"delta.columnMapping.mode": "name"}, "column mapping 'name'"),
        (struct(("n", "long")), {"delta.setTransactionRetentionDuration": "interval 7 days"}, "forgets transactions"),
        (struct(("n", "long"), metadata={"delta.generationExpression": "1"}), {}, "column n of t has delta.generation"),
    ],
)
def test_tables_whose_rules_are_not_kept_here(table: Any, configuration: dict[str, str | None], words: str) -> None:
    with pytest.raises(UsageError, match=re.escape(words)):
        refuse_table(table, configuration, where="t")
    refuse_table(struct(("n", "long")), {"delta.columnMapping.mode": "none", "delta.appendOnly": "true"}, where="t")


@pytest.mark.parametrize(("text", "count"), [("5", 5), ("0", 0), ("-1", sys.maxsize), ("many", 32), (None, 32)])
def test_the_table_says_how_many_columns_have_statistics(text: str | None, count: int) -> None:
    assert indexed_columns({"delta.dataSkippingNumIndexedCols": text}, usual=32) == count
    assert indexed_columns({}, usual=32) == 32


def test_update_mode_refuses_a_table_whose_rows_it_cannot_copy() -> None:
    refuse_rewriting(["timestampNtz", "v2Checkpoint"], where="t")
    with pytest.raises(UsageError, match="t has deletion vectors"):
        refuse_rewriting(["deletionVectors"], where="t")
