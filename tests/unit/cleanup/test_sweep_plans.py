"""Plans of small trees, which need no Spark: what is in them, what goes by them, and what never does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.cleanup import applying, planning
from tenure.cleanup.applying import Applied, ApplyOptions, apply_plan, orphan_rule
from tenure.cleanup.orphans import Claims
from tenure.cleanup.sweep_plan import About, SweepPlan, summary
from tenure.clock import Clock, SystemClock
from tenure.errors import StorageError, UsageError
from tenure.storage.local import Local
from tests.kit.clock import ManualClock

UID = "0123456789ab"
KEPT, LOST = f"runs/q/e00000002-anna-{UID}", f"runs/q/e00000001-anna-{UID}"
ORPHANS = (
    f"{LOST}/offsets/0",
    f"{LOST}/state/0/0/1.zip",
    f"runs/q/e00000003-gone-{UID}/state/0/0/1.zip",
    f"rehearsals/gone/q-{UID}/offsets/0",
    "blobs/e00000001/checkpoints/q/000000000009-lost",
)
NEEDED = (
    f"{KEPT}/offsets/0",
    f"runs/q/e00000004-ben-{UID}/state/0/0/1.zip",
    f"rehearsals/ben/q-{UID}/offsets/0",
    "blobs/e00000002/checkpoints/q/000000000001-x",
    "blobs/e00000003/checkpoints/q/000000000002-y",
    "runs/notes.txt",
    "notes.txt",
)
CLAIMS = Claims(
    epoch=3,
    holder="anna",
    members=frozenset({"anna", "ben"}),
    named=frozenset({KEPT, "blobs/e00000002/checkpoints/q/000000000001-x"}),
)


class Place:
    """A storage, and a folder for plans."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "storage"
        self.plans = folder / "plans"
        for path in (*ORPHANS, *NEEDED):
            self.put(path)

    def put(self, path: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text("xyz")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def make(self, name: str = "one", *, claims: Callable[[], Claims] = lambda: CLAIMS, **named: Any) -> SweepPlan:
        plan = SweepPlan(str(self.plans / name))
        planning.make_plan(
            plan,
            planning.Target("rows", f"file://{self.root}", claims),
            now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
            start_spark=no_spark,
            options=planning.PlanOptions(**named),
        )
        return plan

    def apply(self, plan: SweepPlan, *, storage: str = "", clock: Clock | None = None, **named: Any) -> Applied:
        where, options = storage or str(self.root), ApplyOptions(**named)
        return apply_plan(plan, storage=where, start_spark=no_spark, clock=clock or SystemClock(), options=options)


def no_spark() -> Any:
    raise AssertionError("a small tree needs no Spark")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_what_nobody_needs_is_planned_looked_at_and_removed(place: Place) -> None:
    plan = place.make()
    assert place.files() == {*ORPHANS, *NEEDED}, "a plan removes nothing"
    assert plan.about() == About(
        scope="rows",
        storage=f"file://{place.root}",
        epoch=3,
        holder="anna",
        made_at="2030-01-01T00:00:00+00:00",
        listed=len(ORPHANS) + len(NEEDED) - 1,  # the scope's own folder is not looked at
        files=len(ORPHANS),
        bytes=3 * len(ORPHANS),
    )
    progress: list[Applied] = []
    assert place.apply(plan, on_progress=progress.append) == Applied(1, 1, len(ORPHANS), 0, 0)
    assert progress == [Applied(0, 1, 0, 0, 0), Applied(1, 1, len(ORPHANS), 0, 0)]
    assert place.files() == set(NEEDED)
    assert not (place.root / LOST).exists(), "with its folders"
    assert not (place.root / "rehearsals/gone").exists()
    assert (place.root / "runs/q").exists()
    kinds = [(row["kind"], row["files"], row["removed"]) for row in summary(plan, shown=5)["kinds"]]
    assert kinds == [("blobs", 1, 1), ("rehearsals", 1, 1), ("run directories", 3, 3)]


def test_a_plan_without_sizes_asks_for_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Local, "sizes", None)
    plan = place.make(sizes=False)
    assert plan.about().bytes is None
    assert {row["bytes"] for row in summary(plan, shown=1)["kinds"]} == {None}
    assert place.apply(plan).removed == len(ORPHANS)


def test_the_records_are_read_when_everything_is_listed(place: Place) -> None:
    later = f"runs/q/e00000002-carl-{UID}/offsets/0"

    def read() -> Claims:
        place.put(later)
        return CLAIMS

    plan = place.make(claims=read)
    place.apply(plan)
    assert later in place.files()


