"""ForeachBatch without Spark: the order of plan and function, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from pyspark.sql import DataFrame

from tenure.errors import TermLost
from tenure.events import Events
from tenure.sinks.foreach_batch import ForeachBatch
from tenure.sinks.sink import Batch, Written

BATCH = Batch(scope="flights", query="hourly", query_id="q-1", id=7, epoch=3)
ROWS = cast(DataFrame, object())


def test_the_function_runs_after_the_plan_with_rows_and_batch() -> None:
    log: list[object] = []
    sink = ForeachBatch(lambda rows, batch: log.append((rows, batch)), idempotent=True)
    written = sink.write(ROWS, BATCH, planned=lambda: log.append("plan"), events=Events.nobody)
    assert log == ["plan", (ROWS, BATCH)]
    assert written == Written(repeated=False)


def test_the_function_does_not_run_when_the_plan_is_refused() -> None:
    def refused() -> None:
        raise TermLost(scope="flights", epoch=3)

    log: list[object] = []
    with pytest.raises(TermLost):
        ForeachBatch(lambda *_: log.append("ran"), idempotent=True).write(
            ROWS, BATCH, planned=refused, events=Events.nobody
        )
    assert log == []


def test_the_function_s_own_error_reaches_the_caller() -> None:
    def failing(rows: DataFrame, batch: Batch) -> None:
        raise KeyError("gate")

    with pytest.raises(KeyError, match="gate"):
        ForeachBatch(failing, idempotent=False).write(ROWS, BATCH, planned=lambda: None, events=Events.nobody)


def test_what_is_delivered_is_its_author_s_word() -> None:
    assert ForeachBatch(lambda *_: None, idempotent=True).delivery == "exactly once (idempotent function)"
    assert ForeachBatch(lambda *_: None, idempotent=False).delivery == "at least once"


def test_idempotent_must_be_said() -> None:
    with pytest.raises(TypeError, match="idempotent"):
        ForeachBatch(lambda *_: None)  # type: ignore[call-arg]  # that it is refused is the test


def test_one_function_of_two_queries_has_a_call_of_each() -> None:
    """The end of the one's call must not hide that the other's hangs."""
    other = replace(BATCH, query="daily", id=2)
    seen: list[tuple[str | None, str | None]] = []

    def look() -> None:
        seen.append((sink.call("hourly"), sink.call("daily")))

    def function(rows: DataFrame, batch: Batch) -> None:
        look()
        if batch == BATCH:
            sink.write(ROWS, other, planned=lambda: None, events=Events.nobody)
            look()

    sink = ForeachBatch(function, idempotent=True)
    sink.write(ROWS, BATCH, planned=lambda: None, events=Events.nobody)
    look()
    assert seen == [("3/7", None), ("3/7", "3/2"), ("3/7", None), (None, None)]


def test_a_call_of_an_earlier_term_that_ends_late_hides_none_of_this_one() -> None:
    seen: list[str | None] = []

    def function(rows: DataFrame, batch: Batch) -> None:
        if batch.epoch == 4:
            seen.append(sink.call("hourly"))
            return
        sink.write(ROWS, replace(BATCH, epoch=4), planned=lambda: None, events=Events.nobody)

    sink = ForeachBatch(function, idempotent=True)
    sink.write(ROWS, BATCH, planned=lambda: None, events=Events.nobody)
    assert seen == ["4/7"]
    assert sink.call("hourly") is None
