"""Runs of small queries that the seeding tests cut, copy and continue.

Each kind of query is run once over 14 batches in one directory; its output is kept by batch id, so that a batch that
is run again counts once. The input is the same for all, and the same rows come out of a batch whenever it is run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import SparkRuntimeException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from tenure.checkpoints.source import FILES, kinds_of, sources_beside
from tenure.spark.plans import source_folders_of
from tenure.spark.releases import before
from tenure.spark.source_plans import sources_of
from tests.kit.waiting import NEVER_S, wait_until

BATCHES = 14
BEGIN = pd.Timestamp("2026-01-01", tz="UTC")
STATE_STORE = "spark.sql.streaming.stateStore"
HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

Rows = dict[int, list[tuple[Any, ...]]]
"""Batch id -> its rows in a fixed order; batches without rows are left out."""
Query = Callable[[SparkSession, Path], DataFrame]


def write_input(root: Path) -> None:
    """Two folders of one small file a batch: ids come again in the next file, times go up by 10 seconds a file."""
    for folder in ("left", "right"):
        (root / folder).mkdir(parents=True)
        for number in range(BATCHES):
            table = pa.table(
                {
                    "id": pa.array([number * 4 + row for row in range(10)], pa.int64()),
                    "k": pa.array([str(row % 5) for row in range(10)]),
                    "ts": pa.array(
                        [BEGIN + pd.Timedelta(seconds=number * 10 + row) for row in range(10)],
                        pa.timestamp("us", tz="UTC"),
                    ),
                }
            )
            path = root / folder / f"{number:02}.parquet"
            pq.write_table(table, path)
            os.utime(path, (BEGIN.timestamp() + number,) * 2)  # the file source takes them in the order of their times


def _files(spark: SparkSession, root: Path, folder: str = "left") -> DataFrame:
    stream = spark.readStream.schema("id long, k string, ts timestamp").option("maxFilesPerTrigger", 1)
    return stream.parquet(str(root / folder))


def _windows(spark: SparkSession, root: Path) -> DataFrame:
    timed = _files(spark, root).withWatermark("ts", "5 seconds")
    return timed.groupBy(sf.window("ts", "10 seconds")).agg(sf.count("*").alias("n"), sf.sum("id").alias("total"))


def _timeouts(spark: SparkSession, root: Path) -> DataFrame:
    def count(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            total = state.get[0]
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [total]})
            return
        state.update(((state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames),))
        state.setTimeoutDuration(1)

    grouped = _files(spark, root).groupBy("k")
    return grouped.applyInPandasWithState(count, "k string, n long", "n long", "append", "ProcessingTimeTimeout")


def _stateless(spark: SparkSession, root: Path) -> DataFrame:
    return _files(spark, root).where("id % 2 = 0")


def _aggregation(spark: SparkSession, root: Path) -> DataFrame:
    return _files(spark, root).groupBy("k").agg(sf.count("*").alias("n"), sf.sum("id").alias("total"))


def _total(spark: SparkSession, root: Path) -> DataFrame:
    """State in one partition, whatever the setting says."""
    return _files(spark, root).agg(sf.count("*").alias("n"), sf.sum("id").alias("total"))


def _first(spark: SparkSession, root: Path) -> DataFrame:
    """State in one partition, too."""
    return _files(spark, root).limit(1000)


def _join(spark: SparkSession, root: Path) -> DataFrame:
    left = _files(spark, root).withWatermark("ts", "20 seconds").alias("l")
    right = _files(spark, root, "right").withWatermark("ts", "20 seconds").alias("r")
    near = "l.id = r.id and r.ts between l.ts - interval 12 seconds and l.ts + interval 12 seconds"
    return left.join(right, sf.expr(near)).selectExpr("l.id as id", "l.ts as ts", "r.ts as other")


def _self_join(spark: SparkSession, root: Path) -> DataFrame:
    """One source, read twice: it has one folder under `sources` and two lines in the plan."""
    rows = _files(spark, root).withWatermark("ts", "20 seconds")
    near = "l.id = r.id and r.ts between l.ts - interval 12 seconds and l.ts"
    return rows.alias("l").join(rows.alias("r"), sf.expr(near)).selectExpr("l.id as id", "l.ts as ts", "r.ts as other")


def _deduplication(spark: SparkSession, root: Path) -> DataFrame:
    return _files(spark, root).withWatermark("ts", "30 seconds").dropDuplicatesWithinWatermark(["id"])


def _pandas_state(spark: SparkSession, root: Path) -> DataFrame:
    # Functions inside the function: Spark's workers cannot import this module, so they get the code itself.
    def count(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        total = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})

    grouped = _files(spark, root).groupBy("k")
    return grouped.applyInPandasWithState(count, "k string, n long", "n long", "update", "NoTimeout")


def _transform_with_state(spark: SparkSession, root: Path) -> DataFrame:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._count = handle.getValueState("count", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803 - Spark's names
            total = (self._count.get()[0] if self._count.exists() else 0) + sum(len(frame) for frame in rows)
            self._count.update((total,))
            yield pd.DataFrame({"k": [key[0]], "n": [total]})

        def close(self) -> None:
            pass

    grouped = _files(spark, root).groupBy("k")
    return grouped.transformWithStateInPandas(Counter(), "k string, n long", "update", "None")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of query, and the settings that it runs with."""

    query: Query
    mode: str = "update"
    conf: Mapping[str, str] = field(default_factory=dict)

    def settings(self, format_: str) -> dict[str, str]:
        return {f"{STATE_STORE}.checkpointFormatVersion": format_, **self.conf}


