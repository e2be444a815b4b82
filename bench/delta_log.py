"""What a Delta table costs the driver: the processor time of a commit by the number of its files, and the memory of a
batch in update mode.

Commits, in turn on one table of made-up files: by a writer that opens the table for each commit, and by one that keeps
its snapshot from batch to batch, as the sink does. Both look the newest batch up in the snapshot that they commit on.

Update mode, each in a process of its own: delta-rs' merge with the batch in memory, and the sink's way, which copies
files without the rows that the batch replaces. The table has eight files, and each may have any key. `batch` has that
many rows, half of which are new keys. Peaks are above what the process has after its imports.

All figures go to `build/bench/delta_log.json`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, write_deltalake
from rich.console import Console

from bench.harness import RESULTS, compare, describe_machine, summarise
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import DeltaLog
from tenure.sinks.delta.staged_files import StagedFile, staged_files
from tenure.sinks.delta.upsert import Upsert, arrow_schema
from tenure.sinks.staging.stage import PutFile, StagingPath

KINDS = {"k": "string", "w": "long", "n": "long", "s": "double", "t": "string"}
FILES = 8


def schema(kinds: dict[str, str]) -> dict[str, Any]:
    """Delta's JSON."""
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in kinds.items()]
    return {"type": "struct", "fields": fields}


# --- commits ----------------------------------------------------------------------------------------------------------


def commits(folder: Path, *, files: int, columns: int, rounds: int) -> dict[str, float]:
    """Milliseconds of processor time a commit, in a table of so many files with statistics of so many columns."""
    table = folder / f"commits-{files}-{columns}"
    names = [f"column_{number}" for number in range(columns)]
    stats = json.dumps(
        {
            "numRecords": 1000,
            "minValues": dict.fromkeys(names, 1000000),
            "maxValues": dict.fromkeys(names, 2000000),
            "nullCount": dict.fromkeys(names, 0),
        }
    )
    batches = iter(range(10**9))

    def log() -> DeltaLog:
        return DeltaLog(Location.of(table), app_id="tenure/s/q/id", storage_options={})

    def commit(writer: DeltaLog, count: int) -> float:
        batch = next(batches)
        attempt = str(StagingPath("s", "q", "id", 1, batch, os.urandom(16).hex()))
        added = [
            StagedFile(f"{attempt}/part-{number:05d}.parquet", 10**6, 10**12, {}, 1000, stats)
            for number in range(count)
        ]
        began = time.process_time()
        writer.refresh()
        assert writer.taken is None or writer.taken < batch
        writer.add(added, mode="append", batch=batch, attempt=attempt)
        return (time.process_time() - began) * 1000

    kept = log()
    kept.refresh()
    kept.create(schema(dict.fromkeys(names, "long")), partition_by=[], name=None)
    commit(kept, files)
    contenders: dict[str, Callable[[], float]] = {"opened": lambda: commit(log(), 1), "kept": lambda: commit(kept, 1)}
    compared = compare("commit", contenders, rounds=rounds, unit="ms")
    shutil.rmtree(table)
    return {name: round(one.median, 1) for name, one in summarise(compared).items()}


# --- update mode ------------------------------------------------------------------------------------------------------


def rows(numbers: range) -> pa.Table:
    """About 70 bytes a row."""
    return pa.table(
        {
            "k": [f"key-{number * 2654435761 % 2**40:012d}" for number in numbers],
            "w": list(numbers),
            "n": [number % 7 for number in numbers],
            "s": [number / 3 for number in numbers],
            "t": [f"text number {number * 7919 % 1000003} of it" for number in numbers],
        }
    )


def made(folder: Path, *, table_rows: int, batch: int) -> Path:
    """A table, and the staged files of a batch."""
    table = folder / f"update-{table_rows}-{batch}"
    for number in range(FILES):
        write_deltalake(str(table), rows(range(number, table_rows, FILES)), mode="append")
    first = table_rows - batch // 2
    for number in range(4):
        path = table / "staged" / "rows" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(range(first + number, first + batch, 4)), path, row_group_size=100_000)
    return table


