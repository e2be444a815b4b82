"""Spark's expressions as plain data: what is of one process is left out, and depth does no harm."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.spark.expressions import Expression, in_words, parts, plain, plain_value

PACKAGE = "org.apache.spark.sql.catalyst.expressions."


def node(kind: str, below: int = 0, **fields: Any) -> dict[str, Any]:
    return {"class": PACKAGE + kind, "num-children": below, **fields}


def column(name: str, number: int, *, kind: Any = "long", jvm: str = "x", **more: Any) -> dict[str, Any]:
    return node("AttributeReference", name=name, dataType=kind, exprId={"id": number, "jvmId": jvm}, **more)


def total(of: dict[str, Any], number: int) -> Expression:
    return [
        node("Alias", 1, child=0, name="total", exprId={"id": number + 1}),
        node("aggregate.AggregateExpression", 1, resultId={"id": number}, isDistinct=False),
        node("aggregate.Sum", 1, child=0),
        of,
    ]


def test_numbers_names_of_results_and_what_may_change_are_left_out() -> None:
    one = total(column("id", 3, nullable=True, metadata={}, qualifier=["v"]), 7)
    other = total(column("ID", 90, jvm="y", nullable=False, metadata={"comment": "x"}, qualifier=[]), 95)
    assert plain(one) == plain(other)


@pytest.mark.parametrize(
    "other",
    [
        total(column("id", 3, kind="string"), 7),
        total(column("k", 3), 7),
        [*total(column("id", 3), 7)[:2], node("aggregate.Max", 1, child=0), column("id", 3)],
        [*total(column("id", 3), 7)[:1], node("aggregate.AggregateExpression", 1), *total(column("id", 3), 7)[2:]],
    ],
)
def test_what_is_computed_counts(other: Expression) -> None:
    assert plain(other) != plain(total(column("id", 3), 7))


def test_a_struct_is_its_names_and_types() -> None:
    def struct(name: str, *, nullable: bool) -> Any:
        fields = [{"name": name, "type": {"type": "array", "elementType": "long", "containsNull": nullable}}]
        return {"type": "struct", "fields": [{**one, "nullable": nullable, "metadata": {}} for one in fields]}

    assert plain_value(struct("a", nullable=True)) == plain_value(struct("a", nullable=False))
    assert plain_value(struct("a", nullable=True)) != plain_value(struct("b", nullable=True))


def test_the_words_of_spark_are_short() -> None:
    assert plain_value({"object": "org.apache.spark.sql.catalyst.plans.LeftOuter$"}) == "LeftOuter"
    assert plain_value({"object": "a.b.InternalOutputModes$Append$"}) == "Append"


def test_the_parts_of_a_kind_are_found_whole() -> None:
    both = [node("Add", 2, left=0, right=1), *total(column("a", 1), 7)[1:], *total(column("b", 2), 9)[1:]]
    assert [in_words(one) for one in parts(both, "AggregateExpression")] == ["sum(a)", "sum(b)"]
    assert in_words(both) == "add(sum(a), sum(b))"
    assert list(parts([column("a", 1)], "AggregateExpression")) == []


def test_an_expression_may_be_deep() -> None:
    deep = [node("Not", 1, child=0)] * 20_000 + [column("a", 1)]
    assert len(plain(deep)) == 20_001
    assert in_words(deep).startswith("not(not(")
