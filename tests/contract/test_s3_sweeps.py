"""The sweeps on a real S3 server: a leader's own beside its batches, and those of a plan; also when it refuses, is busy
or hangs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import s3fs
from pyarrow import parquet as pq

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.cleanup.applying import Applied, apply_plan
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.orphans import Claims
from tenure.cleanup.planning import Target, make_plan
from tenure.cleanup.sweep_plan import SweepPlan, summary
from tenure.clock import Clock, SystemClock
from tenure.coordination.term import check_term
from tenure.errors import StorageError
from tenure.events import CleanupDelayed, Event, Events
from tenure.retry import exponential_delay
from tenure.storage.blobs import FileBlobs
from tenure.storage.objects import Objects
from tenure.storage.s3 import S3
from tests.faults.lab import SCOPE, Crash, Crasher, Lab
from tests.kit.clock import ManualClock
from tests.kit.servers import BUCKET
from tests.s3 import DENY, HANG, PASS, SLOW_DOWN, Gate
from tests.unit.cleanup.going_on import KEEP, QUERY, Pipeline

UID = "0123456789ab"
KEPT, LOST = f"runs/q/e00000002-anna-{UID}", f"runs/q/e00000001-anna-{UID}"
ORPHANS = {f"{LOST}/offsets/0", f"{LOST}/state/0/0/1.zip", "blobs/e00000001/checkpoints/q/000000000009-lost"}
NEEDED = {f"{KEPT}/offsets/0", "blobs/e00000003/checkpoints/q/000000000002-y", "notes.txt", "runs.txt"}
CLAIMS = Claims(epoch=3, holder="anna", members=frozenset({"anna"}), named=frozenset({KEPT}))


class Bucket:
    """A scope's storage in S3."""

    def __init__(self) -> None:
        self.url = f"s3://{BUCKET}/{os.urandom(6).hex()}/rows"

    def put(self, path: str) -> str:
        place = S3(self.url)
        place.fs.pipe_file(f"{place.root}/{path}", b"xyz")
        return path

    def files(self) -> set[str]:
        return {path for page in S3(self.url).objects.pages("") for path, _ in page}


# --- a leader's own sweep -------------------------------------------------------------------------------------------


class S3Pipeline(Pipeline):
    """One whose storage is in S3."""

    def __init__(self, lab: Lab, bucket: Bucket) -> None:
        super().__init__(lab, Path("/nowhere"))
        self.bucket = bucket

    @property
    def storage(self) -> str:
        return self.bucket.url

    def put(self, path: str) -> str:
        return self.bucket.put(path)

    def has(self, path: str) -> bool:
        return any(key == path or key.startswith(f"{path}/") for key in self.bucket.files())


@pytest.fixture
def pipeline(gate: Gate, tmp_path: Path) -> S3Pipeline:
    lab = Lab(tmp_path)
    bucket = Bucket()
    lab.files = FileBlobs(f"{bucket.url}/blobs")
    made = S3Pipeline(lab, bucket)
    made.next_leader("anna")
    made.plan(0)
    return made


def take_over(pipeline: S3Pipeline) -> set[str]:
    """The next leader has left its predecessor behind; what that one has left."""
    first = pipeline.run
    never_planned = pipeline.directory("anna", epoch=1)
    lost = pipeline.put(f"blobs/e00000001/checkpoints/{QUERY}/000000000009-lost")
    pipeline.next_leader("ben")
    for batch in range(1, KEEP + 1):
        pipeline.plan(batch)
    return {first, never_planned, lost}


def test_what_a_dead_leader_left_goes_and_nothing_else(pipeline: S3Pipeline) -> None:
    left = take_over(pipeline)
    assert left <= set(pipeline.orphans())
    assert pipeline.sweep() == []
    assert not any(map(pipeline.has, left))
    pipeline.check_pointers()
    assert pipeline.orphans() == []
    before = pipeline.bucket.files()
    assert pipeline.sweep() == []
    assert pipeline.bucket.files() == before, "a second sweep changes nothing"


