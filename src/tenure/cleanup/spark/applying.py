"""Applies a plan: removes its files, part by part, and reports what became of each.

Promise: only paths of the plan go, and of these only such as could be an orphan by their names, in the plan's epoch;
links are removed as what they are. Folders in which nothing is any more go
with their last file. A part is reported when all of it was tried, so a run that was killed goes on with the others;
what was removed already is gone, which is fine. What failed is tried again by the next run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tenure.checkpoints.run_name import RUNS
from tenure.cleanup.orphans import BLOBS, REHEARSALS, is_orphan, nothing_seen, orphans_in
from tenure.cleanup.spark.jobs import job_errors
from tenure.cleanup.spark.plan import REPORT, About, Plan
from tenure.clock import Clock, SystemClock
from tenure.errors import UsageError
from tenure.ownership.owner import check_noted
from tenure.storage.removers import CALLS, FAILED, GONE, REMOVED, remover
from tenure.storage.s3 import AT_ONCE, above
from tenure.storage.trees import normal_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE: Final = 10
"""Parts of up to so many are not worth a JVM."""

_STAYS: Final = {RUNS: 2, REHEARSALS: 1, BLOBS: 1}
"""Folders above this depth stay, as in the leader's sweep: a leader that starts may just need them."""
_STAYS_STAGED: Final = 3
"""The same for the folders of staged files beside a table."""

_CLIMBS = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")
"""A part of a path that is empty, or `.`, or `..`."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of the files so far."""

    parts: int
    of: int
    removed: int
    gone: int
    failed: int


def apply_plan(
    plan: Plan,
    *,
    storage: str,
    start_spark: Callable[[], SparkSession],
    per_second: float | None = None,
    on_progress: Callable[[Applied], None] = lambda applied: None,
    clock: Clock,
    here: int = HERE,
) -> Applied:
    """Remove what is in the plan, and was not removed by an earlier run. `storage`: the one that the caller means,
    which has to be the plan's. `per_second`: how many files at most, of all tasks together; None: as fast as it goes.
    `start_spark` is called when more than `here` parts are left.

    Raises UsageError, OwnerMismatch, StorageError (the plan's own folder, or the marks), QueryFailed.
    """
    about = plan.about()
    if normal_url(storage) != normal_url(about.storage):
        raise UsageError(
            f"the plan in {plan.url} is of {about.storage}, not of {storage}", fix="name the plan's storage"
        )
    if about.owner:
        check_noted(about.marked, about.owner)  # an older copy may need what nobody needed when the plan was made
    begun = progress(plan)
    todo = sorted(set(plan.parts()) - _whole(plan))
    on_progress(begun)
    if len(todo) <= here:
        for name in todo:
            apply_part(plan.url, name, per_second=per_second, clock=clock)
            on_progress(progress(plan))
        return progress(plan)
    spark = start_spark()
    tasks = min(len(todo), spark.sparkContext.defaultParallelism)
    share = None if per_second is None else per_second / tasks
    url = plan.url

    def work(name: str) -> str:
        apply_part(url, name, per_second=share, clock=SystemClock())
        return name

    # One partition a part: what is reported is what the next run need not do again.
    for first in range(0, len(todo), _WAVE * tasks):
        wave = todo[first : first + _WAVE * tasks]
        with job_errors("deleting"):
            spark.sparkContext.parallelize(wave, len(wave)).map(work).collect()
        on_progress(progress(plan))
    return progress(plan)


_WAVE: Final = 2
"""Parts that each core applies between two looks at the progress."""


def progress(plan: Plan) -> Applied:
    """What the reports say."""
    counts: dict[str, int] = {REMOVED: 0, GONE: 0, FAILED: 0}
    reported = plan.reported()
    for name in reported:
        for row in plan.read("report", name).group_by("outcome").aggregate([([], "count_all")]).to_pylist():
            counts[row["outcome"]] += row["count_all"]
    return Applied(len(reported), len(plan.parts()), counts[REMOVED], counts[GONE], counts[FAILED])


def _whole(plan: Plan) -> set[str]:
    """The parts of which nothing failed."""
    return {name for name in plan.reported() if FAILED not in plan.read("report", name)["outcome"].unique().to_pylist()}


def apply_part(url: str, name: str, *, per_second: float | None, clock: Clock) -> None:
    """Remove the files of one part, and report. Runs in a task. Raises StorageError: the plan's own folder."""
    plan = Plan(url)
    about = plan.about()
    paths: list[str] = plan.read("files", name)["path"].to_pylist()
    files = remover(about.storage, clock=clock)
    began_s = clock.monotonic_s()
    outcomes: list[tuple[str, str]] = []
    removable: list[str] = []
    step = AT_ONCE if per_second is not None else CALLS * AT_ONCE
    for first in range(0, len(paths), step):
        some = paths[first : first + step]
        may = _ours(some, about)
        ours = some if all(may) else [path for path, is_ours in zip(some, may, strict=True) if is_ours]
        removable += ours
        tried = iter(files.remove(ours))
        outcomes += [next(tried) if is_ours else (FAILED, "Tenure does not name files so") for is_ours in may]
        if per_second is not None:
            ahead_s = len(outcomes) / per_second - (clock.monotonic_s() - began_s)
            if ahead_s > 0:
                clock.sleep(ahead_s)
    files.remove_folders(_emptied(removable))
    columns = [paths, [outcome for outcome, _ in outcomes], [why for _, why in outcomes]]
    plan.write("report", name, pa.table([pa.array(column, pa.string()) for column in columns], schema=REPORT))


def _emptied(paths: Sequence[str]) -> list[str]:
    """The folders above these files that go when they are empty."""
    return [one for one in above(paths) if one.count("/") >= _STAYS.get(one.split("/", 1)[0], _STAYS_STAGED)]


def _ours(paths: Sequence[str], about: About) -> list[bool]:
    """For each whether it is one that could be an orphan at all."""
    least = nothing_seen(epoch=about.epoch, holder=about.holder)
    ruling_of = partial(_is_staged_before, about) if about.table else partial(orphans_in, seen=least)
    folder: str | None = None
    ruling: bool | None = False
    found = []
    for path in paths:
        parent, _, name = path.rpartition("/")
        if parent != folder:
            folder = parent
            ruling = False if _CLIMBS.search(folder) else ruling_of(folder)
        found.append(name not in {".", ".."} and (is_orphan(path, least) if ruling is None else ruling))
    return found


def _is_staged_before(about: About, folder: str) -> bool:
    """Whether an attempt of an earlier epoch is staged there."""
    from tenure.sinks.delta.staging import StagingPath  # what is in a storage is swept without Spark's packages

    path = StagingPath.parse(folder)
    return path is not None and path.scope == about.scope and path.epoch < about.epoch
