"""What a small file on a local disk costs Spark: a copy (as of each file of a RocksDB snapshot when a state is loaded),
and a checkpoint file (as `offsets/N`), with the processes that are started for it.

Hadoop's local file system starts a `chmod` for each file that it creates, where its native library is missing, as in
the Spark that pip installs; `tenure.driver.local_files` replaces that class. Both are measured in one JVM, one after
the other, each after the same calls that do not count. Medians go to `build/bench/local_files.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console

from bench.harness import RESULTS, describe_machine
from tenure.driver.local_files import use_own_local_files


def processes_started() -> int:
    """Since the machine was started, by anybody."""
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("processes ")).split()[1])


def measure(once: Callable[[int], object], *, rounds: int, each: int) -> dict[str, Any]:
    """Milliseconds and processes of one call, a figure for each round."""
    milliseconds, processes = [], []
    for number in range(rounds):
        before, began = processes_started(), time.monotonic()
        for one in range(each):
            once(number * each + one)
        milliseconds.append(round((time.monotonic() - began) / each * 1000, 2))
        processes.append(round((processes_started() - before) / each, 1))
    return {
        "median_ms": statistics.median(milliseconds),
        "processes": statistics.median(processes),
        "raw_ms": milliseconds,
        "raw_processes": processes,
    }


def small_files(spark: SparkSession, folder: Path, *, rounds: int) -> dict[str, dict[str, Any]]:
    """Copies and checkpoint files in a new folder, through whatever class the JVM hands out."""
    jvm: Any = spark._jvm
    sessions: Any = spark._jsparkSession
    conf = sessions.sessionState().newHadoopConf()
    folder.mkdir()
    Path(folder, "source").write_bytes(b"x" * 1500)

    def path(name: str) -> Any:
        return jvm.org.apache.hadoop.fs.Path(f"file://{folder}/{name}")

    files = path("source").getFileSystem(conf)
    manager = jvm.org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.create(path("log"), conf)
    manager.mkdirs(path("log"))

    def copy(number: int) -> None:
        files.copyToLocalFile(path("source"), path(f"copy{number}"))

    def write(number: int) -> None:
        stream = manager.createAtomic(path(f"log/{number}"), True)
        stream.write(65)
        stream.close()

    measure(copy, rounds=2, each=20)
    measure(write, rounds=2, each=10)
    return {
        "copy": measure(copy, rounds=rounds, each=20),
        "checkpoint_file": measure(write, rounds=rounds, each=10),
    }


def without_raw(figures: Any) -> Any:
    """What fits on a screen."""
    if not isinstance(figures, dict):
        return figures
    return {name: without_raw(one) for name, one in figures.items() if not name.startswith("raw")}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description="What a small file on a local disk costs Spark.")
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            measured = [small_files(spark, Path(folder, "hadoop"), rounds=arguments.rounds)]
            why = use_own_local_files(spark)
            if why is not None:
                print(f"bench: the class is not in place: {why}", file=sys.stderr)
                return 1
            measured.append(small_files(spark, Path(folder, "tenure"), rounds=arguments.rounds))
    finally:
        spark.stop()
    hadoop, tenure = measured
    ratios = {name: round(tenure[name]["median_ms"] / hadoop[name]["median_ms"], 3) for name in hadoop}
    figures = {"hadoop": hadoop, "tenure": tenure, "ratios": ratios}
    Console().print_json(data=without_raw(figures))
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {**figures, "machine": asdict(describe_machine())}
    (RESULTS / "local_files.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