KINDS: Mapping[str, Kind] = {
    "stateless": Kind(_stateless, "append"),
    "aggregation, snapshots only": Kind(
        _aggregation, conf={f"{STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "false"}
    ),
    "aggregation": Kind(_aggregation),
    "aggregation, HDFS-backed": Kind(_aggregation, conf={f"{STATE_STORE}.providerClass": HDFS_BACKED}),
    "aggregation without keys": Kind(_total),
    "aggregation without keys, HDFS-backed": Kind(_total, conf={f"{STATE_STORE}.providerClass": HDFS_BACKED}),
    "limit": Kind(_first, "append"),
    "join": Kind(_join, "append"),
    "join, one store": Kind(_join, "append", conf={"spark.sql.streaming.join.stateFormatVersion": "3"}),
    "join, HDFS-backed": Kind(_join, "append", conf={f"{STATE_STORE}.providerClass": HDFS_BACKED}),
    "self-join": Kind(_self_join, "append"),
    "dropDuplicatesWithinWatermark": Kind(_deduplication, "append"),
    "applyInPandasWithState": Kind(_pandas_state),
    "transformWithStateInPandas": Kind(_transform_with_state),
    "windows": Kind(_windows, "append"),
    "windows, without batches without data": Kind(
        _windows, "append", conf={"spark.sql.streaming.noDataMicroBatches.enabled": "false"}
    ),
    "timeouts": Kind(_timeouts, "append"),
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run over all of the input, and where its run directory lies."""

    kind: Kind
    format_: str
    directory: Path
    input: Path
    output: Rows
    folders: tuple[str, ...]
    """As `source_folders_of` tells."""

    def path(self, relative: str) -> Path:
        return self.directory / relative


class Recordings:
    """What was recorded below `root`; nobody changes it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.known: dict[tuple[str, str], Recorded] = {}
        write_input(root / "input")


class Recorder:
    """Runs each (kind, format) once, when it is first asked for."""

    def __init__(self, spark: SparkSession, recordings: Recordings) -> None:
        self._spark = spark
        self._recordings = recordings

    def record(self, name: str, format_: str) -> Recorded:
        """Format 2, and transformWithState, came with Spark 4.0."""
        if before("4.0"):
            format_ = "1"
            if name in ("transformWithStateInPandas", "join, one store"):
                pytest.skip("this release has no such query")
        root, known = self._recordings.root, self._recordings.known
        if (name, format_) not in known:
            kind = KINDS[name]
            directory = root / f"a run+{len(known)}%"  # blanks and signs in a path must not matter
            folders: list[tuple[str, ...]] = []
            output = run(self._spark, kind, format_, root / "input", directory, folders=folders)
            assert len(output) >= BATCHES - 1, f"{name}: the run had too few batches: {sorted(output)}"
            known[name, format_] = Recorded(kind, format_, directory, root / "input", output, folders[0])
        return known[name, format_]


def run(
    spark: SparkSession,
    kind: Kind,
    format_: str,
    source: Path,
    directory: Path,
    *,
    errors: list[str] | None = None,
    folders: list[tuple[str, ...]] | None = None,
) -> Rows:
    """Run the query in a run directory to the end of the input; the rows of the batches that ran now.
    `errors` gets what a batch failed with, causes in the JVM included: the query's own error leaves them out.
    `folders` gets which folder belongs to which line of the offsets."""
    output: Rows = {}

    def keep(rows: DataFrame, batch: int) -> None:
        try:
            output[batch] = as_rows(rows)
        except Py4JJavaError as error:
            if errors is not None:
                errors.append(str(error))
            raise

    with settings(spark, kind.settings(format_)):
        rows = kind.query(spark, source)
        writer = rows.writeStream.outputMode(kind.mode)
        writer = writer.option("checkpointLocation", str(directory)).trigger(availableNow=True)
        query = writer.foreachBatch(keep).start()
        try:
            assert query.awaitTermination(int(NEVER_S)), "the query did not end"
            if folders is not None:
                folders.append(source_folders_of(query))
                assert kinds_of(sources_beside(folders[-1], sources_of(rows))) == dict.fromkeys(folders[-1], FILES)
        finally:
            end(spark, query)
    return {batch: rows for batch, rows in output.items() if rows}


def end(spark: SparkSession, query: StreamingQuery) -> None:
    """Stop a query and what outlives it in the JVM: a state store's maintenance goes on writing full state files
    into the run directory, and makes the directory anew when it is gone."""
    query.stop()
    jvm: Any = spark.sparkContext._jvm
    states = "org.apache.spark.sql.execution.streaming.state.StateStore"
    if before("4.3") and not before("4.0"):
        # `stop` holds a lock for which the maintenance may wait, and waits minutes for the maintenance.
        found = getattr(getattr(jvm, f"{states}$"), "MODULE$")
        if before("4.1"):
            found.unloadAll()
            wait_until(lambda: _rests(jvm), what="the maintenance of the state stores")
        else:
            found.stopMaintenanceTaskWithoutLock()
    getattr(jvm, states).stop()


def _rests(jvm: Any) -> bool:
    """Whether the threads that maintain state stores wait for work."""
    threads = [
        thread for thread in jvm.java.lang.Thread.getAllStackTraces().keySet() if "state-store" in thread.getName()
    ]
    return all(thread.getState().toString().endswith("WAITING") for thread in threads)


def error_of(spark: SparkSession, recorded: Recorded, directory: Path) -> str:
    """What the query ends with when it is started in a directory that it cannot go on in."""
    errors: list[str] = []
    try:
        ran = run(spark, recorded.kind, recorded.format_, recorded.input, directory, errors=errors)
    except (StreamingQueryException, SparkRuntimeException) as error:
        return "\n".join([str(error), *_causes(error), *errors])
    raise AssertionError(f"the query ran, without an error, batches {sorted(ran)}")


def _causes(error: Exception) -> Iterator[str]:
    """The causes in the JVM, which the Python error does not print."""
    cause: Any = getattr(error, "_origin", None)
    while cause is not None:
        yield cause.toString()
        cause = cause.getCause()


def as_rows(rows: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in rows.collect())


@contextmanager
def settings(spark: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    kept = {name: spark.conf.get(name, None) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in kept.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


@contextmanager
def moved_away(directory: Path) -> Iterator[None]:
    """Inside the block nothing lies at `directory`: whatever still reads there fails, and so does what writes there."""
    elsewhere = directory.with_name(directory.name + ".away")
    directory.rename(elsewhere)
    try:
        yield
    finally:
        written = files_below(directory)
        shutil.rmtree(directory, ignore_errors=True)
        elsewhere.rename(directory)
    assert not written, f"written in a directory that was gone: {sorted(written)}"


def copy_of(directory: Path, target: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(directory, target))


def remove(directory: Path, pattern: str) -> list[str]:
    """Remove the files and folders below `directory` that match, and Hadoop's checksums of them; at least one must."""
    found = sorted(directory.glob(pattern))
    assert found, f"nothing in {directory} matches {pattern}"
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
            (path.parent / f".{path.name}.crc").unlink(missing_ok=True)
    return [str(path.relative_to(directory)) for path in found]


def cut(recorded: Recorded) -> int:
    """The newest batch N from 9 on, so that a compact source log is in the seed, with change files to load for both
    the state before N and the state after it."""
    state = recorded.directory / "state"
    full = {
        int(path.name.split("_")[0].split(".")[0]) for kind in ("zip", "snapshot") for path in state.rglob(f"*.{kind}")
    }
    return next((batch for batch in (11, 10, 9, 12) if not full & {batch, batch + 1}), 11)


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
