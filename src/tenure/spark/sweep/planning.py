"""Makes a plan: lists the storage, then reads the records, and writes down what nobody needs.

Promise: the records are read after the last file was listed. A tree of up to `SMALL` files is listed here; a larger one
by Spark, in rounds: each task lists up to a budget of files and gives back the folders that it did not get to, which
are the pieces of the next round, so deep, flat and skewed trees are divided as they turn out. The driver holds neither
files nor folders: both are Parquet between the rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from tenure.blobs.folders import Folders
from tenure.blobs.trees import File, Rest, Tree
from tenure.checkpoints.run_name import RUNS, RunName
from tenure.cleanup.orphans import Seen
from tenure.errors import UsageError
from tenure.spark.sweep.jobs import job_errors
from tenure.spark.sweep.plan import FILES, FOLDERS, About, Plan, orphans_among

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL: Final = 50_000
"""Trees of up to so many files are not worth a JVM."""

PART: Final = 50_000
"""Files in one part of a plan, which is what is applied at once."""

BUDGET: Final = 100_000
"""Files that a task lists before it gives the rest back."""

_ROWS: Final = 10_000
_LISTED = pa.schema([("path", pa.string()), ("size", pa.int64()), ("rest", pa.bool_()), ("after", pa.string())])
_LISTED_DDL = "path string, size long, rest boolean, after string"
_FILES_DDL = "path string, size long, kind string, unit string"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a listing is."""

    round: int
    files: int
    folders_left: int


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
    found = list(Tree(storage).walk(pieces, budget=small))
    files = [one for one in found if isinstance(one, File)]
    if len(files) == len(found):
        on_progress(Progress(1, len(files), 0))
        seen = _checked(see(), storage)
        listed, counted = len(files), _write_small(plan, files, seen)
    else:
        del found, files
        listing = _List(start_spark(), storage, plan, budget=budget, on_progress=on_progress)
        with job_errors("listing"):
            listed = listing.run(pieces)
        seen = _checked(see(), storage)
        with job_errors("planning"):
            counted = listing.write_plan(seen)
        listing.discard()
    about = About(
        scope=scope,
        storage=storage,
        epoch=seen.epoch,
        holder=seen.holder,
        made_at=now().isoformat(timespec="seconds"),
        listed=listed,
        files=counted[0],
        bytes=counted[1],
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


def _write_small(plan: Plan, files: Sequence[File], seen: Seen) -> tuple[int, int]:
    rows = list(orphans_among(files, seen))
    for number, first in enumerate(range(0, len(rows), PART)):
        plan.write_files(f"{number:06d}", _table(rows[first : first + PART]))
    return len(rows), sum(row[1] for row in rows)


def _table(rows: Sequence[tuple[str, int, str, str]]) -> pa.Table:
    return pa.Table.from_batches([_batch(rows, FILES)])


class _List:
    """The listing of one tree by Spark."""

    def __init__(
        self,
        spark: SparkSession,
        storage: str,
        plan: Plan,
        *,
        budget: int,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._plan = plan
        self._budget = budget
        self._on_progress = on_progress
        self._folder = f"{plan.for_spark}/listing"
        self._tasks = 4 * spark.sparkContext.defaultParallelism

    def run(self, pieces: Sequence[Rest]) -> int:
        """List everything; return how many files there are."""
        todo: DataFrame = self._spark.createDataFrame(
            [(one.folder, one.after) for one in pieces], "path string, after string"
        )
        files, number = 0, 0
        while True:
            number += 1
            out = f"{self._folder}/round={number:04d}"
            todo.repartition(self._tasks).mapInArrow(_lister(self._storage, self._budget), _LISTED_DDL).write.parquet(
                out
            )
            listed = self._spark.read.schema(_LISTED_DDL).parquet(out)
            counts: dict[bool, int] = {row["rest"]: row["count"] for row in listed.groupBy("rest").count().collect()}
            files += counts.get(False, 0)
            self._on_progress(Progress(number, files, counts.get(True, 0)))
            if not counts.get(True):
                return files
            todo = listed.where("rest").select("path", "after")

    def write_plan(self, seen: Seen) -> tuple[int, int]:
        """Write what goes; return how many files that are, and their bytes."""
        listed = self._spark.read.schema(_LISTED_DDL).parquet(f"{self._folder}/round=*").where("not rest")
        rows = listed.select("path", "size").mapInArrow(_judge(seen), _FILES_DDL)
        out = f"{self._plan.for_spark}/files"
        rows.write.mode("append").option("maxRecordsPerFile", PART).parquet(out)
        total = (
            self._spark.read.schema(_FILES_DDL)
            .parquet(out)
            .selectExpr("count(*) n", "coalesce(sum(size), 0) b")
            .first()
        )
        assert total is not None
        return int(total["n"]), int(total["b"])

    def discard(self) -> None:
        """Remove what was only needed on the way."""
        self._plan.remove("listing")


def _lister(storage: str, budget: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: list the pieces that it gets."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = [
            Rest(folder, after)
            for batch in batches
            for folder, after in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        ]
        found = Tree(storage).walk(pieces, budget=budget)
        rows = (
            (one.path, one.size, False, "") if isinstance(one, File) else (one.folder, 0, True, one.after)
            for one in found
        )
        yield from _in_batches(rows, _LISTED)

    return work


def _as_row(found: File | Rest) -> tuple[str, int, bool, str]:
    if isinstance(found, File):
        return found.path, found.size, False, ""
    return found.folder, 0, True, found.after


def _judge(seen: Seen) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: keep what nobody needs."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = (
            File(path, size)
            for batch in batches
            for path, size in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
        )
        yield from _in_batches(orphans_among(files, seen), FILES)

    return work


def _in_batches(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    some: list[tuple[object, ...]] = []
    for row in rows:
        some.append(row)
        if len(some) == _ROWS:
            yield _batch(some, schema)
            some = []
    if some:
        yield _batch(some, schema)


def _batch(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
