"""How fast a storage is swept: planning (listing everything and comparing) and deleting.

Side by side, on local disk, for each shape of tree (`bench.sweep_trees`): Tenure's sweep (Spark, local[2]; its plan and
its report are files), `find` and Python's `rmtree` (what the disk can do), and delta-rs' `vacuum` on a table that has
the same tree beside its one file (full listing; a dry run, and then not). Trees are made anew for each that deletes;
each contender is run once, the listings twice, of which the second counts: the first one fills the kernel's caches for
all. A plan is made with the sizes of what goes, and without (`plan_names`). Further:

- `--peers SHAPE ...`: Iceberg's `remove_orphan_files` and Delta's `VACUUM` in Spark on the same trees. They need an
  older Spark, which is installed in `build/bench/peers`, and packages from Maven Central.
- `--s3 N`: N objects in a real S3 server, against delta-rs. `--s3-delay MS`: in one that is so far away. `--s3-plans
  ROUNDS`: only the plans, by turns, of which the median counts. `--shapes` without a shape: no local disk.
- `--switch-over N ...`: a plan of N files (flat) and its application in one process, and by Spark with the start of its
  session.
- `--synthetic N ...`: the most memory that the driver has for a plan of N files that are only listed.

Figures go to `build/bench/sweep.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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

from bench import sweep_s3
from bench.harness import RESULTS, describe_machine
from bench.sweep_synthetic import for_workers, register
from bench.sweep_trees import KEPT, SHAPES, make_tree, seconds
from tenure.cleanup.applying import ApplyOptions, apply_plan
from tenure.cleanup.orphans import Claims
from tenure.cleanup.planning import PlanOptions, Target, make_plan
from tenure.cleanup.sweep_plan import SweepPlan
from tenure.clock import SystemClock
from tenure.spark.session import end_session, start_session

CLAIMS = Claims(epoch=3, holder="anna", members=frozenset({"anna"}), named=frozenset({KEPT}))
PEERS = RESULTS / "peers"
_PEERS = ("iceberg", "delta")


@contextmanager
def peak_memory(found: dict[str, Any], name: str) -> Iterator[None]:
    """The most memory that this process itself had, in MiB: the driver's Python, not its JVM."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    yield
    found[name] = _peak_mib("self")