def test_what_is_locked_and_a_living_member_s_mirror_stay(pipeline: S3Pipeline) -> None:
    reader, standby = pipeline.standby("reader"), pipeline.standby("carl")
    first = pipeline.run
    lock = pipeline.handles(reader).lock(checkpoint_name(0), session=reader.keeper.session_id)
    mirror = pipeline.directory("carl", epoch=3)
    take_over(pipeline)
    assert pipeline.sweep() == []
    assert pipeline.has(first)
    assert pipeline.has(mirror)
    pipeline.handles(reader).release(lock)
    pipeline.plan(KEEP + 1)
    standby.dies()
    assert pipeline.sweep() == []
    assert not pipeline.has(first)
    assert not pipeline.has(mirror)
    assert pipeline.orphans() == []


def test_a_zombie_s_leavings_go_with_the_next_sweep(pipeline: S3Pipeline) -> None:
    take_over(pipeline)
    assert pipeline.sweep() == []
    late = pipeline.directory("anna", epoch=1)
    assert pipeline.orphans() == [late]
    assert pipeline.sweep() == []
    assert pipeline.orphans() == []


@pytest.mark.long  # on a local disk it is in every run
def test_a_crash_at_any_effect_is_mended_by_the_next_sweep(pipeline: S3Pipeline) -> None:
    take_over(pipeline)
    effects = 0
    while True:
        pipeline.directory("anna", epoch=1)
        pipeline.put(f"blobs/e00000001/checkpoints/{QUERY}/000000000009-lost")
        crasher = Crasher()
        crasher.at = effects
        try:
            pipeline.sweep(crasher=crasher)
        except Crash:
            pipeline.check_pointers()
            assert pipeline.sweep() == []
        assert pipeline.orphans() == []
        pipeline.check_pointers()
        if not crasher.dead:
            break
        effects += 1
    assert effects > 4


