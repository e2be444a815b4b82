"""One query under a term, attacked without Spark: what is visible when (I1, I2), and who is told what.

`FakeQuery` stands where Spark stands: it writes `offsets/N` and calls what `foreachBatch` was given. `Ledger` is
the judge of I2: at the moment of a sink's commit it looks whether the checkpoint is in the store.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.backends.memory import MemoryServer, MemoryStore
from tenure.blobs.filesystem import FileBlobs
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import Liveness, SessionKeeper
from tenure.coordination.term import LEADER, Term
from tenure.errors import CorruptCheckpoint, OutOfOrder, TermLost
from tenure.events import BatchCommitted, CheckpointSaved, Event, Events, WriteRefused
from tenure.handles.store import HandleStore
from tenure.pipelines.pipeline import Stream
from tenure.sinks import Foreach
from tenure.spark.sinks.sink import Batch, Sink, Written
from tenure.spark.stream import FencedStream, with_trigger
from tenure.testing.clock import ManualClock
from tenure.testing.faulty import FaultyStore, Gate, writes_under

SCOPE, QUERY = Scope("rows"), "copy"


class FakeSpark:
    """As much of a DataStreamWriter as a stream uses, and of the query that it starts."""

    isStreaming = True  # noqa: N815 - Spark's own name

    def __init__(self) -> None:
        self.options: dict[str, str] = {}
        self.triggers: list[dict[str, object]] = []
        self.on_batch: Callable[[Any, int], None] | None = None
        self.writeStream = self  # Spark's own name

    def queryName(self, name: str) -> FakeSpark:  # noqa: N802 - Spark's name
        assert name == QUERY
        return self

    def outputMode(self, mode: str) -> FakeSpark:  # noqa: N802 - Spark's name
        assert mode == "append"
        return self

    def option(self, name: str, value: str) -> FakeSpark:
        self.options[name] = value
        return self

    def foreachBatch(self, function: Callable[[Any, int], None]) -> FakeSpark:  # noqa: N802 - Spark's name
        self.on_batch = function
        return self

    def trigger(self, **how: object) -> FakeSpark:
        self.triggers.append(how)
        return self

    def start(self) -> FakeSpark:
        directory = Path(self.options["checkpointLocation"])
        (directory / "offsets").mkdir(parents=True)
        (directory / "metadata").write_text(json.dumps({"id": "the-query-id"}))
        return self

    def run(self, batch: int, *, offset: int | None = None) -> None:
        """What Spark does for a batch."""
        path = Path(self.options["checkpointLocation"], "offsets", str(batch))
        path.write_text(f"v1\n{{}}\n{batch if offset is None else offset}")
        assert self.on_batch is not None
        self.on_batch(SimpleNamespace(), batch)


class Ledger:
    """What was committed by the sink, and whether its checkpoint was in the store at that moment."""

    def __init__(self, newest: Callable[[], int | None]) -> None:
        self._newest = newest
        self.batches: list[int] = []
        self.too_early: list[int] = []

    def commit(self, batch: int) -> None:
        newest = self._newest()
        if newest is None or newest < batch:
            self.too_early.append(batch)
        self.batches.append(batch)


class StagingSink:
    """A sink that stages, then commits; `eager`: it does not wait for the plan."""

    def __init__(self, ledger: Ledger, *, eager: bool = False) -> None:
        self.ledger, self.eager = ledger, eager
        self.staged = threading.Event()

    def check(self, *, output_mode: str) -> None: ...

    def write(self, rows: Any, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        self.staged.set()
        if not self.eager:
            planned()
        self.ledger.commit(batch.id)
        return Written(repeated=False)


class Scene:
    """A leader, its store with faults around it, and a stream."""

    def __init__(self, folder: Path, term: Term, store: FaultyStore, inner: MemoryStore) -> None:
        self.folder, self.term, self.store = folder, term, store
        self.told: list[Event] = []
        self._inner = inner
        self.ledger = Ledger(self.newest)
        self.spark = FakeSpark()
        self.stream: FencedStream | None = None

    def newest(self) -> int | None:
        """The newest planned batch, as anybody else sees it."""
        found = self._inner.list(SCOPE, str(CHECKPOINTS.child(QUERY))).records
        return int(found[-1].key.name) if found else None

    def start(self, sink: object, *, term: Term | None = None, clock: Any = None) -> None:
        clock = clock or SystemClock()
        area = CHECKPOINTS.child(QUERY)
        blobs = FileBlobs(str(self.folder / "blobs"))
        handles = HandleStore(self.store, SCOPE, area=area, blobs=blobs, clock=clock)
        self.stream = FencedStream(
            Stream(QUERY, cast(Any, self.spark), cast(Sink, sink), "append", None),
            term=term or self.term,
            checkpoints=CheckpointStore(handles, query=QUERY),
            storage=str(self.folder),
            clock=clock,
            events=Events(self.told.append),
        )
        self.stream.start()

    def end_session(self) -> None:
        """The leader's session ends in the store, and nobody tells it."""
        leader = self.store.read(SCOPE, LEADER)
        assert leader is not None
        assert leader.session is not None
        self.store.expire(leader.session)

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    inner = MemoryStore(MemoryServer())
    store = FaultyStore(inner)
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=SystemClock()) as keeper:
        term = Election(store, SCOPE, member="anna", clock=SystemClock()).campaign(keeper, stop=threading.Event())
        assert term is not None
        made = Scene(tmp_path, term, store, inner)
        yield made
        if made.stream is not None:
            made.stream.close()


def held_plan(scene: Scene, sink: StagingSink) -> tuple[Gate, threading.Thread]:
    """Start the sink's batch 0 with the plan's commit held back at the store."""
    _, gate = scene.store.pause(when=writes_under("checkpoints"))
    scene.start(sink)
    thread = threading.Thread(target=scene.spark.run, args=(0,), daemon=True)
    thread.start()
    gate.wait_arrived()
    assert sink.staged.wait(timeout=10)
    return gate, thread


def test_nothing_is_visible_before_the_plan_is_committed(scene: Scene) -> None:
    sink = StagingSink(scene.ledger)
    gate, thread = held_plan(scene, sink)  # staging is over, the plan is not
    thread.join(timeout=0.2)
    assert scene.ledger.batches == []
    assert scene.events(BatchCommitted) == []
    gate.release()
    thread.join(timeout=10)
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
    thread.join(timeout=10)
    assert len(scene.events(BatchCommitted)) == 1


def test_foreach_calls_nobody_before_the_plan(scene: Scene) -> None:
    seen: list[int | None] = []
    scene.start(Foreach(lambda rows, batch: seen.append(scene.newest()), idempotent=True))
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
    thread.join(timeout=10)
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