def _peak_mib(pid: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return round(int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024)


class Sweeps:
    """Tenure's, with plans below one folder."""

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        self._folder = folder
        self._spark = spark
        self._plans = 0

    def plan(self, storage: str, *, sizes: bool = True) -> None:
        """Make a plan. `sizes`: with those of what goes."""
        self._plans += 1
        make_plan(
            self.newest,
            Target("rows", storage, lambda: CLAIMS),
            now=SystemClock().now,
            start_spark=lambda: self._spark,
            options=PlanOptions(sizes=sizes),
        )

    @property
    def newest(self) -> SweepPlan:
        """The newest plan."""
        return SweepPlan(str(self._folder / f"plan-{self._plans}"))

    def apply(self, storage: str) -> None:
        """Apply it."""
        done = apply_plan(self.newest, storage=storage, start_spark=lambda: self._spark, clock=SystemClock())
        assert done.failed == 0
        assert done.removed == self.newest.about().files


def on_disk(folder: Path, spark: SparkSession, shape: str, count: int) -> dict[str, Any]:
    """All figures of a shape, in seconds."""
    found: dict[str, Any] = {}
    storage = str(folder / "storage")
    make_tree(storage, shape, count)
    find = ["find", storage, "-type", "f", "-printf", "%p %s\n"]
    sweeps = Sweeps(folder, spark)
    for _ in range(2):
        found["find"] = seconds(lambda: subprocess.run(find, stdout=subprocess.DEVNULL, check=True))
        with peak_memory(found, "driver_mib_plan"):
            found["plan"] = seconds(lambda: sweeps.plan(storage))
        found["plan_names"] = seconds(lambda: sweeps.plan(storage, sizes=False))
    found["files"] = sweeps.newest.about().files
    with peak_memory(found, "driver_mib_apply"):
        found["delete"] = seconds(lambda: sweeps.apply(storage))
    shutil.rmtree(storage)

    table = str(folder / "table")
    write_deltalake(table, pa.table({"n": [1]}))
    make_tree(table, shape, count)
    for _ in range(2):
        found["delta_rs_plan"] = seconds(lambda: vacuum(table, dry_run=True))
    found["delta_rs_delete"] = seconds(lambda: vacuum(table, dry_run=False))
    shutil.rmtree(table)

    bare = str(folder / "bare")
    make_tree(bare, shape, count)
    found["rmtree"] = seconds(lambda: shutil.rmtree(bare))
    return found


def vacuum(table: str, *, dry_run: bool) -> int:
    """How many files delta-rs finds, or removes: what is no file of the table."""
    found = DeltaTable(table).vacuum(retention_hours=0, dry_run=dry_run, enforce_retention_duration=False, full=True)
    return len(found)


def by_peers(folder: Path, peers: list[str], shape: str, count: int) -> dict[str, Any]:
    """The figures of the peers in Spark, in seconds."""
    python = PEERS / "bin" / "python"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = partial(subprocess.run, check=True, env=environment)
    if not python.exists():
        run([sys.executable, "-m", "venv", str(PEERS)])
        run([str(python), "-m", "pip", "install", "--quiet", "pyspark==4.1.4"])
    found: dict[str, Any] = {}
    for peer in peers:
        place = folder / peer
        place.mkdir()
        command = [str(python), "-m", "bench.sweep_peers", peer, str(place), shape, str(count)]
        with (folder / f"{peer}.log").open("wb") as log:
            told = run(command, stdout=subprocess.PIPE, stderr=log)
        figures = json.loads(told.stdout.splitlines()[-1])
        found[f"{peer}_plan"], found[f"{peer}_delete"] = figures["plan"], figures["delete"]
        shutil.rmtree(place)
    return found


def in_memory(folder: Path, spark: SparkSession, counts: list[int]) -> dict[str, Any]:
    """The driver's memory, Python's and the JVM's, for plans of files that are only listed."""
    found: dict[str, Any] = {}
    sweeps = Sweeps(folder, spark)
    for count in counts:
        one: dict[str, Any] = {}
        with peak_memory(one, "python_mib"):
            one["seconds"] = seconds(partial(sweeps.plan, f"synthetic://{count}"))
        one["files"] = sweeps.newest.about().files
        one["jvm_mib"] = max(_peak_mib(str(pid)) for pid in _jvms())
        found[str(count)] = one
        shutil.rmtree(sweeps.newest.url)
    return found


def switch_over(folder: Path, counts: list[int]) -> dict[str, Any]:
    """Seconds for a plan and its application, here and by a Spark that has to be started."""
    found: dict[str, Any] = {}
    for count in counts:
        one: dict[str, Any] = {}
        for where, here in (("here", True), ("spark", False)):
            storage, plan = str(folder / f"{where}-{count}"), SweepPlan(str(folder / f"{where}-{count}-plan"))
            make_tree(storage, "flat", count)
            one[where] = seconds(partial(_plan_and_apply, storage, plan, log=f"{folder}/spark.log", here=here))
            shutil.rmtree(storage)
        found[str(count)] = one
    return found


def _plan_and_apply(storage: str, plan: SweepPlan, *, log: str, here: bool) -> None:
    started: list[SparkSession] = []

    def start() -> SparkSession:
        if not started:
            started.append(start_session(name="bench", master="local[2]", conf={}, log=log))
        return started[0]

    make_plan(
        plan,
        Target("rows", storage, lambda: CLAIMS),
        now=SystemClock().now,
        start_spark=start,
        options=PlanOptions(small=sys.maxsize if here else 0),
    )
    options = ApplyOptions(here=sys.maxsize if here else 0)
    apply_plan(plan, storage=storage, start_spark=start, clock=SystemClock(), options=options)
    for session in started:
        end_session(session, patience_s=20)


def _jvms() -> list[int]:
    return [one.pid for one in psutil.Process().children() if one.name() == "java"]


def ratios(found: dict[str, Any]) -> dict[str, float]:
    """Above 1: Tenure is faster. A peer's deleting is without its listing; `both` is a plan and its application."""
    compared = {}
    for peer in ("delta_rs", *_PEERS):
        if f"{peer}_plan" in found:
            compared[f"plan_vs_{peer}"] = found[f"{peer}_plan"] / found["plan"]
            if "plan_names" in found:
                compared[f"plan_names_vs_{peer}"] = found[f"{peer}_plan"] / found["plan_names"]
        if f"{peer}_delete" in found:
            both = found[f"{peer}_delete"]
            compared[f"both_vs_{peer}"] = both / (found["plan"] + found["delete"])
            if both > found[f"{peer}_plan"]:  # or it lists in another way than in its dry run
                compared[f"delete_vs_{peer}"] = (both - found[f"{peer}_plan"]) / found["delete"]
    if "find" in found:
        compared["plan_vs_find"] = found["find"] / found["plan"]
        compared["delete_vs_rmtree"] = found["rmtree"] / found["delete"]
    return {name: round(ratio, 2) for name, ratio in compared.items()}


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--shapes", nargs="*", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--peers", nargs="*", choices=SHAPES, default=[], help="shapes for the peers in Spark")
    parser.add_argument("--peer", nargs="*", choices=_PEERS, default=list(_PEERS), help="which of them")
    parser.add_argument("--s3", type=int, default=0, help="objects in a real S3 server; 0: none")
    parser.add_argument("--s3-shapes", nargs="*", choices=SHAPES, default=["flat"], help="their shapes")
    parser.add_argument("--s3-delay", type=float, default=0, help="milliseconds that each request takes more")
    parser.add_argument("--s3-plans", type=int, default=0, help="rounds of nothing but plans; 0: plans and deletions")
    parser.add_argument("--switch-over", nargs="*", type=int, default=[], help="files, here and by Spark")
    parser.add_argument("--synthetic", nargs="*", type=int, default=[], help="files that are only listed")
    arguments = parser.parse_args()
    console = Console(width=150)
    found: dict[str, dict[str, Any]] = {}
    memory: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tenure-bench-"))
        place = Path(folder)
        if arguments.s3:
            server = stack.enter_context(sweep_s3.started(place / "s3", delay_s=arguments.s3_delay / 1000))
        register()
        root = str(Path(__file__).resolve().parents[1])
        os.environ["PYTHONPATH"] = os.pathsep.join([for_workers(place / "site"), root])
        switched = switch_over(place, arguments.switch_over)
        console.print(f"here and by Spark: {switched}")
        spark = start_session(name="bench", master="local[2]", conf={}, log=f"{folder}/spark.log")
        try:
            memory = in_memory(place, spark, arguments.synthetic)
            console.print(f"memory: {memory}")
            for shape in arguments.shapes:
                (place / shape).mkdir()
                found[shape] = on_disk(place / shape, spark, shape, arguments.files)
                if shape in arguments.peers:
                    found[shape] |= by_peers(place / shape, arguments.peer, shape, arguments.files)
                console.print(f"{shape}: {found[shape]} {ratios(found[shape])}")
            for shape in arguments.s3_shapes if arguments.s3 else ():
                (place / f"{shape}-s3").mkdir()
                sweeps = Sweeps(place / f"{shape}-s3", spark)
                contenders = sweep_s3.Contenders(sweeps.plan, sweeps.apply, vacuum)
                run = partial(sweep_s3.run_plans, rounds=arguments.s3_plans) if arguments.s3_plans else sweep_s3.run
                one = run(server, place / f"{shape}-s3", shape, arguments.s3, contenders)
                found[f"{shape}, s3"] = one
                console.print(f"{shape}, {arguments.s3:,} objects: {one} {ratios(one)}")
        finally:
            end_session(spark, patience_s=20)
    show(console, found)
    RESULTS.mkdir(parents=True, exist_ok=True)
    content = {
        "ratios": {shape: ratios(one) for shape, one in found.items()},
        "direction": "above 1, Tenure is faster; a peer's deleting without its listing",
        "files": arguments.files,
        "objects": arguments.s3,
        "objects_delay_ms": arguments.s3_delay,
        "seconds": found,
        "memory": memory,
        "switch_over": switched,
        "machine": asdict(describe_machine()),
    }
    (RESULTS / "sweep.json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


def show(console: Console, found: dict[str, dict[str, Any]]) -> None:
    """The seconds, as a table."""
    table = Table(title="seconds", caption=str(describe_machine()))
    columns = [name for name in dict.fromkeys(name for one in found.values() for name in one) if name != "files"]
    for heading in ("shape", *columns):
        table.add_column(heading, justify="left" if heading == "shape" else "right")
    for shape, one in found.items():
        table.add_row(shape, *(f"{one[column]:g}" if column in one else "" for column in columns))
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
