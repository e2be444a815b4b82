"""What the state of a query costs its first batch in a new run directory, by the size of the state: linked and copied;
with `--storage s3`: kept and copied; with `--changes`: with a snapshot that a standby has made, and replayed.

A query drops duplicates of `--keys` keys, with `--hashes` of 64 letters beside each. Each round seeds a new run
directory, and runs one more batch there, in the same JVM with the driver's settings, but that each batch uploads the
state as a whole. `linked`: the run directory is on the device of the folder of the state stores. `copied`: it is on the
device of `--other`, so the same class copies. In S3, the JVM has fetched the tables of the `kept` rounds before their
start. With `--changes` the state is in changelogs only, on a disk. Before a `snapshot` round, the JVM has replayed them
for the mirror; `ahead_s`: how long that took. `load_ms`: the sum over both partitions, by Spark's own count.
`requests`: those of Spark's JVM, from the start. Medians and all figures go to `build/bench/state_load.json`
(`state_load-s3.json`, `state_load-changes.json`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit, sha2
from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS, describe_machine
from tenure.clock import SystemClock
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory, latest_planned, read_offsets, remove_tree
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import SeedPoint, copy_ahead
from tenure.spark.hadoop import use_fitting_files, use_own_local_files
from tenure.spark.kept_tables import KeptTables, use_kept_tables
from tenure.spark.own_classes import use_own_classes
from tenure.spark.own_folders import hold, release
from tenure.spark.replayed_states import ReplayedStates
from tenure.spark.session import end_session, start_session
from tenure.storage.reach import reach
from tenure.takeover.rehearsal import requests_of
from tenure.takeover.snapshots import Snapshots, due
from tests.kit.servers import BUCKET, SeaweedFs
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import environment, s3a_settings
from tests.kit.waiting import wait_until

PLACES = {"file": ("linked", "copied"), "s3": ("kept", "copied"), "changes": ("snapshot", "replayed")}
MEASURED = ("ahead_s", "seed_s", "first_batch_s", "load_ms", "requests")
UNCOUNTED = 3
"""How many rounds do not count: the JVM compiles what has run some times."""


class State:
    """A query with so many keys in its state, run in one run directory after the other."""

    def __init__(self, spark: SparkSession, folder: Path, *, keys: int, hashes: int) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._hashes = hashes
        self._files = 0
        self._input.mkdir(parents=True)
        self._feed(np.arange(keys))

    def _feed(self, keys: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        hidden = self._input / f".{self._files}"
        pq.write_table(pa.table({"key": pa.array(keys, pa.int64())}), hidden)
        hidden.rename(self._input / f"{self._files:06d}.parquet")
        self._files += 1

    def run(self, directory: str) -> Any:
        """Run all batches that are due; the progress of the first."""
        text = concat(lit(""), *(sha2(concat(lit(number), col("key")), 256) for number in range(self._hashes)))
        files = self._spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(self._input))
        rows = files.withColumn("text", text).dropDuplicates(["key", "text"])
        query = rows.writeStream.foreachBatch(_put).option("checkpointLocation", hold(self._spark, directory))
        running = query.trigger(availableNow=True).start()
        running.awaitTermination()
        return running.recentProgress[0]

    def take_over(
        self, source: str, target: str, tables: KeptTables | None, *, snapshot: bool = False
    ) -> dict[str, float]:
        """Seed a run directory from another, and run one batch of a hundred known keys there. `tables`: the JVM fetches
        those of the state before. `snapshot`: the JVM has made one in the mirror."""
        batch = latest_planned(source)
        assert batch is not None
        mirrored = Mirrored(RunDirectory(source), RunDirectory(target))
        point = SeedPoint(batch, read_offsets(source, batch), committed=True)
        begins = time.monotonic()
        if snapshot:
            copy_ahead(mirrored, point, stop=lambda: False, on_missing=lambda change: None)
            made = Snapshots(ReplayedStates(self._spark), clock=SystemClock())
            wait_until(lambda: (made.step(mirrored), due(mirrored) is None)[1], what="the snapshots")
        began = time.monotonic()
        seed_mirrored(mirrored, point)
        seeded = time.monotonic()
        if tables is not None:
            tables.hold("bench", {f"{target}/{path}": size for path, size in mirrored.table_sizes.items()}, ahead=True)
            kept = Path(str(self._spark.sparkContext._temp_dir)) / "tables"
            names = {path.rpartition("/")[2] for path in mirrored.table_sizes}
            wait_until(lambda: {path.name for path in kept.iterdir()} == names, what="the tables")
        self._feed(np.arange(100))
        before = requests_of(self._spark, target)
        progress = self.run(target)
        if tables is not None:
            tables.release("bench")
        return {
            "ahead_s": round(began - begins, 3),
            "requests": requests_of(self._spark, target) - before,
            "seed_s": round(seeded - began, 3),
            "first_batch_s": progress.durationMs["triggerExecution"] / 1000,
            "load_ms": progress.stateOperators[0].customMetrics["rocksdbLoadLatencyMs"],
        }


def _put(rows: DataFrame, batch: int) -> None:
    rows.write.format("noop").mode("append").save()


def measure(
    spark: SparkSession, folder: Path, roots: Mapping[str, str], tables: KeptTables | None, *, keys: int, arguments: Any
) -> dict[str, Any]:
    """The figures of one size, a round for each place in turn. `roots`: place -> the folder of its run directories."""
    state = State(spark, folder / str(keys), keys=keys, hashes=arguments.hashes)
    fast, slow = roots
    newest = f"{roots[fast]}/{keys}-first"
    state.run(newest)
    found: dict[str, list[dict[str, float]]] = {place: [] for place in roots}
    for number in range(-UNCOUNTED, arguments.rounds):
        for place, root in roots.items():
            target = f"{root}/{keys}-{place}-{number}"
            took = state.take_over(newest, target, tables if place == "kept" else None, snapshot=place == "snapshot")
            if number >= 0:
                found[place].append(took)
            release(spark, target)
            if place == slow or arguments.changes:
                remove_tree(target)
            else:
                newest = target
    directory = RunDirectory(newest)
    files = ("", "/SSTs")
    size = sum(sum(directory.sizes(f"state/0/{part}{below}").values()) for part in range(2) for below in files)
    shutil.rmtree(folder / str(keys))
    medians = {
        place: {name: statistics.median(one[name] for one in rounds) for name in MEASURED}
        for place, rounds in found.items()
    }
    return {"state_mb": round(size / 1e6, 1), **medians, "raw": found}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--keys", type=int, nargs="+", default=[10, 400_000])
    parser.add_argument("--hashes", type=int, default=4)
    parser.add_argument("--other", type=Path, default=Path("/dev/shm"))
    parser.add_argument("--storage", choices=("file", "s3"), default="file")
    parser.add_argument("--changes", action="store_true")
    arguments = parser.parse_args()
    kind = "changes" if arguments.changes else arguments.storage
    console = Console(width=120)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-")))
        other = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-", dir=arguments.other)))
        if os.stat(folder).st_dev == os.stat(other).st_dev:
            console.print(f"bench: {other} and {folder} are on one device; name another with --other")
            return 1
        conf = {
            "spark.local.dir": str(folder),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": str(arguments.changes).lower(),
        }
        roots = dict(zip(PLACES[kind], (str(folder), str(other)), strict=True))
        if arguments.changes:
            conf["spark.sql.streaming.stateStore.minDeltasForSnapshot"] = "1000000"
            roots = dict.fromkeys(PLACES[kind], str(folder))
        if arguments.storage == "s3":
            server = stack.enter_context(SeaweedFs(folder / "s3", volume_mb=1024))
            os.environ.update({**environment(server.url), "AWS_ALLOW_HTTP": "true"})
            conf |= {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a_settings(server.url).items()}
            conf["spark.jars"] = ",".join(map(str, sorted((ivy_folder() / "jars").glob("*.jar"))))
            roots = dict.fromkeys(PLACES["s3"], f"s3a://{BUCKET}/bench")
        spark = start_session(name="bench", master="local[2]", conf=conf, log=str(folder / "spark.log"))
        stack.callback(end_session, spark, patience_s=60)
        use_own_classes(spark)
        use_fitting_files(spark, reach(roots[PLACES[kind][1]]))
        tables, why = use_kept_tables(spark, roots[PLACES[kind][1]])
        why = why or use_own_local_files(spark)
        if why is not None:
            console.print(f"bench: the class is not in place: {why}")
            return 1
        figures = {
            str(keys): measure(spark, folder, roots, tables, keys=keys, arguments=arguments) for keys in arguments.keys
        }
    table = Table(title=f"medians of {arguments.rounds} rounds", caption=str(describe_machine()))
    for heading in ("keys", "state_mb", "state", *MEASURED):
        table.add_column(heading, justify="right")
    for size, found in figures.items():
        for place in PLACES[kind]:
            table.add_row(size, str(found["state_mb"]), place, *(str(found[place][name]) for name in MEASURED))
    console.print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {"by_keys": figures, "hashes": arguments.hashes, "machine": asdict(describe_machine())}
    name = "state_load" if kind == "file" else f"state_load-{kind}"
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
