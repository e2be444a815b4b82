"""The driver around queries that are made up: how a leadership ends, which error is told, and what is stopped."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import StreamingQueryException

from tenure.driver import spark_driver as driver_module
from tenure.errors import (
    CorruptCheckpoint,
    DeclaredOtherwise,
    DriverStuck,
    InputsGone,
    QueryFailed,
    StorageError,
    TenureError,
    TermLost,
)
from tenure.events import JvmStarted, LocalFilesSlow, TablesNotKept
from tenure.link.driver import Ended
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S, wait_until
from tests.spark.made_up_driver import (
    JAVA,
    FakeStream,
    Lead,
    made_up,
    may_start_again,
    prepare_hooks,
    spark_error,
    start_hooks,
)


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[Lead]:
    with made_up(tmp_path) as one:
        yield one


@pytest.mark.parametrize("wanted", [True, False])
def test_a_member_that_never_leads_has_no_mirror(lead: Lead, wanted: bool) -> None:
    lead.mirror = wanted
    with patch.object(driver_module, "Mirrors") as mirrors:
        lead.begin("one")
        lead.stop.set()
        lead.end()
    assert mirrors.called == wanted


def test_it_sweeps_once_every_query_has_caught_up_and_as_long_as_it_leads(lead: Lead) -> None:
    streams = lead.begin("a b")
    wait_until(lambda: lead.sweeps == ["started"])
    for stream in streams.values():
        stream.last = 7
    streams["a"].retaken_is_done = True
    assert not lead.may_sweep()
    streams["b"].retaken_is_done = True
    assert lead.may_sweep()
    lead.stop.set()
    lead.end()
    assert lead.sweeps == ["started", "stopped"]


def test_a_sweep_lets_the_first_batches_go_first_but_waits_for_no_idle_query() -> None:
    clock, streams = ManualClock(), [FakeStream(Mock(), None) for _ in "ab"]
    is_calm = driver_module._calm(streams, clock)  # type: ignore[arg-type] # stand-ins
    for stream in streams:
        stream.retaken_is_done = True
    streams[0].last = 3
    assert not is_calm()
    clock.advance(timedelta(seconds=6))
    assert is_calm()
    again = driver_module._calm(streams, clock)  # type: ignore[arg-type] # stand-ins
    assert not again()
    streams[1].last = 0
    assert again()


def test_the_queries_are_taken_over_at_once(lead: Lead) -> None:
    both = threading.Barrier(2)
    prepare_hooks.update(dict.fromkeys("ab", lambda stream: both.wait(NEVER_S)))
    lead.begin("a b")
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_a_query_that_cannot_be_taken_over_ends_the_term(lead: Lead) -> None:
    def gone(stream: FakeStream) -> None:
        raise InputsGone("they are gone")

    prepare_hooks["b"] = gone
    lead.begin("a b")
    assert isinstance(lead.end(), InputsGone)
    assert FakeStream.made["a"].closed


def test_who_is_idle_sweeps_before_it_ends(lead: Lead) -> None:
    """A pipeline that is run each night, and ends, would never be swept otherwise."""
    streams = lead.begin("a", until_idle=True)
    streams["a"].query.idle.set()
    assert lead.end() is Ended.IDLE
    assert lead.sweeps == ["started", "stopped", "swept"]


def test_a_new_session_begins_new_mirrors(lead: Lead) -> None:
    """A leader may have removed those of the session before."""
    lead.mirror = True
    with patch.object(driver_module, "Mirrors") as mirrors:
        mirrors.side_effect = made = [Mock(name=str(number)) for number in range(3)]
        lead.begin("one")
        lead.stop.set()
        lead.end()
        assert mirrors.call_count == 1, "who stops leading has no session yet"
        assert lead.driver is not None
        lead.driver.stand_by()
        lead.driver.stand_by()
    assert mirrors.call_count == 3
    wait_until(lambda: made[1].close.called)
    assert made[1].stop.called
    assert made[2].start.called
    assert not made[2].stop.called


def test_what_is_declared_is_judged_before_it_contends_and_recorded_before_anything_is_started(lead: Lead) -> None:
    started: list[list[str]] = []
    start_hooks["a"] = lambda stream: started.append(list(lead.asked))
    lead.begin("a")
    wait_until(lambda: started)
    assert started == [["check", "record"]]
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_what_may_not_be_run_by_now_is_not_started(lead: Lead) -> None:
    refused = DeclaredOtherwise("another member has recorded something else meanwhile")
    with patch.object(Lead, "record", side_effect=refused):
        lead.begin("a")
        assert lead.end() is refused
    assert FakeStream.made == {}


def test_a_member_that_may_not_run_does_not_rehearse(lead: Lead) -> None:
    refused = DeclaredOtherwise("another pipeline")
    with patch.object(Lead, "check", side_effect=refused), patch.object(driver_module, "Rehearsals") as rehearsals:
        with pytest.raises(DeclaredOtherwise):
            lead.begin("a")
        assert not rehearsals.called


def test_local_files_that_cost_a_process_each_are_told_and_hold_up_nothing(lead: Lead) -> None:
    with patch.object(driver_module, "use_own_local_files", lambda spark: "no compiler"):
        lead.begin("one")
    assert lead.goes_on()
    assert lead.events == [JvmStarted("rows", member="anna", java=JAVA), LocalFilesSlow("rows", "anna", "no compiler")]
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_tables_that_cannot_be_kept_are_told_and_hold_up_nothing(lead: Lead) -> None:
    with patch.object(driver_module, "use_kept_tables", lambda spark, storage: (None, "opened before")):
        lead.begin("one")
    assert lead.goes_on()
    assert lead.events == [JvmStarted("rows", member="anna", java=JAVA), TablesNotKept("rows", "anna", "opened before")]
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_a_lost_term_stops_every_query(lead: Lead) -> None:
    streams = lead.begin("a b")
    assert lead.goes_on()
    lead.liveness.end("refused")
    assert lead.end() is Ended.LOST
    assert [(one.query.stopped, one.closed) for one in streams.values()] == [(1, True), (1, True)]
    assert lead.killed == 0


def test_being_asked_to_stop_ends_it(lead: Lead) -> None:
    streams = lead.begin("a b")
    lead.stop.set()
    assert lead.end() is Ended.STOPPED
    assert all(one.query.stopped for one in streams.values())


def test_asked_to_finish_it_stops_each_query_after_its_batch(lead: Lead) -> None:
    streams = lead.begin("a b")
    for one in streams.values():
        one.begin()
    lead.finish.set()
    wait_until(lambda: all(one.finished for one in streams.values()))
    streams["a"].in_batch = False
    assert lead.goes_on()
    assert not any(one.query.stopped for one in streams.values())
    streams["b"].in_batch = False
    assert lead.end() is Ended.STOPPED
    assert all(one.query.stopped for one in streams.values())


def test_a_batch_that_does_not_finish_is_given_up(lead: Lead) -> None:
    streams = lead.begin("a")
    streams["a"].begin()
    lead.finish.set()
    lead.stop.set()
    assert lead.end() is Ended.STOPPED
    assert streams["a"].query.stopped


def test_a_batch_that_was_finished_elsewhere_is_taken_over_again(lead: Lead) -> None:
    streams = lead.begin("a b")
    streams["b"].elsewhere = True
    streams["b"].query.fail(StreamingQueryException("the inputs are gone"))
    assert lead.end() is Ended.OVERTAKEN
    assert all(one.query.stopped for one in streams.values())


def test_a_signal_that_ends_the_jvm_as_well_is_no_failure(lead: Lead) -> None:
    streams = lead.begin("a")
    lead.stop.set()
    streams["a"].query.fail(ConnectionRefusedError(111, "Connection refused"))
    assert lead.end() is Ended.STOPPED


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            spark_error("[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [X] no luck; SQLSTATE"),
            "query 'a' failed: [X] no luck; SQLSTATE; see spark.log",
        ),
        (
            spark_error("failed\n\tat x\nCaused by: java.lang.A: outer\n\tat y\nCaused by: java.lang.B: inner\n\tat"),
            "query 'a' failed: java.lang.B: inner; see spark.log",
        ),
        (
            spark_error('oh:\nTraceback (most recent call last):\n  File "x", line 1\n    f()\nValueError: 7\n\tat z'),
            "query 'a' failed: ValueError: 7; see spark.log",
        ),
        (Py4JError("the gateway\nis gone"), "query 'a' failed: Py4JError: the gateway; see spark.log"),
    ],
)
def test_a_failed_query_is_one_line_and_stops_the_others(lead: Lead, error: BaseException, line: str) -> None:
    streams = lead.begin("a b")
    streams["a"].query.fail(error)
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == line
    assert streams["b"].query.stopped == 1


def test_a_full_disk_is_the_storages_failure(lead: Lead) -> None:
    streams = lead.begin("a")
    streams["a"].query.fail(spark_error("x\nCaused by: java.io.IOException: No space left on device"))
    ended = lead.end()
    assert isinstance(ended, StorageError)
    assert str(ended) == "query 'a': java.io.IOException: No space left on device; free space on that disk"


@pytest.mark.parametrize(
    ("failures", "kind"),
    [
        ({"a": CorruptCheckpoint("no"), "b": TermLost(scope="rows", epoch=1)}, TermLost),
        ({"a": ValueError("user's"), "b": CorruptCheckpoint("no")}, CorruptCheckpoint),
        ({"a": ValueError("user's")}, QueryFailed),
    ],
)
def test_what_failed_on_our_side_is_told_as_it_is_a_lost_term_first(
    lead: Lead, failures: dict[str, Exception], kind: type[TenureError]
) -> None:
    streams = lead.begin("a b")
    for name, failure in failures.items():
        streams[name].failure = failure
        streams[name].query.fail(spark_error("what Spark makes of it"))
    ended = lead.end()
    assert type(ended) is kind
    if kind is QueryFailed:
        assert str(ended) == "query 'a' failed: ValueError: user's; see spark.log"


def test_a_stream_that_does_not_start_stops_those_that_did(lead: Lead) -> None:
    def refuse(stream: FakeStream) -> None:
        raise spark_error("[STREAMING_OUTPUT_MODE] not this mode")

    start_hooks["b"] = refuse
    streams = lead.begin("a b")
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == "query 'b' failed: [STREAMING_OUTPUT_MODE] not this mode; see spark.log"
    assert streams["a"].query.stopped == 1
    assert all(one.closed for one in streams.values())


def test_all_queries_are_stopped_at_once(lead: Lead) -> None:
    streams = lead.begin("a b")
    streams["a"].query.stop_hangs = streams["b"].query.ended  # in turn, the first would wait for the second
    lead.stop.set()
    assert lead.end() is Ended.STOPPED
    assert lead.killed == 0


@pytest.mark.parametrize("how", ["lost", "asked"])
def test_a_query_that_does_not_stop_is_stuck_and_its_jvm_is_killed(lead: Lead, how: str) -> None:
    streams = lead.begin("a b")
    streams["a"].query.stop_hangs = threading.Event()
    if how == "lost":
        lead.liveness.end("refused")
    else:
        lead.stop.set()
    ended = lead.end()
    assert isinstance(ended, DriverStuck)
    assert str(ended) == "queries did not stop in 0.3 s; the JVM was killed"
    assert lead.killed == 1
    assert streams["b"].query.stopped == 1  # one that hangs does not keep the others from stopping
    streams["a"].query.stop_hangs.set()


def test_a_pulse_asks_only_for_what_has_a_limit(lead: Lead) -> None:
    """Each mark costs calls into the JVM, each second."""
    streams = lead.begin("a limited b")
    wait_until(lambda: len(streams) == 3)
    assert lead.driver is not None
    assert lead.driver.pulse().marks == {"limited": "mark"}
    assert lead.driver.pulse().behind == {"a": 7, "b": 0}
    assert streams["a"].wanted == ["limited"]
    lead.stop.set()
    lead.end()


class Step:
    """A step of the driver that waits, once it is there, until it may go on."""

    def __init__(self) -> None:
        self._there, self._go_on = threading.Event(), threading.Event()

    def __call__(self, *_: object) -> None:
        self._there.set()
        assert self._go_on.wait(NEVER_S)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the driver is at this step."""
        assert self._there.wait(NEVER_S)
        try:
            yield
        finally:
            self._go_on.set()


