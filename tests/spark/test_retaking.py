"""A batch that is run again, its inputs, and what is asked around it, without Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import FILES, Source
from tenure.checkpoints.store import CHECKPOINTS
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.session import SessionKeeper
from tenure.driver import stream
from tenure.errors import BatchMayBeShort, DeclaredOtherwise, Fenced, InputsGone, QueryFailed, TermLost
from tenure.events import BatchCommitted, BatchRetaken, CheckpointSaved, RunDirectorySeeded, WriteRefused
from tenure.sinks import ForeachBatch
from tenure.sinks.sink import Batch, Written
from tests.kit.faulty import FaultyStore
from tests.kit.memory import MemoryServer, MemoryStore
from tests.spark.made_up_spark import QUERY, SCOPE, Scene, StagesSink, StagingSink

LOGGED = '{"logOffset":0}'
INPUT = "file:///in/sp%20ace.json"


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


def plan_and_die(scene: Scene) -> Path:
    """Batch 0 is planned with one input file, and the leader dies before Spark notes it as done."""
    scene.start(StagingSink(scene.ledger))
    scene.spark.run(0, offset=LOGGED)
    directory = scene.folder / scene.run_directories()[-1]
    (directory / "sources/0").mkdir(parents=True)
    (directory / "sources/0/0").write_text("v1\n" + json.dumps({"path": INPUT, "timestamp": 1, "batchId": 0}))
    return directory


def newest(scene: Scene) -> Checkpoint:
    found = scene.stream._takeover.checkpoints.newest() if scene.stream is not None else None
    assert found is not None
    return found


def done(directory: Path, *, note: str = "v1\n{}") -> None:
    (directory / "commits").mkdir(exist_ok=True)
    (directory / "commits/0").write_text(note)


TORN = ["", "\0" * 29, "v1", 'v1\n{"nextBatchWatermarkMs":']
"""What a machine that lost its power may leave of a note that Spark has renamed into its place."""


def test_a_batch_that_is_run_again_is_retaken_first(scene: Scene) -> None:
    old = plan_and_die(scene)
    sink = StagingSink(scene.ledger)
    scene.start(sink)
    own = scene.run_directories()[-1]
    assert newest(scene).run_directory == own != str(old.relative_to(scene.folder))
    assert not sink.has_staged.is_set()
    scene.spark.run(0, offset=LOGGED)
    assert scene.ledger.batches == [0, 0]
    assert len(scene.events(CheckpointSaved)) == 2  # told, and not written again
    (retaken,) = scene.events(BatchRetaken)
    assert retaken == BatchRetaken(scope=SCOPE, epoch=1, query=QUERY, batch=0, done=False)
    assert newest(scene).folders == ("0",)


def test_a_batch_that_is_done_is_not_retaken(scene: Scene) -> None:
    old = plan_and_die(scene)
    done(old)
    scene.missing = ["file:/in/sp ace.json"]
    scene.start(StagingSink(scene.ledger))
    assert scene.events(BatchRetaken) == []
    assert scene.events(RunDirectorySeeded)[-1].batch == 1
    assert newest(scene).run_directory == str(old.relative_to(scene.folder))
    scene.spark.run(1, offset='{"logOffset":1}')
    assert scene.ledger.batches == [0, 1]


def test_the_paths_of_an_adopted_checkpoint_are_known_from_its_first_takeover_on(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing noted them before the next batch: until then a source could move, and was read once more."""
    old = plan_and_die(scene)
    done(old)
    assert newest(scene).paths == {}
    scene.sources = (Source.of("0", FILES, "json path=file:/in", path="file:/in"),)
    scene.start(StagingSink(scene.ledger))
    assert newest(scene).paths == {"0": "file:/in"}
    assert newest(scene).closed
    assert scene.events(BatchRetaken) == []
    scene.sources = (Source.of("0", FILES, "json path=file:/moved", path="file:/moved"),)
    monkeypatch.setattr(stream, "modification_times", lambda spark, paths: [None for _ in paths])
    with pytest.raises(DeclaredOtherwise, match=f"source 0 of query '{QUERY}' has moved from file:/in to file:/moved"):
        scene.start(StagingSink(scene.ledger))