def by_delta_rs(table: Path) -> None:
    """As the sink did until it copied files."""
    batch = pq.read_table(str(table / "staged" / "rows"), partitioning=None)
    batch.group_by(["k"]).aggregate([([], "count_all")])
    (
        DeltaTable(str(table))
        .merge(
            batch,
            "target.k = batch.k",
            source_alias="batch",
            target_alias="target",
            streamed_exec=False,
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def by_the_sink(table: Path) -> None:
    """What the sink does with staged files."""
    log = DeltaLog(Location.of(table), app_id="tenure/s/q/id", storage_options={})
    filesystem = Location.of(table).filesystem({})
    puts = [PutFile(path.name, path.stat().st_size, 0, b"") for path in sorted((table / "staged" / "rows").iterdir())]
    staged = staged_files(filesystem, "staged/rows", puts, columns=KINDS, partition_by=())
    by_key = Upsert(filesystem, staged, arrow_schema(schema(KINDS)), key=["k"])
    by_key.refuse_duplicates(batch=0, where=str(table))
    log.refresh()
    merged = by_key.merge(log.files(), "staged", columns=KINDS, partition_by=())
    log.add(merged.added, mode="append", batch=0, attempt="staged", removed=merged.removed)


WAYS = {"delta-rs": by_delta_rs, "ours": by_the_sink}


def memory(field: str) -> float:
    """MiB of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def measured(way: str, table: Path, answers: Any) -> None:
    """Run in a process of its own."""
    before, began = memory("VmRSS"), time.monotonic()
    WAYS[way](table)
    answers.put({"peak_mib": round(memory("VmHWM") - before), "seconds": round(time.monotonic() - began, 1)})


def updates(folder: Path, *, table_rows: int, batch: int) -> dict[str, Any]:
    """Peak and seconds of each way."""
    found, table = {}, made(folder, table_rows=table_rows, batch=batch)
    start = multiprocessing.get_context("spawn")
    for way in WAYS:
        copy, answers = folder / "copy", start.Queue()
        shutil.copytree(table, copy)
        child = start.Process(target=measured, args=(way, copy, answers))
        child.start()
        found[way] = {**answers.get(), "rows": _count(copy)}
        child.join()
        shutil.rmtree(copy)
    assert len({one["rows"] for one in found.values()}) == 1, found
    shutil.rmtree(table)
    return found


def _count(table: Path) -> int:
    return sum(pa.table(DeltaTable(str(table)).get_add_actions())["num_records"].to_pylist())


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and keep them."""
    parser = argparse.ArgumentParser(prog="bench.delta_log", description=__doc__)
    parser.add_argument("--files", type=int, nargs="*", default=[1_000, 10_000, 40_000])
    parser.add_argument("--columns", type=int, nargs="*", default=[4, 20])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--table-rows", type=int, nargs="*", default=[1_000_000, 4_000_000])
    parser.add_argument("--batch", type=int, nargs="*", default=[1_000, 1_000_000])
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
        found = dict(_measure(Path(folder), given))
    Console().print_json(data=found)
    RESULTS.mkdir(parents=True, exist_ok=True)
    record = {"machine": asdict(describe_machine()), **found}
    (RESULTS / "delta_log.json").write_text(json.dumps(record, indent=1))
    return 0


def _measure(folder: Path, given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    for columns in given.columns:
        for files in given.files:
            yield (
                f"{files} files, {columns} columns",
                commits(folder, files=files, columns=columns, rounds=given.rounds),
            )
    for table_rows in given.table_rows:
        for batch in given.batch:
            name = f"a batch of {batch} rows into {table_rows}"
            yield name, updates(folder, table_rows=table_rows, batch=batch)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
