"""Makes a plan: lists what is at a target, then reads the records, and writes down what nobody needs.

Promise: the records (and a table's log) are read after the last file was listed. A tree of up to `SMALL` files is
listed here, a larger one by Spark (`listing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanup.orphans import Seen
from tenure.cleanup.spark.jobs import job_errors
from tenure.cleanup.spark.judge import Judge, StorageJudge, orphans_among, table_of
from tenure.cleanup.spark.listing import FOLDER, Listing, Progress, together, write_orphans
from tenure.cleanup.spark.plan import FOLDERS, About, Plan
from tenure.errors import UsageError
from tenure.storage.folders import Folders
from tenure.storage.trees import Listed, Rest, Tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = 500_000
"""Trees of up to so many files are not worth a JVM: on two cores both take as long for a million."""

PART: Final = 50_000
"""Files in one part of a plan, which is what is applied at once."""

BUDGET: Final = 100_000
"""Files that a task lists before it gives the rest back."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is swept."""

    scope: str
    root: str
    """URL of the scope's part of the storage, or of a table."""
    folders: Sequence[str]
    """Those below the root in which something may lie."""
    look: Callable[[], Judge]
    """Reads what decides which files go. Raises UsageError, StorageError, StoreError, Corrupt."""
    table: bool = False
    storage: str = ""
    """URL of the scope's part of the storage; empty: it is not asked for."""
    owner: Callable[[], str] = lambda: ""
    """Looks whether the storage is that of the store, and returns the newest mark there; empty: there is none. Raises
    OwnerMismatch, StorageError, StoreError, Corrupt."""


def storage_target(
    *, scope: str, storage: str, see: Callable[[], Seen], owner: Callable[[], str] = lambda: ""
) -> Target:
    """A scope's storage. `see` reads the records; `owner`: as `Target` has it. A plan of it raises UsageError when they
    are those of another one."""
    look = partial(_judge, storage, see)
    return Target(scope, storage, tuple(FOLDERS), look, storage=storage, owner=owner)


def _judge(storage: str, see: Callable[[], Seen]) -> StorageJudge:
    return StorageJudge(check_records(see(), storage))


def make_plan(
    plan: Plan,
    target: Target,
    *,
    now: Callable[[], datetime],
    start_spark: Callable[[], SparkSession],
    on_progress: Callable[[Progress], None] = lambda progress: None,
    sizes: bool = True,
    small: int = SMALL,
    budget: int = BUDGET,
) -> About:
    """Write the plan of what goes. `start_spark` is called when the tree is not small. `sizes`: ask the disk for the
    sizes of what goes, where the listing does not tell them.

    Raises UsageError (the plan's folder, or the target's), OwnerMismatch, StorageError, StoreError, Corrupt,
    QueryFailed.
    """
    target.owner()
    plan.begin()
    tree = Tree(target.root)
    walk = tree.walk(target.folders, budget=small)
    found, whole = _begin(walk, most=small)
    if whole:
        listed = sum(len(one.names) for one in found if isinstance(one, Listed))
        on_progress(Progress(1, listed, 0))
        owner = target.owner()
        judge = target.look()
        orphans = orphans_among(
            table_of([one for one in found if isinstance(one, Listed)]), judge, sizes=tree.sizes if sizes else None
        )
        written = [
            write_orphans(plan, f"{number:06d}", orphans.slice(first, PART))
            for number, first in enumerate(range(0, orphans.num_rows, PART))
        ]
        files, size = together(written)
    else:
        listing = Listing(start_spark(), plan, target.root, budget=budget, part=PART, on_progress=on_progress)
        with job_errors("listing"):
            listed = listing.run(_handed_over(found, walk))
        owner = target.owner()
        judge = target.look()
        with job_errors("planning"):
            files, size = listing.write_plan(judge, sizes=sizes)
    plan.remove(FOLDER)
    about = About(
        scope=target.scope,
        storage=target.root,
        epoch=judge.epoch,
        holder=judge.holder,
        made_at=now().isoformat(timespec="seconds"),
        listed=listed,
        files=files,
        bytes=size,
        table=target.table,
        owner=owner,
        marked=target.storage if owner else "",
    )
    plan.end(about)
    return about


def check_records(seen: Seen, storage: str) -> Seen:
    """The records, if they are those of what is in the storage: of the run directories that they name one is there.

    Raises UsageError: they are not; StorageError.
    """
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


def _begin(walk: Iterator[Listed | Rest], *, most: int) -> tuple[list[Listed | Rest], bool]:
    """What a walk finds first, about `most` files, and whether that is all there is."""
    found: list[Listed | Rest] = []
    room = most
    for one in walk:
        found.append(one)
        if isinstance(one, Rest):
            return found, False
        room -= len(one.names)
        if room < -PART:
            return found, False
    return found, True


def _handed_over(found: list[Listed | Rest], walk: Iterator[Listed | Rest]) -> Iterator[Listed | Rest]:
    """What was found, which is not kept any more, and what else a walk finds."""
    found.reverse()
    while found:
        yield found.pop()
    yield from walk