def test_an_adopted_checkpoint_of_a_source_that_lies_elsewhere_is_refused(scene: Scene) -> None:
    done(plan_and_die(scene))
    scene.sources = (Source.of("0", FILES, "json path=file:/moved", path="file:/moved"),)
    with pytest.raises(DeclaredOtherwise, match="each file of its last batches lies elsewhere"):
        scene.start(StagingSink(scene.ledger))


def with_a_window(directory: Path) -> None:
    """The state of one aggregation, as the batch left it."""
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1}],
    }
    for name, text in (("_metadata/metadata", f"v1\n{json.dumps(operator)}"), ("0/1.delta", "x")):
        path = directory / "state/0" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("setting", "owed"), [(None, True), ("true", True), ("false", False)])
def test_the_batch_that_closes_the_windows_of_the_last_batch_is_planned(
    scene: Scene, setting: str | None, owed: bool
) -> None:
    old = plan_and_die(scene)
    with_a_window(old)
    done(old, note='v1\n{"nextBatchWatermarkMs":5}')
    if setting is not None:
        scene.spark.sparkSession.conf["spark.sql.streaming.noDataMicroBatches.enabled"] = setting
    scene.start(StagingSink(scene.ledger))
    offsets = scene.folder / scene.run_directories()[-1] / "offsets"
    assert {path.name for path in offsets.iterdir() if path.name.isdigit()} == ({"0", "1"} if owed else {"0"})
    assert newest(scene).batch == 0, "the store learns of it when Spark begins it"
    if owed:
        _, metadata, source = (offsets / "1").read_text().split("\n")
        assert json.loads(metadata)["batchWatermarkMs"] == 5
        assert source == LOGGED


@pytest.mark.parametrize("note", TORN)
def test_a_note_that_does_not_decode_is_none_and_its_batch_is_run_again(scene: Scene, note: str) -> None:
    old = plan_and_die(scene)
    done(old, note=note)
    scene.start(StagingSink(scene.ledger))
    assert [event.done for event in scene.events(BatchRetaken)] == [False]
    scene.spark.run(0, offset=LOGGED)
    assert scene.ledger.batches == [0, 0]


@pytest.mark.parametrize("note", TORN)
def test_nobody_has_finished_a_batch_whose_note_does_not_decode(scene: Scene, note: str) -> None:
    old = plan_and_die(scene)
    other = old.with_name("e00000001-zoe-0123456789ab")
    for name in ("offsets/0", "sources/0/0", "metadata"):
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_bytes((old / name).read_bytes())
    done(other, note=note)
    scene.missing = ["file:/in/sp ace.json"]
    with pytest.raises(InputsGone):
        scene.start(StagingSink(scene.ledger))


def test_inputs_that_are_gone_are_told_before_anything_is_retaken(scene: Scene) -> None:
    old = plan_and_die(scene)
    asked: list[tuple[str, ...]] = []
    scene.missing = ["file:/in/sp ace.json"]
    scene.on_ask = lambda paths: asked.append(tuple(paths))
    with pytest.raises(InputsGone, match=r"batch 0 of query .copy. are gone: file:/in/sp ace\.json; put them back"):
        scene.start(StagingSink(scene.ledger))
    assert asked == [("file:///in/sp ace.json",)], "as Hadoop names it"
    assert newest(scene).run_directory == str(old.relative_to(scene.folder))


@pytest.mark.parametrize("whole", [True, False])
def test_a_run_directory_in_which_an_overtaken_leader_has_finished_is_gone_on_from(scene: Scene, whole: bool) -> None:
    old = plan_and_die(scene)
    other = old.with_name("e00000001-zoe-0123456789ab")
    for name in ("offsets", "commits", "sources/0"):
        (other / name).mkdir(parents=True)
    for name in ("offsets/0", "sources/0/0", *(["metadata"] if whole else [])):
        (other / name).write_bytes((old / name).read_bytes())
    done(other)
    scene.missing = ["file:/in/sp ace.json"]
    if not whole:  # a seed that its leader did not come to the end of has `commits` as well
        with pytest.raises(InputsGone):
            scene.start(StagingSink(scene.ledger))
        return
    scene.start(StagingSink(scene.ledger))
    assert [event.done for event in scene.events(BatchRetaken)] == [True]
    assert newest(scene).closed
    assert newest(scene).run_directory == scene.run_directories()[-1]
    scene.spark.run(1, offset='{"logOffset":1}')
    assert scene.ledger.batches == [0, 1]


