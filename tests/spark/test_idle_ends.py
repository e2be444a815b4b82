"""The driver around queries that are made up: when a run is idle, and what is no idle end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from tenure.driver import running_queries
from tenure.errors import QueryFailed, StorageError
from tenure.link.driver import Ended
from tests.kit.waiting import NEVER_S, wait_until
from tests.spark.made_up_driver import FakeQuery, Lead, made_up, may_start_again, spark_error, start_hooks


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[Lead]:
    with made_up(tmp_path) as one:
        yield one


def test_it_is_idle_when_every_query_is(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.goes_on()
    streams["b"].query.idle.set()
    assert lead.end() is Ended.IDLE


def test_a_query_that_was_idle_once_is_watched_on(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.goes_on()
    streams["a"].query.fail(spark_error("[X] its folder is gone"))
    streams["b"].query.idle.set()
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == "query 'a' failed: [X] its folder is gone; see spark.log"


def test_a_function_that_fails_after_its_query_was_idle_once(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.goes_on()
    streams["a"].failure = ValueError("no luck")
    streams["a"].query.fail(spark_error("what Spark makes of it"))
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == "query 'a' failed: ValueError: no luck; see spark.log"


def test_it_is_idle_only_when_every_query_is_idle_at_one_moment(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.goes_on()
    streams["a"].begin()
    streams["b"].query.idle.set()
    assert lead.goes_on(), "a has a batch"
    streams["a"].in_batch = False
    assert lead.goes_on(), "a may have more of them"
    streams["a"].query.idle.set()
    assert lead.end() is Ended.IDLE


def test_a_query_looks_again_after_the_last_batch_of_another_which_may_be_its_source(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["b"].query.idle.set()
    wait_until(lambda: streams["b"].query.looked)
    streams["b"].query.idle.clear()  # it was idle before a's last batch, and has not looked since
    streams["a"].begin()
    streams["a"].in_batch = False
    streams["a"].query.idle.set()
    assert lead.goes_on()
    assert not any(one.finished for one in streams.values())
    streams["b"].query.idle.set()
    assert lead.end() is Ended.IDLE


def test_a_query_that_is_no_more_active_is_not_idle(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["a"].query.idle.set()
    streams["a"].query.dying = True
    streams["b"].query.idle.set()
    assert lead.goes_on()
    streams["a"].query.fail(spark_error("[X] no luck"))
    assert isinstance(lead.end(), QueryFailed)


@pytest.mark.parametrize("until_idle", [True, False])
def test_a_query_that_somebody_else_stops_is_no_good_end(lead: Lead, until_idle: bool) -> None:
    streams = lead.begin("a b", until_idle=until_idle)
    streams["b"].query.ended.set()
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == "query 'b' was stopped, and not by Tenure; see who stops it, and spark.log"


def test_a_batch_that_is_not_begun_any_more_is_no_failure(lead: Lead) -> None:
    streams = lead.begin("a", until_idle=True)
    streams["a"].last_is_done = False
    streams["a"].query.idle.set()
    wait_until(lambda: streams["a"].finished)
    streams["a"].refused = True
    streams["a"].query.fail(spark_error("[FOREACH_BATCH_USER_FUNCTION_ERROR] _FinishedError"))
    assert lead.goes_on()
    streams["a"].last_is_done = True
    assert lead.end() is Ended.IDLE


def test_an_idle_end_waits_until_spark_has_noted_the_last_batch_however_long_that_takes(lead: Lead) -> None:
    """Its inputs are moved when it has ended with 0."""
    with patch.object(running_queries, "SETTLE_S", 0.0):
        streams = lead.begin("a", until_idle=True)
        streams["a"].last_is_done = False
        streams["a"].query.idle.set()
        assert lead.goes_on()
        assert not streams["a"].query.stopped
        streams["a"].last_is_done = True
        assert lead.end() is Ended.IDLE


def test_a_last_batch_that_spark_cannot_note_is_a_failure(lead: Lead) -> None:
    streams = lead.begin("a", until_idle=True)
    streams["a"].last_is_done = False
    streams["a"].query.idle.set()
    wait_until(lambda: streams["a"].finished)
    streams["a"].query.fail(spark_error("x\nCaused by: java.io.IOException: No space left on device"))
    assert isinstance(lead.end(), StorageError)


@pytest.mark.parametrize("idle", [True, False])
def test_another_leader_waits_for_that_only_for_a_while(lead: Lead, idle: bool) -> None:
    with patch.object(running_queries, "SETTLE_S", 0.0):
        streams = lead.begin("a", until_idle=True)
        streams["a"].last_is_done = False
        if idle:
            streams["a"].query.idle.set()
            wait_until(lambda: streams["a"].finished)
        lead.finish.set()
        assert lead.end() is Ended.STOPPED


def test_a_batch_that_began_at_the_last_moment_is_waited_for(lead: Lead) -> None:
    streams = lead.begin("a b", until_idle=True)
    streams["b"].late = True
    for one in streams.values():
        one.query.idle.set()
    wait_until(lambda: streams["b"].in_batch)
    assert lead.goes_on()
    assert not any(one.finished for one in streams.values()), "a may read what b writes"
    streams["b"].in_batch = False
    assert lead.goes_on(), "b may have more of them"
    streams["b"].query.idle.set()
    assert lead.end() is Ended.IDLE


def test_a_last_batch_that_is_not_in_the_sink_is_no_idle_end(lead: Lead) -> None:
    streams = lead.begin("a", until_idle=True)
    streams["a"].late = True
    streams["a"].query.idle.set()
    wait_until(lambda: streams["a"].in_batch)
    streams["a"].failure = StorageError("disk is full")
    streams["a"].in_batch = False
    streams["a"].query.fail(spark_error("what Spark makes of it"))
    assert lead.end() is streams["a"].failure


@pytest.mark.parametrize("ended", [Ended.STOPPED, Ended.LOST])
def test_a_last_batch_is_not_waited_for_without_a_reason(lead: Lead, ended: Ended) -> None:
    streams = lead.begin("a", until_idle=True)
    streams["a"].late = True
    streams["a"].query.idle.set()
    wait_until(lambda: streams["a"].in_batch)
    if ended is Ended.STOPPED:
        lead.stop.set()
    else:
        lead.liveness.end("it was paused")
    assert lead.end() is ended


def test_without_until_idle_it_goes_on(lead: Lead) -> None:
    streams = lead.begin("a")
    streams["a"].query.idle.set()
    assert lead.goes_on()
    lead.stop.set()
    lead.end()


def test_a_query_that_ends_by_itself_is_waited_for_to_its_end(lead: Lead) -> None:
    start_hooks["a"] = lambda stream: setattr(stream, "ends_by_itself", True)
    streams = lead.begin("a", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.goes_on()
    streams["a"].query.ended.set()
    assert lead.end() is Ended.IDLE


def test_the_idleness_of_a_query_that_has_ended_is_not_that_of_its_successor(lead: Lead) -> None:
    """Nothing had begun in either, so both rest alike; the second may have work."""
    may_start_again.add("a")
    asked, answer = threading.Event(), threading.Event()

    class LateQuery(FakeQuery):
        def processAllAvailable(self) -> None:  # noqa: N802 - Spark's name
            asked.set()
            answer.wait(timeout=NEVER_S)

    start_hooks["a"] = lambda stream: setattr(stream, "query", LateQuery("a"))
    stream = lead.begin("a", until_idle=True)["a"]
    assert asked.wait(timeout=NEVER_S)
    stream.query.fail(spark_error("Python worker failed to connect back"))
    wait_until(lambda: stream.again)
    answer.set()
    assert lead.goes_on()
    stream.query.idle.set()
    assert lead.end() is Ended.IDLE