@pytest.mark.parametrize("what", [SLOW_DOWN, HANG, DENY])
def test_deletes_that_fail_are_tried_again_on_schedule_and_by_the_next_leader(
    pipeline: S3Pipeline, gate: Gate, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    left = take_over(pipeline)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    clock = ManualClock(sleeping_advances=True)
    told: list[Event] = []
    blocked = 3

    def rule(method: str, path: str) -> str:
        return what if method == "POST" and "delete" in path and gate.became(what) < blocked else PASS

    def walk() -> object:
        member, term = pipeline.leaders[-1]
        cleaner = Cleaner(
            pipeline.found(),
            check=lambda term: check_term(member.store, term, clock=pipeline.lab.clock),
            scope=SCOPE,
            policy=exponential_delay(attempts=2),
            clock=clock,
            events=Events(told.append),
        )
        return cleaner.run(term, stop=threading.Event())

    gate.rule = rule
    walk()
    delayed = [one for one in told if isinstance(one, CleanupDelayed)]
    assert [one.left for one in delayed] == [3], "each of them was refused once"
    assert clock.monotonic_s() == pytest.approx(1, abs=0.15), "the first delay of the policy"
    assert not any(map(pipeline.has, left))

    late = pipeline.directory("anna", epoch=1)
    blocked = 10_000
    assert walk(), "the policy has given up, and says what is left"
    assert pipeline.orphans() == [late], "it is listed meanwhile"
    gate.rule = lambda method, path: PASS
    pipeline.next_leader("carl")
    assert pipeline.sweep() == []
    assert not pipeline.has(late)


# --- the sweep of a plan --------------------------------------------------------------------------------------------


@pytest.fixture
def bucket(gate: Gate) -> Bucket:
    made = Bucket()
    for path in sorted(ORPHANS | NEEDED):
        made.put(path)
    return made


def make(bucket: Bucket, folder: str, *, claims: Callable[[], Claims] = lambda: CLAIMS) -> SweepPlan:
    plan = SweepPlan(folder)
    make_plan(
        plan,
        Target("rows", bucket.url, claims),
        now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        start_spark=no_spark,
    )
    return plan


def apply(plan: SweepPlan, bucket: Bucket, *, clock: Clock | None = None) -> Applied:
    return apply_plan(plan, storage=bucket.url, start_spark=no_spark, clock=clock or SystemClock())


def no_spark() -> Any:
    raise AssertionError("a small tree needs no Spark")


@pytest.mark.parametrize("where", ["disk", "s3"])
def test_a_plan_of_a_bucket_removes_what_nobody_needs(bucket: Bucket, tmp_path: Path, where: str) -> None:
    """The plan itself may lie in S3 as well."""
    folder = str(tmp_path / "plan") if where == "disk" else f"s3://{BUCKET}/{os.urandom(6).hex()}/plan"
    plan = make(bucket, folder)
    about = plan.about()
    assert (about.files, about.bytes) == (len(ORPHANS), 3 * len(ORPHANS))
    assert bucket.files() == ORPHANS | NEEDED, "a plan removes nothing"
    assert apply(plan, bucket) == Applied(1, 1, len(ORPHANS), 0, 0)
    assert bucket.files() == NEEDED
    assert apply(plan, bucket).removed == len(ORPHANS), "a second run changes nothing"
    assert make(bucket, f"{folder}-2").about().files == 0
    assert sum(row["removed"] for row in summary(plan, shown=5)["kinds"]) == len(ORPHANS)


def test_a_report_whose_writing_was_interrupted_is_not_there(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = f"s3://{BUCKET}/{os.urandom(6).hex()}/plan"
    plan = make(bucket, folder)

    def interrupt(*positional: object, **named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", interrupt)
        with pytest.raises(KeyboardInterrupt):
            apply(plan, bucket)
    assert plan.reported() == []
    place = S3(folder)
    place.fs.pipe_file(f"{place.root}/report/{plan.parts()[0]}.parquet", b"half")
    with pytest.raises(StorageError, match=r"report/000000\.parquet is damaged: .*make a new plan"):
        apply(plan, bucket)


def test_s3a_is_the_same_place(bucket: Bucket, tmp_path: Path) -> None:
    plan = make(bucket, str(tmp_path / "plan"))
    bucket.url = bucket.url.replace("s3://", "s3a://")
    assert apply(plan, bucket).removed == len(ORPHANS)


@pytest.mark.parametrize("what", [SLOW_DOWN, HANG])
def test_a_server_that_is_busy_is_asked_again(
    bucket: Bucket, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    plan = make(bucket, str(tmp_path / "plan"))
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    gate.rule = lambda method, path: what if method == "POST" and gate.became(what) < 3 else PASS
    clock = ManualClock(sleeping_advances=True)
    assert apply(plan, bucket, clock=clock).failed == 0
    assert clock.monotonic_s() == pytest.approx(0.2 + 0.4 + 0.8, rel=0.11)
    assert bucket.files() == NEEDED


def test_what_is_refused_is_told_and_tried_again_by_the_next_run(
    bucket: Bucket, gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make(bucket, str(tmp_path / "plan"))
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    gate.rule = lambda method, path: DENY if method == "POST" else PASS
    clock = ManualClock(sleeping_advances=True)
    assert apply(plan, bucket, clock=clock) == Applied(1, 1, 0, 0, len(ORPHANS))
    assert {one["why"] for one in summary(plan, shown=9)["failures"]} == {"of the gate"}
    assert bucket.files() == ORPHANS | NEEDED
    gate.rule = lambda method, path: PASS
    assert apply(plan, bucket) == Applied(1, 1, len(ORPHANS), 0, 0)
    assert bucket.files() == NEEDED


def test_of_many_keys_those_that_the_server_is_too_busy_for_are_tried_again(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers for each key by itself: a call that went well may have deleted some of them only."""
    plan = make(bucket, str(tmp_path / "plan"))
    delete = Objects.delete
    calls: list[int] = []

    def partly(self: Objects, paths: list[str]) -> dict[str, tuple[str, str]]:
        calls.append(len(paths))
        if len(calls) > 2 or not all(path in ORPHANS for path in paths):
            return dict(delete(self, paths))
        answers = dict.fromkeys(paths[1:], ("SlowDown", "later"))
        if len(calls) == 1:
            answers[paths[1]] = ("AccessDenied", "never")
        return {**delete(self, [path for path in paths if path not in answers]), **answers}

    monkeypatch.setattr(Objects, "delete", partly)
    clock = ManualClock(sleeping_advances=True)
    assert apply(plan, bucket, clock=clock) == Applied(1, 1, len(ORPHANS) - 1, 0, 1)
    assert calls[:2] == [3, 1]
    assert [one["why"] for one in summary(plan, shown=9)["failures"]] == ["AccessDenied: never"]
    assert clock.monotonic_s() == pytest.approx(timedelta(milliseconds=200).total_seconds(), rel=0.11)
    assert len(bucket.files() - NEEDED) == 1