def test_inputs_that_go_while_they_are_read_are_told_before_the_sink_commits(scene: Scene) -> None:
    plan_and_die(scene)
    scene.start(StagesSink(scene.ledger))
    scene.missing = [f"file:/in/{number}" for number in range(3)]
    with pytest.raises(InputsGone, match="are gone: file:/in/0 and 2 more; put them back") as gone:
        scene.spark.run(0, offset=LOGGED)
    assert not isinstance(gone.value, BatchMayBeShort)
    assert scene.ledger.batches == [0], "as the first leader wrote it"
    assert scene.stream is not None
    assert not scene.stream.is_done_elsewhere()
    done(scene.folder / scene.run_directories()[-1])
    assert scene.stream.is_done_elsewhere()


def test_of_a_function_it_is_told_that_the_target_may_hold_a_short_batch(scene: Scene) -> None:
    plan_and_die(scene)

    def function(rows: Any, batch: Batch) -> None:
        scene.missing = ["file:/in/sp ace.json"]

    scene.start(ForeachBatch(function, idempotent=True))
    with pytest.raises(InputsGone, match="the target may hold a short batch") as gone:
        scene.spark.run(0, offset=LOGGED)
    assert isinstance(gone.value, BatchMayBeShort)
    assert scene.stream is not None
    done(scene.folder / scene.run_directories()[-1])
    assert not scene.stream.is_done_elsewhere(), "somebody has to look at the target"


def test_the_store_is_asked_before_spark_may_note_a_first_evaluation_as_done(scene: Scene) -> None:
    class Slow(StagingSink):
        def write(self, rows: Any, batch: Batch, **named: Any) -> Written:
            written = super().write(rows, batch, **named)
            scene.end_session()
            return written

    scene.start(Slow(scene.ledger))
    with pytest.raises(TermLost):
        scene.spark.run(0)
    assert scene.ledger.batches == [0]
    (refused,) = scene.events(WriteRefused)
    assert refused.what == "end of batch 0 of query 'copy'"
    assert scene.events(BatchCommitted) == []


def test_the_store_is_asked_before_a_function_is_called_and_from_inside(scene: Scene) -> None:
    called: list[int] = []

    def function(rows: Any, batch: Batch) -> None:
        called.append(batch.id)
        batch.check()
        scene.end_session()
        batch.check()
        raise AssertionError("it went on")

    scene.start(ForeachBatch(function, idempotent=True))
    with pytest.raises(TermLost):
        scene.spark.run(0)
    with pytest.raises(TermLost):
        scene.spark.run(0)  # planned already, so nothing is written that could be refused
    assert called == [0]
    assert {event.what for event in scene.events(WriteRefused)} == {"write of batch 0 of query 'copy'"}


def test_what_a_function_had_already_is_recorded(scene: Scene) -> None:
    scene.start(ForeachBatch(lambda rows, batch: Written(repeated=batch.id == 1), idempotent=True))
    scene.spark.run(0)
    scene.spark.run(1)
    assert [event.repeated for event in scene.events(BatchCommitted)] == [False, True]


@pytest.mark.parametrize("over", [True, False])
def test_a_target_that_refuses_the_epoch_ends_the_term_or_is_of_another_life(scene: Scene, over: bool) -> None:
    def function(rows: Any, batch: Batch) -> None:
        if over:
            scene.end_session()
        raise Fenced("epoch 7 was here")

    scene.start(ForeachBatch(function, idempotent=True))
    with pytest.raises(TermLost if over else QueryFailed) as told:
        scene.spark.run(0)
    assert over or "epoch 7 was here), and the store says that this term stands" in str(told.value)
    (refused,) = scene.events(WriteRefused)
    assert (refused.by, refused.what) == ("sink", "batch 0 of copy to its target")
    assert scene.store.read(SCOPE, CHECKPOINTS.child(QUERY).child("000000000000")) is not None
