"""Makes a plan: lists the storage, then reads the records, and writes down what nobody needs.

Promise: the records are read after the last file was listed. A tree of up to `SMALL` files is listed here, a larger one
by Spark (`listing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tenure.blobs.folders import Folders
from tenure.blobs.trees import Listed, Rest, Tree
from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanup.orphans import Seen
from tenure.errors import UsageError
from tenure.spark.sweep.jobs import job_errors
from tenure.spark.sweep.judging import orphans_among, table_of
from tenure.spark.sweep.listing import FOLDER, Listing, Progress, write_orphans
from tenure.spark.sweep.plan import FOLDERS, About, Plan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = 50_000
"""Trees of up to so many files are not worth a JVM."""

PART: Final = 50_000
"""Files in one part of a plan, which is what is applied at once."""

BUDGET: Final = 100_000
"""Files that a task lists before it gives the rest back."""


def make_plan(
    plan: Plan,
    *,
    scope: str,
    storage: str,
    see: Callable[[], Seen],
    now: Callable[[], datetime],
    start_spark: Callable[[], SparkSession],
    on_progress: Callable[[Progress], None] = lambda progress: None,
    small: int = SMALL,
    budget: int = BUDGET,
) -> About:
    """Write the plan of what goes from `storage`. `see` reads the records; `start_spark` is called when the tree is not
    small.

    Raises UsageError (the plan's folder; the storage is not that of the records), StorageError, StoreError, Corrupt,
    QueryFailed.
    """
    plan.begin()
    pieces = [Rest(folder) for folder in FOLDERS]
    tree = Tree(storage)
    found = _list_small(tree, pieces, most=small)
    if found is not None:
        listed = sum(len(one.names) for one in found)
        on_progress(Progress(1, listed, 0))
        seen = _checked(see(), storage)
        orphans = orphans_among(table_of(found), seen, sizes=tree.sizes)
        written = [
            write_orphans(plan, f"{number:06d}", orphans.slice(first, PART))
            for number, first in enumerate(range(0, orphans.num_rows, PART))
        ]
        files, size = sum(one[0] for one in written), sum(one[1] for one in written)
    else:
        listing = Listing(start_spark(), plan, storage, budget=budget, part=PART, on_progress=on_progress)
        with job_errors("listing"):
            listed = listing.run(pieces)
        seen = _checked(see(), storage)
        with job_errors("planning"):
            files, size = listing.write_plan(seen)
    plan.remove(FOLDER)
    about = About(
        scope=scope,
        storage=storage,
        epoch=seen.epoch,
        holder=seen.holder,
        made_at=now().isoformat(timespec="seconds"),
        listed=listed,
        files=files,
        bytes=size,
    )
    plan.end(about)
    return about


def _checked(seen: Seen, storage: str) -> Seen:
    """The records, if they are those of what is in the storage: of the run directories that they name one is there."""
    named = [run for run in map(RunName.parse, seen.named) if run is not None]
    folders = Folders(storage)
    queries = {run.query for run in named}
    there = {f"{RUNS}/{query}/{entry.name}" for query in queries for entry in folders.entries(f"{RUNS}/{query}")}
    if not any(str(run) in there for run in named):
        raise UsageError(
            f"no checkpoint in the store names a run directory that is in {storage}",
            fix="name the store and the storage of one pipeline",
        )
    return seen


def _list_small(tree: Tree, pieces: Sequence[Rest], *, most: int) -> list[Listed] | None:
    """All files below these folders; None: they are more than `most`."""
    found: list[Listed] = []
    files = 0
    for one in tree.walk(pieces, budget=most):
        if isinstance(one, Rest):
            return None
        found.append(one)
        files += len(one.names)
        if files > most:
            return None
    return found
