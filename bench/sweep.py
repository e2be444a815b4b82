"""How fast a storage is swept, on a local disk: planning (listing everything and comparing) and deleting.

For each shape of tree the same number of files, all of which nobody needs, beside some that are needed:

- `flat`: blobs, all in one folder. `deep`: run directories of which each is one chain of folders. `skewed`: one run
  directory with nearly all files, and many with a few.

Side by side: Tenure's sweep (Spark, local[2]; its plan and its report are files), `find` and a loop of unlinks (what
the disk can do), and delta-rs' `vacuum` on a table that has the same tree beside its one file (full listing; a dry run,
and then not). Trees are made anew for each that deletes; each contender is run once, the listings twice, of which the
second counts: the first one fills the kernel's caches for all. Figures go to `build/bench/sweep.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from bench.harness import RESULTS, describe_machine
from tenure.cleanup.orphans import Seen
from tenure.clock import SystemClock
from tenure.spark.session import end_session, start_session
from tenure.spark.sweep.applying import apply_plan
from tenure.spark.sweep.plan import Plan
from tenure.spark.sweep.planning import make_plan

KEPT = "runs/q/e00000002-anna-0123456789ab"
SEEN = Seen(epoch=3, holder="anna", members=frozenset({"anna"}), named=frozenset({KEPT}))
_IN_A_CHAIN = 1000
_DEPTH = 50


def flat(count: int) -> Iterator[str]:
    """Names of files."""
    return (f"blobs/e00000001/checkpoints/q/{number:012d}-lost" for number in range(count))


def deep(count: int) -> Iterator[str]:
    for number in range(count):
        chain, place = divmod(number, _IN_A_CHAIN)
        below = "/".join(f"{level:02d}" for level in range(place % _DEPTH + 1))
        yield f"runs/q/e00000001-anna-{chain:012x}/state/{below}/{place}.zip"


def skewed(count: int) -> Iterator[str]:
    few = min(count // 100, 10_000)
    for number in range(count - few):
        yield f"runs/q/e00000001-anna-{0:012x}/state/0/{number % 4}/{number}.zip"
    for number in range(few):
        yield f"runs/q/e00000001-anna-{number // 10 + 1:012x}/offsets/{number % 10}"


SHAPES: dict[str, Callable[[int], Iterator[str]]] = {"flat": flat, "deep": deep, "skewed": skewed}


def make_tree(root: Path, names: Iterator[str]) -> None:
    """Small files, and a few that are needed."""
    made: set[str] = set()
    for name in (*(f"{KEPT}/offsets/{number}" for number in range(100)), *names):
        path = f"{root}/{name}"
        folder = path.rpartition("/")[0]
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 3)


@contextmanager
def peak_memory(found: dict[str, Any], name: str) -> Iterator[None]:
    """The most memory that this process itself had, in MiB: the driver's Python, not its JVM."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    yield
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found[name] = round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)


class Bench:
    """One shape of tree."""

    def __init__(self, folder: Path, spark: SparkSession, names: Callable[[], Iterator[str]]) -> None:
        self.folder = folder
        self.spark = spark
        self.names = names
        self.plans = 0

    def tree(self, root: Path) -> Path:
        make_tree(root, self.names())
        return root

    def plan(self, storage: Path) -> Plan:
        self.plans += 1
        plan = Plan(str(self.folder / f"plan-{self.plans}"))
        make_plan(
            plan,
            scope="rows",
            storage=str(storage),
            see=lambda: SEEN,
            now=SystemClock().now,
            start_spark=lambda: self.spark,
        )
        return plan

    def run(self) -> dict[str, Any]:
        """All figures, in seconds."""
        found: dict[str, Any] = {}
        storage = self.tree(self.folder / "storage")
        find = ["find", str(storage), "-type", "f", "-printf", "%p %s\n"]
        for _ in range(2):
            found["find"] = seconds(lambda: subprocess.run(find, stdout=subprocess.DEVNULL, check=True))
            with peak_memory(found, "driver_mib_plan"):
                found["plan"] = seconds(lambda: self.plan(storage))
        plan = Plan(str(self.folder / f"plan-{self.plans}"))
        found["files"] = plan.about().files
        with peak_memory(found, "driver_mib_apply"):
            found["delete"] = seconds(
                lambda: apply_plan(plan, storage=str(storage), start_spark=lambda: self.spark, clock=SystemClock())
            )
        shutil.rmtree(storage)

        table = self.folder / "table"
        write_deltalake(str(table), pa.table({"n": [1]}))
        self.tree(table)
        for _ in range(2):
            found["delta_rs_plan"] = seconds(lambda: self.vacuum(table, dry_run=True))
        found["delta_rs_delete"] = seconds(lambda: self.vacuum(table, dry_run=False))
        shutil.rmtree(table)

        bare = self.tree(self.folder / "bare")
        found["unlink"] = seconds(lambda: shutil.rmtree(bare))
        return found

    @staticmethod
    def vacuum(table: Path, *, dry_run: bool) -> None:
        """What delta-rs finds, or removes: what is no file of the table."""
        DeltaTable(str(table)).vacuum(retention_hours=0, dry_run=dry_run, enforce_retention_duration=False, full=True)


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Above 1: Tenure is faster."""
    return {
        "plan_vs_delta_rs": round(found["delta_rs_plan"] / found["plan"], 2),
        "plan_vs_find": round(found["find"] / found["plan"], 2),
        "delete_vs_delta_rs": round((found["delta_rs_delete"] - found["delta_rs_plan"]) / found["delete"], 2),
        "delete_vs_unlink": round(found["unlink"] / found["delete"], 2),
    }


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    arguments = parser.parse_args()
    console = Console(width=150)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        spark = start_session(name="bench", master="local[2]", conf={}, log=f"{folder}/spark.log")
        try:
            for shape in arguments.shapes:
                place = Path(folder) / shape
                place.mkdir()
                bench = Bench(place, spark, partial(SHAPES[shape], arguments.files))
                found[shape] = bench.run()
                console.print(f"{shape}: {found[shape]} {ratios(found[shape])}")
        finally:
            end_session(spark, patience_s=20)
    table = Table(title=f"{arguments.files:,} files: seconds", caption=str(describe_machine()))
    columns = ("plan", "find", "delta_rs_plan", "delete", "unlink", "delta_rs_delete", "driver_mib_plan")
    for heading in ("shape", *columns):
        table.add_column(heading, justify="left" if heading == "shape" else "right")
    for shape, one in found.items():
        table.add_row(shape, *(f"{one[column]:g}" for column in columns))
    console.print(table)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        "ratios": {shape: ratios(one) for shape, one in found.items()},
        "direction": "above 1, Tenure is faster; delta-rs' deleting without its listing",
        "files": arguments.files,
        "seconds": found,
        "machine": asdict(describe_machine()),
        "memory_of_the_machine_mib": round(psutil.virtual_memory().total / 2**20),
    }
    (RESULTS / "sweep.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
