"""Makes a plan: lists a target, then reads the records, and writes down the files that nobody needs.

Promise: the records (and a table's log) are read after the last file was listed. A tree of up to `SMALL` files is
listed here, a larger tree by Spark (`spark.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from tenure.checkpoints.run_name import RunName, runs_of
from tenure.cleanup.engine import Rule
from tenure.cleanup.judgement import orphans_among, table_of
from tenure.cleanup.orphans import Claims, OrphanRule
from tenure.cleanup.plan import SWEPT
from tenure.cleanup.spark import FOLDER, TreeListing, together, write_orphans
from tenure.cleanup.sweep_plan import About, SweepPlan
from tenure.errors import UsageError
from tenure.storage.reach import reach
from tenure.storage.storage import Listed, Rest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL: Final = 500_000
"""A tree of up to so many files is not worth a JVM: on two cores, Spark is no faster for up to a million files."""

PART: Final = 50_000
"""Files in one part of a plan. A part is applied at once."""

BUDGET: Final = 100_000
"""Files that a task lists before it returns the remaining folders."""


@dataclass(frozen=True, slots=True)
class Target:
    """The tree to sweep."""

    scope: str
    root: str
    """URL of the scope's part of the storage, or of a table."""
    claims: Callable[[], Claims]
    """Reads the records. Raises UsageError, StorageError, StoreError, Corrupt."""
    owner: Callable[[], str] = lambda: ""
    """Checks that the storage belongs to the store, and returns the newest mark in it; empty: there is no mark. Raises
    OwnerMismatch, StorageError, StoreError, Corrupt."""
    table: Callable[[Claims], Rule] | None = None
    """Reads a table, and returns the rule of the staged files beside it. None: the target is the storage."""
    folders: Sequence[str] = tuple(SWEPT)
    """The folders below the root to list."""
    storage: str = ""
    """Of a table: URL of the scope's part of the storage; empty: the records are not compared with it."""

    @property
    def marked(self) -> str:
        """URL of the scope's part of the storage."""
        return self.root if self.table is None else self.storage


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How a plan is made."""

    sizes: bool = True
    """Ask the disk for the sizes of the files that go, where the listing lacks them."""
    on_progress: Callable[[int], None] = lambda files: None
    """Called with the number of files that are listed so far."""
    small: int = SMALL
    budget: int = BUDGET


def make_plan(
    plan: SweepPlan,
    target: Target,
    *,
    now: Callable[[], datetime],
    start_spark: Callable[[], SparkSession],
    options: PlanOptions | None = None,
) -> About:
    """Write the plan. `start_spark` is called when the tree is not small.

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
        how.on_progress(listed)
    else:
        listing = TreeListing(
            start_spark(), plan, target.root, budget=how.budget, part=PART, on_progress=how.on_progress
        )
        listed = listing.run(_handed_over(found, walk))
    owner = target.owner()
    claims = target.claims()
    if target.marked:
        check_records(claims, target.marked, owned=bool(owner))
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


def check_records(claims: Claims, storage: str, *, owned: bool) -> None:
    """Check that the records belong to the storage: at least one of the run directories that they name is there. The
    records of a service name none; then the storage has to be `owned`: marked by the scope of this store. Raises
    UsageError: they do not; StorageError."""
    named = [run for run in map(RunName.parse, claims.named) if run is not None]
    if owned and not named:
        return
    there = {run for query in {run.query for run in named} for run in runs_of(storage, query)}
    if there.isdisjoint(named):
        raise UsageError(
            f"no checkpoint in the store names a run directory that is in {storage}",
            fix="name the store and the storage of one pipeline",
        )


def _begin(walk: Iterator[Listed | Rest], *, most: int) -> tuple[list[Listed | Rest], bool]:
    """The first entries of a walk, about `most` files, and whether the walk has ended."""
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
    """The first entries, which this empties one by one to free their memory, and the other entries of the walk."""
    found.reverse()
    while found:
        yield found.pop()
    yield from walk
