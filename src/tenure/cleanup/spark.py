"""The sweep of a large tree by Spark: its tasks, and the listing in rounds. Each task lists up to a budget of files and
returns the remaining folders. The next round divides these, so the division follows the shape of a deep, flat or skewed
tree.

Promise: the listed files, and the remaining folders, are Parquet files in the plan's folder; the driver holds their
names, and the rows of one such file at most. Of a task that ran twice, only the returned parts count. The failure of a
task is one line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from tenure.cleanup.engine import Rule
from tenure.cleanup.judgement import orphans_among, table_of
from tenure.cleanup.sweep_plan import SweepPlan
from tenure.errors import QueryFailed
from tenure.storage.reach import reach
from tenure.storage.storage import Listed, Rest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER: Final = "listing"
_REST: Final = pa.schema([("folder", pa.string())])
_FIRST: Final = 10
"""The first round of tasks, which has few folders to divide, has a budget that is so many times smaller."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file in the plan's folder `listing`."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some rows of a part that has folders."""

    part: str
    first: int
    rows: int


class TreeListing:
    """The listing of one tree."""

    def __init__(
        self,
        spark: SparkSession,
        plan: SweepPlan,
        storage: str,
        *,
        budget: int,
        part: int,
        on_progress: Callable[[int], None],
    ) -> None:
        """`budget`: files that a task lists before it returns the remaining folders. `part`: rows of a file.
        `on_progress` is called with the number of listed files after each round."""
        self._spark = spark
        self._plan = plan
        self._storage = storage
        self._budget = budget
        self._part = part
        self._on_progress = on_progress
        self._parts: list[Part] = []

    def run(self, found: Iterator[Listed | Rest]) -> int:
        """List everything below the folders in `found`; return the number of all files, with the files in `found`."""
        url, storage, part = self._plan.url, self._storage, self._part
        self._parts, remaining = _write_all(self._plan, found, part=part)
        tasks = 4 * self._spark.sparkContext.defaultParallelism
        budget = max(1, self._budget // _FIRST)
        while True:
            files = sum(listed.rows for listed in self._parts)
            self._on_progress(files)
            if not remaining:
                return files

            def work(slices: Sequence[_Slice], budget: int = budget) -> tuple[list[Part], list[Part]]:
                return _list(url, storage, slices, budget=budget, part=part)

            done = run_tasks(self._spark, work, _shares(remaining, tasks), what="listing")
            self._parts += chain.from_iterable(parts for parts, _ in done)
            remaining = list(chain.from_iterable(rests for _, rests in done))
            budget = self._budget

    def write_plan(self, rule: Rule, *, sizes: bool) -> tuple[int, int | None]:
        """Write the files that go; return their number and bytes. `sizes`: ask for sizes that the listing lacks."""
        if not self._parts:
            return 0, 0
        url, storage = self._plan.url, self._storage

        def work(name: str) -> tuple[int, int | None]:
            return _judge(url, storage, name, rule, sizes=sizes)

        names = [listed.name for listed in self._parts]
        tasks = min(len(names), 4 * self._spark.sparkContext.defaultParallelism)
        return together(run_tasks(self._spark, work, names, what="planning", tasks=tasks))


def together(counts: Iterable[tuple[int, int | None]]) -> tuple[int, int | None]:
    """Files and bytes of several parts; the bytes are None when those of a part are."""
    parts = list(counts)
    known = [size for _, size in parts if size is not None]
    return sum(files for files, _ in parts), sum(known) if len(known) == len(parts) else None


def write_orphans(plan: SweepPlan, name: str, rows: pa.Table) -> tuple[int, int | None]:
    """Write a part of the plan, unless it is empty; return the number of its files, and their bytes, if known."""
    if not rows.num_rows:
        return 0, 0
    plan.write("files", name, rows)
    return rows.num_rows, pc.sum(rows["size"], skip_nulls=False).as_py()


def _shares(remaining: Sequence[Part], tasks: int) -> list[list[_Slice]]:
    """The remaining folders, in about equal shares for the tasks."""
    most = -(-sum(part.rows for part in remaining) // tasks)
    shares: list[list[_Slice]] = [[]]
    room = most
    for part in remaining:
        first = 0
        while first < part.rows:
            if not room:
                shares.append([])
                room = most
            taken = min(room, part.rows - first)
            shares[-1].append(_Slice(part.name, first, taken))
            first += taken
            room -= taken
    return shares


def _list(url: str, storage: str, slices: Sequence[_Slice], *, budget: int, part: int) -> tuple[list[Part], list[Part]]:
    """List the folders of a task; return the written parts with files, and those with remaining folders."""
    plan = SweepPlan(url)
    folders = [
        folder
        for rows in slices
        for folder in plan.read(FOLDER, rows.part)["folder"].slice(rows.first, rows.rows).to_pylist()
    ]
    return _write_all(plan, reach(storage).walk(folders, budget=budget), part=part)


def _write_all(plan: SweepPlan, found: Iterator[Listed | Rest], *, part: int) -> tuple[list[Part], list[Part]]:
    """Write down the entries; return the parts with files, and those with remaining folders."""
    parts: list[Part] = []
    remaining: list[Part] = []
    listed: list[Listed] = []
    rests: list[Rest] = []
    rows = 0
    for entry in found:
        if isinstance(entry, Rest):
            rests.append(entry)
        else:
            listed.append(entry)
            rows += len(entry.names)
        if rows >= part:
            parts.append(_write(plan, table_of(listed)))
            listed, rows = [], 0
        if len(rests) >= part:
            remaining.append(_write_rests(plan, rests))
            rests = []
    if listed:
        parts.append(_write(plan, table_of(listed)))
    if rests:
        remaining.append(_write_rests(plan, rests))
    return parts, remaining


def _write_rests(plan: SweepPlan, rests: Sequence[Rest]) -> Part:
    return _write(plan, pa.Table.from_pylist([asdict(rest) for rest in rests], schema=_REST))


def _write(plan: SweepPlan, rows: pa.Table) -> Part:
    name = os.urandom(8).hex()
    plan.write(FOLDER, name, rows)
    return Part(name, rows.num_rows)


def _judge(url: str, storage: str, name: str, rule: Rule, *, sizes: bool) -> tuple[int, int | None]:
    """Write the files of a part that nobody needs. The work of a task."""
    plan = SweepPlan(url)
    ask = reach(storage).sizes if sizes else None
    return write_orphans(plan, name, orphans_among(plan.read(FOLDER, name), rule, sizes=ask))


T = TypeVar("T")
R = TypeVar("R")


def run_tasks(
    spark: SparkSession, work: Callable[[T], R], items: Sequence[T], *, what: str, tasks: int | None = None
) -> list[R]:
    """The results for these items, in so many tasks; None: a task for each. Raises QueryFailed for Spark's errors."""
    from tenure.spark.errors import SPARK_ERRORS, one_line  # a small tree is swept without Spark

    try:
        return spark.sparkContext.parallelize(items, tasks or len(items)).map(work).collect()
    except SPARK_ERRORS as error:
        raise QueryFailed(f"the sweep's {what} failed: {one_line(error)}") from error
