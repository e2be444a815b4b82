"""Applies a plan: removes its files, part by part, and reports the outcome for each.

Promise: only paths of the plan go, and of these only paths whose names allow it in the plan's epoch: the wide rule
(`engine.py`) is asked again. A link is removed as a link. A folder goes with its last file. A part is reported when all
its files were tried, so the run after a killed run goes on with the other parts, and finds some files gone. The next
run tries failed files again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tenure.cleanup.engine import Rule, verdicts
from tenure.cleanup.orphans import Claims, OrphanRule
from tenure.cleanup.spark import run_tasks
from tenure.cleanup.sweep_plan import REPORT, About, SweepPlan
from tenure.clock import Clock, SystemClock
from tenure.errors import UsageError
from tenure.ownership.owner import check_noted
from tenure.storage.names import above
from tenure.storage.reach import reach
from tenure.storage.storage import FAILED, GONE, REMOVED, Outcome
from tenure.storage.urls import normal_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = 10
"""A plan of up to so many parts is not worth a JVM."""

AT_ONCE: Final = 1000
"""Files between two looks at the clock, under a rate."""

_TOGETHER: Final = 8000
"""Files that a storage removes in one call: eight requests to S3."""

_WAVE: Final = 2
"""Parts that each core applies between two looks at the progress."""

_CLIMBS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""A part of a folder's path that is empty, or `.`, or `..`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The outcomes so far."""

    parts: int
    of: int
    removed: int
    gone: int
    failed: int


def orphan_rule(about: About) -> Rule:
    """The wide rule of a plan of a scope's storage."""
    return OrphanRule(Claims(about.epoch, about.holder))


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """How a plan is applied."""

    per_second: float | None = None
    """The most files a second, of all tasks together; None: no limit."""
    on_progress: Callable[[Applied], None] = lambda applied: None
    here: int = HERE
    """Spark is started when more parts are to be applied."""
    rule_of: Callable[[About], Rule] = orphan_rule
    """Makes the wide rule of the plan."""


def apply_plan(
    plan: SweepPlan,
    *,
    storage: str,
    start_spark: Callable[[], SparkSession],
    clock: Clock,
    options: ApplyOptions | None = None,
) -> Applied:
    """Remove the files of the plan that no earlier run has removed. `storage`: the storage that the caller means, which
    has to be the plan's.

    Raises UsageError, OwnerMismatch, StorageError (the plan's own folder, or the marks), QueryFailed.
    """
    about, how = plan.about(), options or ApplyOptions()
    if normal_url(storage) != normal_url(about.storage):
        raise UsageError(
            f"the plan in {plan.url} is of {about.storage}, not of {storage}", fix="name the plan's storage"
        )
    if about.owner:
        check_noted(about.marked, about.owner)  # an older copy of the storage may need files of the plan
    rule = how.rule_of(about)
    reports = _Reports(plan)
    reports.read(plan.reported())
    todo = sorted(set(plan.parts()) - reports.whole())
    how.on_progress(reports.sum())
    if len(todo) <= how.here:
        for name in todo:
            apply_part(plan.url, name, rule, per_second=how.per_second, clock=clock)
            reports.read([name])
            how.on_progress(reports.sum())
        return reports.sum()
    spark = start_spark()
    tasks = min(len(todo), spark.sparkContext.defaultParallelism)
    share = None if how.per_second is None else how.per_second / tasks
    url = plan.url

    def work(name: str) -> None:
        apply_part(url, name, rule, per_second=share, clock=SystemClock())

    for first in range(0, len(todo), _WAVE * tasks):
        # Each part is a task of its own, and the next run need not repeat a reported part.
        wave = todo[first : first + _WAVE * tasks]
        run_tasks(spark, work, wave, what="deleting")
        reports.read(wave)
        how.on_progress(reports.sum())
    return reports.sum()


class _Reports:
    """The reports of a plan: part -> outcome -> files. Each report is read once, after its part was applied."""

    def __init__(self, plan: SweepPlan) -> None:
        self._plan = plan
        self._of = len(plan.parts())
        self._counts: dict[str, dict[str, int]] = {}

    def read(self, names: Iterable[str]) -> None:
        """Read the reports of these parts. Raises StorageError."""
        for name in names:
            rows = self._plan.read("report", name).group_by("outcome", use_threads=False)
            counts = rows.aggregate([([], "count_all")]).to_pylist()
            self._counts[name] = {row["outcome"]: row["count_all"] for row in counts}

    def whole(self) -> set[str]:
        """The parts without a failure."""
        return {name for name, counts in self._counts.items() if FAILED not in counts}

    def sum(self) -> Applied:
        removed, gone, failed = (
            sum(counts.get(outcome, 0) for counts in self._counts.values()) for outcome in (REMOVED, GONE, FAILED)
        )
        return Applied(len(self._counts), self._of, removed, gone, failed)


def apply_part(url: str, name: str, rule: Rule, *, per_second: float | None, clock: Clock) -> None:
    """Remove the files of one part, and report. Runs in a task. Raises StorageError: the plan's own folder."""
    plan = SweepPlan(url)
    paths: list[str] = plan.read("files", name)["path"].to_pylist()
    storage = reach(normal_url(plan.about().storage))
    began_s = clock.monotonic_s()
    outcomes: list[Outcome] = []
    removable: list[str] = []
    step = AT_ONCE if per_second is not None else _TOGETHER
    for first in range(0, len(paths), step):
        some = paths[first : first + step]
        may = _ours(some, rule)
        ours = some if all(may) else [path for path, is_ours in zip(some, may, strict=True) if is_ours]
        removable += ours
        tried = storage.remove_files(ours, clock=clock)
        outcomes += [next(tried) if is_ours else (FAILED, "no file of Tenure has this name") for is_ours in may]
        if per_second is not None:
            ahead_s = len(outcomes) / per_second - (clock.monotonic_s() - began_s)
            if ahead_s > 0:
                clock.sleep(ahead_s)
    storage.remove_folders([folder for folder in above(removable) if folder.count("/") >= rule.stays(folder)])
    columns = [paths, [outcome for outcome, _ in outcomes], [why for _, why in outcomes]]
    plan.write("report", name, pa.table([pa.array(column, pa.string()) for column in columns], schema=REPORT))


def _ours(paths: Sequence[str], rule: Rule) -> list[bool]:
    """For each path whether it can go at all."""
    return [
        goes and not (_CLIMBS.search(folder) or name in {".", ".."})
        for goes, (folder, _, name) in zip(verdicts(rule, paths), (path.rpartition("/") for path in paths), strict=True)
    ]
