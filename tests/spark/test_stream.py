"""One query under a term, attacked without Spark: what is visible when (I1, I2), and who is told what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import PropertyMock, patch

import pytest

from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.session import Liveness, SessionKeeper
from tenure.driver.declare_streams import call_of, with_trigger
from tenure.errors import CorruptCheckpoint, OutOfOrder, TermLost
from tenure.events import (
    BatchCommitted,
    CheckpointSaved,
    Events,
    MirrorFailed,
    QueryStartedAgain,
    RunDirectorySeeded,
    WriteRefused,
)
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory
from tenure.sinks import ForeachBatch
from tenure.sinks.sink import Batch, Written
from tests.kit.clock import ManualClock
from tests.kit.faulty import FaultyStore, Gate, writes_under
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S
from tests.spark.made_up_spark import QUERY, SCOPE, FakeSpark, Scene, StagingSink


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    inner = MemoryStore(MemoryServer())
    store = FaultyStore(inner)
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=SystemClock()) as keeper:
        term = Election(store, SCOPE, member="anna", clock=SystemClock()).campaign(keeper, stop=threading.Event())
        assert term is not None
        made = Scene(tmp_path, term, store, inner)
        yield made
        made.close()


class Standby:
    """A standby with a mirror at `path`; `bad`: there is something in it that it does not know of."""

    path = "runs/copy/mirror"

    def __init__(self, folder: Path, *, bad: bool) -> None:
        self.folder = folder
        self.let_go: list[str] = []
        if bad:
            (folder / self.path / "a-file").mkdir(parents=True)

    def take(self, query: str, *, source: str, epoch: int) -> tuple[str, Mirrored]:
        assert (query, epoch) == (QUERY, 1)
        return self.path, Mirrored(RunDirectory(f"{self.folder}/{source}"), RunDirectory(f"{self.folder}/{self.path}"))

    def let_tables_go(self, query: str) -> None:
        self.let_go.append(query)


def test_a_query_without_a_run_directory_does_not_start(scene: Scene) -> None:
    """Spark would take the storage itself for its checkpoint."""
    with pytest.raises(RuntimeError, match=f"query '{QUERY}' is not prepared"):
        scene.unprepared(StagingSink(scene.ledger)).start()
    assert list(scene.folder.iterdir()) == []


@pytest.mark.parametrize("bad", [False, True])
def test_a_mirror_is_run_on_and_one_that_is_no_good_is_done_without(scene: Scene, bad: bool) -> None:
    scene.start(StagingSink(scene.ledger))
    scene.spark.run(0)
    (first,) = scene.run_directories()
    (scene.folder / first / "sources/0").mkdir(parents=True)
    (scene.folder / first / "sources/0/0").write_text("v1\n17")
    scene.start(StagingSink(scene.ledger), mirrors=(standby := Standby(scene.folder, bad=bad)))
    second = scene.run_directories()[1]
    assert (second == Standby.path) is not bad
    assert (scene.folder / second / "offsets/0").read_text() == (scene.folder / first / "offsets/0").read_text()
    (seeded,) = [event for event in scene.told if isinstance(event, RunDirectorySeeded)]
    assert (seeded.batch, seeded.mirrored) == (0, not bad)
    failures = [event.why for event in scene.told if isinstance(event, MirrorFailed)]
    assert [f"{Standby.path} is not empty" in why for why in failures] == [True] * bad
    assert standby.let_go == []
    scene.spark.run(0)
    assert standby.let_go == [QUERY], "a batch has loaded the state"


def held_plan(scene: Scene, sink: StagingSink) -> tuple[Gate, threading.Thread]:
    """Start the sink's batch 0 with the plan's commit held back at the store."""
    _, gate = scene.store.pause(when=writes_under("checkpoints"))
    scene.start(sink)
    thread = threading.Thread(target=scene.spark.run, args=(0,), daemon=True)
    thread.start()
    gate.wait_arrived()
    assert sink.has_staged.wait(timeout=NEVER_S)
    return gate, thread


def test_nothing_is_visible_before_the_plan_is_committed(scene: Scene) -> None:
    sink = StagingSink(scene.ledger)
    gate, thread = held_plan(scene, sink)  # staging is over, the plan is not
    thread.join(timeout=0.2)
    assert scene.ledger.batches == []
    assert scene.events(BatchCommitted) == []
    gate.release()
    thread.join(timeout=NEVER_S)
    assert scene.ledger.batches == [0]
    assert scene.ledger.too_early == []
    kinds = [type(event).__name__ for event in scene.told]
    assert kinds == ["QueryStarted", "BatchStarted", "CheckpointSaved", "BatchCommitted"]


def test_the_judge_sees_a_sink_that_does_not_wait(scene: Scene) -> None:
    sink = StagingSink(scene.ledger, eager=True)
    gate, thread = held_plan(scene, sink)
    while not scene.ledger.batches and thread.is_alive():
        thread.join(timeout=0.01)
    assert scene.ledger.too_early == [0]
    assert scene.events(BatchCommitted) == []  # even so the batch does not count before its plan
    gate.release()
    thread.join(timeout=NEVER_S)
    assert len(scene.events(BatchCommitted)) == 1


def test_foreach_calls_nobody_before_the_plan(scene: Scene) -> None:
    seen: list[int | None] = []
    scene.start(ForeachBatch(lambda rows, batch: seen.append(scene.newest()), idempotent=True))
    for batch in range(3):
        scene.spark.run(batch)
    assert seen == [0, 1, 2]


def test_a_plan_that_the_store_refuses_ends_the_query_and_nothing_is_written(scene: Scene) -> None:
    scene.start(StagingSink(scene.ledger))
    scene.spark.run(0)
    scene.end_session()
    with pytest.raises(TermLost) as lost:
        scene.spark.run(1)
    assert scene.ledger.batches == [0]
    assert scene.newest() == 0
    assert scene.stream is not None
    assert scene.stream.failure is lost.value
    (refused,) = scene.events(WriteRefused)
    assert refused == WriteRefused(scope="rows", epoch=1, by="store", what="plan of batch 1 of query 'copy'")
    assert len(scene.events(CheckpointSaved)) == 1
    assert scene.term.lost


def test_a_batch_whose_plan_was_refused_never_counts_whatever_the_sink_did(scene: Scene) -> None:
    scene.start(StagingSink(scene.ledger, eager=True))
    scene.end_session()
    with pytest.raises(TermLost):
        scene.spark.run(0)
    assert scene.events(BatchCommitted) == []


def test_a_store_that_is_away_until_the_deadline_ends_the_query_and_refused_nothing(scene: Scene) -> None:
    clock = ManualClock(sleeping_advances=True)
    term = replace(scene.term, liveness=Liveness(clock=clock, until_s=clock.monotonic_s() + 5))
    scene.start(StagingSink(scene.ledger), term=term, clock=clock)
    scene.store.be_unavailable(when=writes_under("checkpoints"), times=None)
    with pytest.raises(TermLost):
        scene.spark.run(0)
    assert scene.ledger.batches == []
    assert scene.events(WriteRefused) == []


def test_a_sink_that_fails_leaves_the_plan_settled_and_the_batch_is_run_again(scene: Scene) -> None:
    class Failing(StagingSink):
        def write(self, rows: Any, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
            raise OSError("no luck")

    _, gate = scene.store.pause(when=writes_under("checkpoints"))
    scene.start(Failing(scene.ledger))

    def run() -> None:
        with pytest.raises(OSError, match="no luck"):
            scene.spark.run(0)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    gate.wait_arrived()
    thread.join(timeout=0.2)
    assert thread.is_alive()  # the plan decides first
    gate.release()
    thread.join(timeout=NEVER_S)
    assert scene.newest() == 0
    assert scene.events(BatchCommitted) == []
    assert isinstance(scene.stream.failure if scene.stream else None, OSError)


def test_a_batch_is_planned_once_with_one_text(scene: Scene) -> None:
    scene.start(StagingSink(scene.ledger))
    scene.spark.run(0)
    scene.spark.run(0)  # the same offsets: planned already
    assert scene.newest() == 0
    with pytest.raises(CorruptCheckpoint, match="planned with other offsets"):
        scene.spark.run(0, offset=99)
    with pytest.raises(OutOfOrder):
        scene.spark.run(2)
    assert scene.ledger.batches == [0, 0]


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        (None, []),
        ("1 second", [{"processingTime": "1 second"}]),
        ("available now", [{"availableNow": True}]),
        (" Available-Now ", [{"availableNow": True}]),
    ],
)
def test_what_spark_is_told_of_a_trigger(text: str | None, asked: list[dict[str, object]]) -> None:
    spark = FakeSpark()
    with_trigger(cast(Any, spark), text)
    assert spark.triggers == asked


def test_the_jvm_is_asked_only_for_marks_that_are_wanted(scene: Scene) -> None:
    sink = ForeachBatch(lambda rows, batch: seen.extend(marks(call_of(QUERY))), idempotent=True, timeout="5s")
    seen: list[tuple[str, str | None]] = []
    status = PropertyMock(return_value={"isTriggerActive": False})

    def marks(*wanted: str) -> list[tuple[str, str | None]]:
        assert scene.stream is not None
        return list(scene.stream.marks(wanted))

    with patch.object(FakeSpark, "status", status, create=True):
        scene.start(sink)
        scene.spark.run(0)
        assert seen == [(call_of(QUERY), "1/0")]
        assert marks() == []
        assert not status.called
        assert marks(QUERY) == [(QUERY, None)]
        assert status.called


LATE = ValueError("Python worker failed to connect back. SQLSTATE: XXKST")


def test_a_query_starts_for_three_minutes_where_its_process_was_late_and_once_where_it_failed(scene: Scene) -> None:
    scene.start(StagingSink(scene.ledger))
    assert scene.stream is not None
    assert scene.stream.start_again(ValueError("no luck")) is None
    assert [scene.stream.start_again(LATE) is not None for _ in range(18)] == [True] * 17 + [False]
    assert len(scene.events(QueryStartedAgain)) == 17
    assert len(set(scene.run_directories())) == 1
    scene.spark.run(0)
    assert scene.ledger.batches == [0]
    assert scene.ledger.too_early == []


def test_a_batch_of_a_second_start_asks_the_second_query(scene: Scene) -> None:
    """Spark may call with a batch before the start has returned."""
    scene.start(StagingSink(scene.ledger))
    assert scene.stream is not None
    asked: list[object] = []
    batch = threading.Thread(target=lambda stream: asked.append(stream._running()), args=(scene.stream,), daemon=True)
    second = FakeSpark()

    def late_start(self: FakeSpark) -> FakeSpark:
        batch.start()
        batch.join(timeout=0.2)
        return second

    with patch.object(FakeSpark, "start", late_start):
        assert cast(Any, scene.stream.start_again(LATE)) is second
    batch.join(timeout=NEVER_S)
    assert asked == [second]


def test_a_query_that_has_begun_a_batch_is_not_started_again(scene: Scene) -> None:
    """Its batch may be half written: the takeover of the next term decides on it."""
    scene.start(StagingSink(scene.ledger))
    scene.spark.run(0)
    assert scene.stream is not None
    assert scene.stream.start_again(LATE) is None
