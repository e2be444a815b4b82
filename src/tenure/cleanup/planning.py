"""Makes a plan: lists what is at a target, then reads the records, and writes down what nobody needs.

Promise: the records (and a table's log) are read after the last file was listed. A tree of up to `SMALL` files is
listed here, a larger one by Spark (`spark/listing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanup.engine import Rule
from tenure.cleanup.judgement import orphans_among, table_of
from tenure.cleanup.orphans import Claims, OrphanRule
from tenure.cleanup.plan import SWEPT
from tenure.cleanup.spark.listing import FOLDER, Listing, Progress, together, write_orphans
from tenure.cleanup.sweep_plan import About, Plan
from tenure.errors import UsageError
from tenure.storage.listed import Listed, Rest
from tenure.storage.reach import reach

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
    claims: Callable[[], Claims]
    """Reads the records. Raises UsageError, StorageError, StoreError, Corrupt."""
    owner: Callable[[], str] = lambda: ""
    """Looks whether the storage is that of the store, and returns the newest mark there; empty: there is none. Raises
    OwnerMismatch, StorageError, StoreError, Corrupt."""
    table: Callable[[Claims], Rule] | None = None
    """Reads a table, and returns the rule of what is staged beside it. None: the storage is swept."""
    folders: Sequence[str] = tuple(SWEPT)
    """Those below the root in which something may lie."""
    storage: str = ""
    """Of a table: URL of the scope's part of the storage; empty: nothing is compared with it."""

    @property
    def marked(self) -> str:
        """URL of the scope's part of the storage."""
        return self.root if self.table is None else self.storage


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a plan is made."""

    sizes: bool = True
    """Ask the disk for the sizes of what goes, where the listing does not tell them."""
    on_progress: Callable[[Progress], None] = lambda progress: None
    small: int = SMALL
    budget: int = BUDGET


def make_plan(
    plan: Plan,
    target: Target,
    *,
    now: Callable[[], datetime],
    start_spark: Callable[[], SparkSession],
    options: PlanOptions | None = None,
) -> About:
    """Write the plan of what goes. `start_spark` is called when the tree is not small.

    Raises UsageError (the plan's folder, or the target's), OwnerMismatch, StorageError, StoreError, Corrupt,
    QueryFailed.
    """
    how = options or PlanOptions()
    target.owner()
    plan.begin()
    tree = reach(target.root)
    walk = tree.walk(target.folders, budget=how.small)
    found, whole = _begin(walk, most=how.small)
    listing = None
    if whole:
        files = [one for one in found if isinstance(one, Listed)]
        listed = sum(len(one.names) for one in files)
        how.on_progress(Progress(1, listed, 0))
    else:
        listing = Listing(start_spark(), plan, target.root, budget=how.budget, part=PART, on_progress=how.on_progress)
        listed = listing.run(_handed_over(found, walk))
    owner = target.owner()
    claims = target.claims()
    if target.marked:
        check_records(claims, target.marked)
    rule = OrphanRule(claims) if target.table is None else target.table(claims)
    if listing is None:
        orphans = orphans_among(table_of(files), rule, sizes=tree.sizes if how.sizes else None)
        parts = enumerate(range(0, orphans.num_rows, PART))
        size = together(write_orphans(plan, f"{number:06d}", orphans.slice(first, PART)) for number, first in parts)
    else:
        size = listing.write_plan(rule, sizes=how.sizes)
    plan.remove(FOLDER)
    about = About(
        scope=target.scope,
        storage=target.root,
        epoch=claims.epoch,
        holder=claims.holder,
        made_at=now().isoformat(timespec="seconds"),
        listed=listed,
        files=size[0],
        bytes=size[1],
        table=target.table is not None,
        owner=owner,
        marked=target.marked if owner else "",
    )
    plan.end(about)
    return about


def check_records(claims: Claims, storage: str) -> None:
    """Look whether the records are those of what is in the storage: of the run directories that they name one is there.

    Raises UsageError: they are not; StorageError.
    """
    named = [run for run in map(RunName.parse, claims.named) if run is not None]
    folders = reach(storage)
    queries = {run.query for run in named}
    there = {f"{RUNS}/{query}/{entry.name}" for query in queries for entry in folders.entries(f"{RUNS}/{query}")}
    if not any(str(run) in there for run in named):
        raise UsageError(
            f"no checkpoint in the store names a run directory that is in {storage}",
            fix="name the store and the storage of one pipeline",
        )


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
