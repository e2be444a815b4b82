"""A sweep of any size beside a table takes what the leader's would, and never anything else."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.cleanup.applying import Applied, ApplyOptions, apply_plan
from tenure.cleanup.orphans import Claims
from tenure.cleanup.plan import STAGED
from tenure.cleanup.planning import Target, make_plan
from tenure.cleanup.sweep_plan import FILES, SweepPlan
from tenure.clock import SystemClock
from tenure.errors import StorageError, UsageError
from tenure.sinks.delta.staged_rule import look
from tenure.sinks.sink import Attempts, Planned
from tenure.sinks.staging.rule import StagedRule, rule_of, staged_in
from tenure.sinks.staging.stage import StagingPath
from tests.unit.sinks.staged_tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "a table+1%")


def read(table: Table, *, epoch: int, planned: int, query_ids: Collection[str] = ("id",)) -> StagedRule:
    attempts = Attempts("rows", "copy", lambda: query_ids, epoch, lambda: Planned("id", planned))
    return look(table.location, [attempts], scope="rows", epoch=epoch)


def make(table: Table, folder: Path, rule: Callable[[], StagedRule], *, epoch: int = 2) -> SweepPlan:
    plan = SweepPlan(str(folder))
    target = Target(
        "rows",
        str(table.path),
        lambda: Claims(epoch, "ben"),
        table=lambda claims: rule(),
        folders=(staged_in("rows"),),
    )
    make_plan(plan, target, now=lambda: datetime(2030, 1, 1, tzinfo=UTC), start_spark=no_spark)
    return plan


def apply(table: Table, plan: SweepPlan) -> Applied:
    options = ApplyOptions(rule_of=rule_of)
    return apply_plan(plan, storage=str(table.path), start_spark=no_spark, clock=SystemClock(), options=options)


def no_spark() -> Any:
    raise AssertionError("a small tree needs no Spark")


def planned(plan: SweepPlan) -> list[dict[str, Any]]:
    return [row for name in plan.parts() for row in plan.read("files", name).to_pylist()]


def test_what_is_staged_is_planned_and_removed_and_the_table_keeps_its_rows(table: Table, tmp_path: Path) -> None:
    table.commit(table.stage(0))
    paused, lost = table.stage(1), table.stage(2)
    (table.path / lost / "_temporary" / "0").mkdir(parents=True)
    (table.path / lost / "_temporary" / "0" / "half.parquet").write_bytes(b"half")
    plan = make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=1))
    assert plan.about().table
    assert plan.about().listed == 4
    assert {row["path"]: (row["kind"], row["unit"]) for row in planned(plan)} == {
        f"{lost}/part-0.parquet": (STAGED, lost),
        f"{lost}/_temporary/0/half.parquet": (STAGED, lost),
    }
    assert apply(table, plan).removed == 2
    assert not (table.path / lost).exists()
    assert not (table.path / lost).parent.exists(), "with the batch's folder"
    table.commit(paused)
    assert table.rows() == [0, 1]
    assert apply(table, plan) == Applied(1, 1, 2, 0, 0), "again"


def test_the_folders_of_the_query_stay(table: Table, tmp_path: Path) -> None:
    """Its leader is about to stage there."""
    table.stage(0)
    plan = make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=-1))
    apply(table, plan)
    assert list((table.path / "tenure-rows" / "copy" / "id").iterdir()) == []


@pytest.mark.parametrize("seed", range(20))
def test_it_takes_what_the_leader_would(table: Table, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    ids = ("id", "first")
    batch = 0
    for _ in range(12):
        epoch = chance.randint(1, 4)
        if chance.random() < 0.4:
            table.commit(table.stage(batch, epoch=epoch))
            batch += 1
        else:
            table.stage(
                chance.randint(0, batch + 2),
                epoch=epoch,
                scope=chance.choice(["rows", "rows", "rows", "other"]),
                query=chance.choice(["copy", "copy", "copy", "counts"]),
                query_id=chance.choice(["id", "id", "first", "of-another-store"]),
            )
    newest = batch - 1 + chance.randint(0, 1)
    wanted = [
        name for name in table.cleanables(epoch=3, planned=newest, query_ids=ids).find() if not name.endswith("/")
    ]
    plan = make(table, tmp_path / "plan", lambda: read(table, epoch=3, planned=newest, query_ids=ids), epoch=3)
    assert sorted({row["unit"] for row in planned(plan)}) == wanted


def test_the_log_is_read_when_everything_is_listed(table: Table, tmp_path: Path) -> None:
    """What is committed in that moment stays, although it was listed when nobody had committed it."""
    table.commit(table.stage(0))
    attempt = table.stage(1)

    def late() -> StagedRule:
        table.commit(attempt)
        return read(table, epoch=2, planned=1)

    assert planned(make(table, tmp_path / "plan", late)) == []
    assert table.rows() == [0, 1]


def test_without_a_table_what_is_staged_goes(table: Table, tmp_path: Path) -> None:
    lost = table.stage(0)
    plan = make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=-1))
    assert {row["unit"] for row in planned(plan)} == {lost}


def test_what_is_no_table_is_said(table: Table, tmp_path: Path) -> None:
    table.stage(0, scope="other")
    with pytest.raises(UsageError, match="is no Delta table, and nothing of scope 'rows' is staged there"):
        make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=-1))


def test_a_log_that_cannot_be_read_plans_nothing(table: Table, tmp_path: Path) -> None:
    table.commit(table.stage(0))
    for file in (table.path / "_delta_log").glob("*.json"):
        file.write_text("no log")
    with pytest.raises(StorageError, match="cannot look for staged files at"):
        make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=1))


def test_a_plan_that_was_tampered_with_removes_no_data(table: Table, tmp_path: Path) -> None:
    """User data is sacred: in a table only what Tenure itself has named so, of an earlier epoch."""
    table.stage(0)
    plan = make(table, tmp_path / "plan", lambda: read(table, epoch=2, planned=-1))
    own = [table.stage(0, epoch=2), table.stage(0, epoch=3), table.stage(0, scope="other")]
    (table.path / "part-0.parquet").write_bytes(b"rows")
    (table.path.parent / "precious").mkdir()
    name = StagingPath("rows", "copy", "id", 1, 0, "0" * 32)
    shutil.copytree(table.path / own[0], table.path / str(name))
    paths = [
        *(f"{attempt}/part-0.parquet" for attempt in own),
        "part-0.parquet",
        "_delta_log/0.json",
        "tenure-rows/notes.txt",
        f"{name}/../../../../../../part-0.parquet",
        f"{name}/..",
    ]
    rows = FILES.empty_table().from_pylist(
        [{"path": path, "size": 1, "kind": STAGED, "unit": path} for path in paths], schema=FILES
    )
    plan.write("files", plan.parts()[0], rows)
    before = sorted(table.path.rglob("*"))
    assert apply(table, plan).failed == len(paths)
    assert sorted(table.path.rglob("*")) == before