def test_a_declaration_at_a_grant_that_takes_long_makes_no_progress_until_it_ends(lead: Lead) -> None:
    """A call in it that hung kept the term for ever: the limit counted from the first progress of the query."""
    declares, records = Step(), Step()
    lead.kept_zone = lambda term=None: None if term is None else declares()  # type: ignore[method-assign] # a step of it
    lead.record = lambda *_: records()  # type: ignore[method-assign] # the step after it
    beginning = threading.Thread(target=lead.begin, args=("a limited b",))
    beginning.start()
    with declares.held():
        assert lead.driver is not None
        wait_until(lambda: lead.driver.pulse().marks == {"limited": "declares"})  # type: ignore[union-attr] # it is there
    with records.held():
        assert lead.driver.pulse().marks == {"limited": None}
    beginning.join(NEVER_S)
    assert lead.driver.pulse().marks == {"limited": "mark"}
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_a_declaration_at_a_grant_may_take_as_long_as_the_first_lets_expect(lead: Lead) -> None:
    """One that reads many files, beside a short limit, would end each term."""
    declares = Step()
    lead.kept_zone = lambda term=None: None if term is None else declares()  # type: ignore[method-assign] # a step of it
    beginning = threading.Thread(target=lead.begin, args=("limited",))
    with patch.object(driver_module, "_LONG", 10**9):
        beginning.start()
        with declares.held():
            assert lead.driver is not None
            assert lead.driver.pulse().marks == {"limited": None}
        beginning.join(NEVER_S)
    lead.stop.set()
    assert lead.end() is Ended.STOPPED


def test_a_query_that_starts_again_ends_nothing_and_is_watched_and_stopped(lead: Lead) -> None:
    may_start_again.add("a")
    streams = lead.begin("a b")
    first, late = streams["a"].query, spark_error("Python worker failed to connect back")
    first.fail(late)
    wait_until(lambda: streams["a"].again == [late])
    assert lead.goes_on()
    assert streams["b"].query.stopped == 0
    second = streams["a"].query
    second.fail(again := spark_error("[X] its folder is gone"))
    wait_until(lambda: streams["a"].again == [late, again])
    third = streams["a"].query
    lead.stop.set()
    assert lead.end() is Ended.STOPPED
    assert (first.stopped, second.stopped, third.stopped) == (0, 0, 1)


def test_one_query_that_starts_again_does_not_hide_another_that_has_failed(lead: Lead) -> None:
    may_start_again.add("a")
    streams = lead.begin("a b")
    streams["b"].query.fail(spark_error("[X] its folder is gone"))
    streams["a"].query.fail(spark_error("Python worker failed to connect back"))
    ended = lead.end()
    assert isinstance(ended, QueryFailed)
    assert str(ended) == "query 'b' failed: [X] its folder is gone; see spark.log"
    assert streams["a"].query.stopped == 1
