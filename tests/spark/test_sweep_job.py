"""The sweep of a large tree by Spark: deep, flat and skewed, each file once, nothing that is needed, and on after a
crash."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.cleanup import planning
from tenure.cleanup import spark as spark_sweep
from tenure.cleanup.applying import Applied, ApplyOptions, apply_plan
from tenure.cleanup.orphans import Claims
from tenure.cleanup.sweep_plan import SweepPlan
from tenure.clock import SystemClock
from tenure.errors import QueryFailed
from tenure.sinks.delta.staged_rule import look
from tenure.sinks.sink import Attempts, Planned
from tenure.sinks.staging.rule import rule_of, staged_in
from tests.unit.sinks.staged_tables import Table

pytestmark = pytest.mark.spark

KEPT = "runs/q/e00000002-anna-0123456789ab"
CLAIMS = Claims(epoch=3, holder="anna", members=frozenset({"anna"}), named=frozenset({KEPT}))

DEEP = [
    f"runs/q/e00000001-anna-{number:012x}/{'/'.join('state' for _ in range(number))}/1.zip" for number in range(1, 60)
]
FLAT = [f"blobs/e00000001/checkpoints/q/{number:012d}-lost" for number in range(700)]
SKEWED = [f"runs/q/e00000001-dead-{0:012x}/state/0/{number % 3}/{number}.zip" for number in range(400)]
NEEDED = [f"{KEPT}/offsets/{number}" for number in range(50)] + ["blobs/e00000003/checkpoints/q/new"]


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep") / "storage"
    for path in (*DEEP, *FLAT, *SKEWED, *NEEDED):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("xyz")
    return root


def files(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def make(
    storage: Path, folder: Path, start: Callable[[], SparkSession], told: list[int], *, small: int = 1
) -> SweepPlan:
    plan = SweepPlan(str(folder))
    planning.make_plan(
        plan,
        planning.Target("rows", f"file://{storage}", lambda: CLAIMS),
        now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        start_spark=start,
        options=planning.PlanOptions(on_progress=told.append, small=small, budget=10),
    )
    return plan


def test_a_large_tree_is_planned_and_removed_and_goes_on_after_a_crash(
    spark: SparkSession, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(planning, "PART", 200)
    plan = make(storage, tmp_path / "plan", lambda: spark, told)
    orphans = {*DEEP, *FLAT, *SKEWED}
    about = plan.about()
    assert (about.listed, about.files, about.bytes) == (len(orphans) + len(NEEDED), len(orphans), 3 * len(orphans))
    assert len(told) > 2, "several rounds"
    assert told[-1] == about.listed
    assert told == sorted(told)
    planned = [path for part in plan.parts() for path in plan.read("files", part)["path"].to_pylist()]
    assert sorted(planned) == sorted(orphans), "each once"
    assert len(plan.parts()) > 3
    assert files(storage) == {*orphans, *NEEDED}, "nothing is removed by a plan"
    assert not (tmp_path / "plan" / "listing").exists()

    seen: list[Applied] = []

    class Killed(BaseException): ...

    def die(applied: Applied) -> None:
        seen.append(applied)
        if applied.parts:
            raise Killed

    def go_on(**named: Any) -> Applied:
        options = ApplyOptions(here=0, **named)
        return apply_plan(plan, storage=str(storage), start_spark=lambda: spark, clock=SystemClock(), options=options)

    with pytest.raises(Killed):
        go_on(on_progress=die)
    assert 0 < seen[-1].parts < seen[-1].of
    done = go_on()
    assert (done.parts, done.removed, done.gone, done.failed) == (len(plan.parts()), len(orphans), 0, 0)
    assert files(storage) == set(NEEDED)
    assert [path.name for path in (storage / "runs" / "q").iterdir()] == [KEPT.rsplit("/", 1)[-1]]
    assert [path.name for path in (storage / "blobs").iterdir()] == ["e00000003"]


def test_a_large_folder_that_the_driver_has_begun_is_listed_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "PART", 50)
    for path in (*FLAT, *NEEDED):
        (tmp_path / "storage" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "storage" / path).touch()
    told: list[int] = []
    plan = make(tmp_path / "storage", tmp_path / "plan", lambda: spark, told, small=100)
    assert (plan.about().listed, plan.about().files) == (len(FLAT) + len(NEEDED), len(FLAT))
    assert told[0] >= len(FLAT), "and not once more by a task"


def test_a_job_that_fails_is_one_line(
    spark: SparkSession, storage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (storage / "runs" / "q" / "e00000001-more-0123456789ab").mkdir()
    for number in range(150):
        (storage / "runs" / "q" / "e00000001-more-0123456789ab" / str(number)).touch()

    def fail(*positional: object, **named: object) -> object:
        raise ValueError("the disk\nis gone")

    monkeypatch.setattr(spark_sweep, "_list", fail)
    with pytest.raises(QueryFailed, match=r"the sweep's listing failed: .*the disk") as failed:
        make(storage, tmp_path / "plan", lambda: spark, [])
    assert "\n" not in str(failed.value)


def test_what_is_staged_beside_a_table_is_judged_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path / "table")
    kept = [table.commit(table.stage(batch)) for batch in range(150)]
    lost = {table.stage(batch) for batch in range(150, 300)}
    attempts = Attempts("rows", "copy", lambda: ("id",), 2, lambda: Planned("id", 149))
    target = planning.Target(
        "rows",
        str(table.path),
        lambda: Claims(2, "ben"),
        table=lambda claims: look(table.location, [attempts], scope="rows", epoch=claims.epoch),
        folders=(staged_in("rows"),),
    )
    plan = SweepPlan(str(tmp_path / "plan"))
    planning.make_plan(
        plan,
        target,
        now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        start_spark=lambda: spark,
        options=planning.PlanOptions(small=100, budget=40),
    )
    assert plan.about().listed == 300
    assert {row["unit"] for name in plan.parts() for row in plan.read("files", name).to_pylist()} == lost
    options = ApplyOptions(here=0, rule_of=rule_of)
    done = apply_plan(plan, storage=str(table.path), start_spark=lambda: spark, clock=SystemClock(), options=options)
    assert done.removed == 150
    assert table.rows() == list(range(150))
    assert all((table.path / attempt).is_dir() for attempt in kept)