def test_records_of_another_pipeline_are_refused(place: Place) -> None:
    """Nothing in the storage is named by them, so all of it would go."""
    for named in (frozenset[str](), frozenset({f"runs/q/e00000001-other-{UID}"})):
        with pytest.raises(UsageError, match="no checkpoint in the store names a run directory that is in file://"):
            place.make(str(len(named)), claims=lambda named=named: Claims(9, "x", frozenset(), named))  # type: ignore[misc] # bound at once
        with pytest.raises(UsageError, match="there is no whole plan"):
            SweepPlan(str(place.plans / str(len(named)))).about()


def test_a_second_plan_is_empty_and_a_second_apply_changes_nothing(place: Place) -> None:
    plan = place.make()
    place.apply(plan)
    assert place.apply(plan) == Applied(1, 1, len(ORPHANS), 0, 0)
    second = place.make("two")
    assert second.about().files == 0
    assert place.apply(second) == Applied(0, 0, 0, 0, 0)
    assert place.files() == set(NEEDED)


def test_a_plan_that_was_killed_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "PART", 2)
    plan = place.make()
    (first, *rest) = plan.parts()
    rule = orphan_rule(plan.about())
    assert len(rest) == 2
    applying.apply_part(plan.url, first, rule, per_second=None, clock=SystemClock())
    removed = place.files()
    assert len(removed) == len(NEEDED) + len(ORPHANS) - 2
    applying.apply_part(plan.url, rest[0], rule, per_second=None, clock=SystemClock())
    os.unlink(place.plans / "one" / "report" / f"{rest[0]}.parquet")  # it was killed before it had said so
    applying.apply_part(plan.url, rest[1], rule, per_second=None, clock=SystemClock())
    assert place.apply(plan) == Applied(3, 3, len(ORPHANS) - 2, 2, 0)
    assert place.files() == set(NEEDED)


def test_what_fails_is_told_and_tried_again_by_the_next_run(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = place.make()
    unlink = os.unlink

    def refuse(name: str, **named: int) -> None:
        if str(name).endswith("1.zip"):
            raise PermissionError(13, "Permission denied")
        unlink(name, **named)

    monkeypatch.setattr(os, "unlink", refuse)
    done = place.apply(plan)
    assert (done.removed, done.failed) == (3, 2)
    assert [one["why"] for one in summary(plan, shown=5)["failures"]] == ["Permission denied"] * 2
    monkeypatch.setattr(os, "unlink", unlink)
    assert place.apply(plan) == Applied(1, 1, 2, 3, 0)
    assert place.files() == set(NEEDED)


def test_a_disk_that_stutters_is_tried_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = place.make()
    unlink = os.unlink
    failed: list[str] = []

    def stutter(name: str, **named: int) -> None:
        if len(failed) < 4:  # at once, and then with delays
            failed.append(name)
            raise OSError(5, "Input/output error")
        unlink(name, **named)

    monkeypatch.setattr(os, "unlink", stutter)
    clock = ManualClock(sleeping_advances=True)
    assert place.apply(plan, clock=clock).failed == 0
    assert clock.monotonic_s() > 0.9


def test_what_somebody_else_has_removed_is_gone(place: Place) -> None:
    """The leader sweeps as well."""
    plan = place.make()
    shutil.rmtree(place.root / LOST)
    (place.root / ORPHANS[-1]).unlink()
    assert place.apply(plan) == Applied(1, 1, 2, 3, 0)


def test_a_folder_that_cannot_be_opened_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = place.make()
    opening = os.open

    def refuse(path: str, flags: int, *more: int) -> int:
        if path.endswith("/offsets"):
            raise PermissionError(13, "Permission denied")
        return opening(path, flags, *more)

    monkeypatch.setattr(os, "open", refuse)
    assert place.apply(plan).failed == 2
    assert {one["why"] for one in summary(plan, shown=5)["failures"]} == {"Permission denied"}


def test_a_rate_is_kept(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "AT_ONCE", 1)
    clock = ManualClock(sleeping_advances=True)
    place.apply(place.make(), per_second=0.5, clock=clock)
    assert clock.monotonic_s() == pytest.approx(2 * len(ORPHANS))


def test_links_go_as_links_and_nothing_goes_through_one(place: Place, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    (precious / "offsets").mkdir(parents=True)
    (precious / "offsets" / "0").write_text("x")
    (place.root / LOST / "link").symlink_to(precious)
    plan = place.make()
    (place.root / LOST / "offsets" / "0").unlink()
    (place.root / LOST / "offsets").rmdir()
    (place.root / LOST / "offsets").symlink_to(precious / "offsets")  # since it was planned
    done = place.apply(plan)
    assert (precious / "offsets" / "0").exists()
    assert not (place.root / LOST / "link").is_symlink()
    assert done.failed == 1
    assert summary(plan, shown=1)["failures"][0]["why"] == "a symbolic link is on the way to it"


@pytest.mark.parametrize(
    "path",
    [
        "../outside",
        f"{LOST}/../../../notes.txt",
        f"{LOST}/offsets/..",
        f"{LOST}/./0",
        "/etc/passwd",
        "notes.txt",
        f"{KEPT.replace('e00000002', 'e00000003')}/offsets/0",  # of the term itself
        "",
    ],
)
def test_a_plan_that_somebody_wrote_cannot_remove_anything_else(place: Place, path: str) -> None:
    plan = place.make()
    (part,) = plan.parts()
    rows = plan.read("files", part).to_pylist()
    rows[0]["path"] = path
    plan.write("files", part, type(plan.read("files", part)).from_pylist(rows, schema=plan.read("files", part).schema))
    place.put(KEPT.replace("e00000002", "e00000003") + "/offsets/0")
    before = place.files()
    done = place.apply(plan)
    assert done.failed == 1
    assert summary(plan, shown=1)["failures"] == [{"path": path, "why": "no file of Tenure has this name"}]
    assert before - place.files() < set(ORPHANS)


def test_bad_plans_are_told(place: Place, tmp_path: Path) -> None:
    plan = place.make()
    with pytest.raises(UsageError, match="is not empty"):
        place.make()
    with pytest.raises(UsageError, match="there is no whole plan in"):
        SweepPlan(str(tmp_path / "nowhere")).about()
    with pytest.raises(UsageError, match=r"is of file://.*, not of /elsewhere"):
        place.apply(plan, storage="/elsewhere")
    about = tmp_path / "plans" / "one" / "plan.json"
    for text in ("{}", "no json", json.dumps({"format": 2})):
        about.write_text(text)
        with pytest.raises(UsageError, match=r"plan\.json is no plan"):
            plan.about()


def test_a_plan_folder_that_cannot_be_written_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = SweepPlan(str(place.plans / "one"))
    monkeypatch.setattr(os, "mkdir", lambda *a, **k: (_ for _ in ()).throw(OSError(30, "Read-only")))
    with pytest.raises(StorageError, match=r"cannot write .*/plans/one: Read-only"):
        plan.begin()


def test_two_tasks_may_write_the_same_part_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each writes a file of its own: who is killed in the middle of it damages nothing."""
    plan = place.make()
    (name,) = plan.parts()
    rows = plan.read("files", name)
    replace = os.replace
    seen: list[str] = []

    def other_one_writes(hidden: str, path: str) -> None:
        seen.append(hidden)
        if len(seen) == 1:
            plan.write("report", name, rows.slice(0, 1))
        replace(hidden, path)

    monkeypatch.setattr(os, "replace", other_one_writes)
    plan.write("report", name, rows)
    assert len(set(seen)) == 2
    assert plan.read("report", name) == rows
    assert plan.reported() == [name]
    assert [path.name for path in (place.plans / "one" / "report").iterdir()] == [f"{name}.parquet"]


def test_a_damaged_plan_is_told(place: Place) -> None:
    plan = place.make()
    (part,) = (place.plans / "one" / "files").iterdir()
    for text in ("", "no parquet"):
        part.write_text(text)
        with pytest.raises(StorageError, match=r"files/000000.parquet is damaged: .*; make a new plan"):
            place.apply(plan)


def test_a_plan_that_did_not_become_whole_is_made_anew(place: Place) -> None:
    def die() -> Claims:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.make(claims=die)
    (place.plans / "one" / "files").mkdir()
    (place.plans / "one" / "files" / "old.parquet").write_text("half a plan")
    assert place.make().parts() == ["000000"]


def test_s3a_and_s3_are_one_storage(place: Place) -> None:
    plan = place.make()
    about = plan.about()
    plan.end(About(**{**{name: getattr(about, name) for name in about.__slots__}, "storage": "s3a://bucket/rows"}))
    with pytest.raises(UsageError, match="not of s3://other/rows"):
        place.apply(plan, storage="s3://other/rows")
