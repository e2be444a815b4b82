"""What an Iceberg table costs the driver: the processor time of a commit by the number of its snapshots.

Commits of one file each, in turn on one table in a catalog of SQLite: by the sink's writer, which reads the table,
looks the newest batch up, describes the file and commits; and by pyiceberg's own `append` of a row, which writes the
file, too.

All figures go to `build/bench/iceberg_log.json`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from rich.console import Console

from bench.harness import RESULTS, compare, describe_machine, summarise
from tenure.sinks.iceberg.table import IcebergTable
from tenure.sinks.sink import Batch
from tenure.sinks.staging.stage import PutFile, StagingPath

NAME = "n.t"
COLUMNS = {
    "type": "struct",
    "fields": [{"id": 1, "name": "n", "type": "long", "required": False}],
}


class Lake:
    """A table with one column, in a catalog and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self._catalog = SqlCatalog("bench", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self._catalog.create_namespace("n")
        self._batches = count()
        self._table = IcebergTable(NAME, where="the table", catalog=lambda: self._catalog)
        self._table.refresh()
        self._table.create(COLUMNS, [])
        self._rows = pa.table({"n": pa.array([1], pa.int64())})
        out = io.BytesIO()
        field = pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"})
        pq.write_table(self._rows.cast(pa.schema([field])), out)
        self._file = out.getvalue()

    def ours(self) -> float:
        """Milliseconds of processor time for one more batch."""
        batch = Batch("s", "q", "id", next(self._batches), 1)
        attempt = str(StagingPath.of(batch))
        layout = self._table.layout
        path = Path(str(layout.location.disk), attempt, "part-0.parquet")
        path.parent.mkdir(parents=True)
        path.write_bytes(self._file)
        footer = 8 + int.from_bytes(self._file[-8:-4], "little")
        put = PutFile(path.name, len(self._file), 0, self._file[-footer:])
        began = time.process_time()
        self._table.refresh()
        assert not self._table.has(batch)
        describing = self._table.describing(layout)
        files = describing.staged(layout.location.filesystem({}), attempt, [put], columns=["n"], derived=[])
        self._table.add(files, batch=batch, attempt=attempt)
        return (time.process_time() - began) * 1000

    def theirs(self) -> float:
        """The same by pyiceberg alone."""
        began = time.process_time()
        self._catalog.load_table(NAME).append(self._rows)
        return (time.process_time() - began) * 1000


def measured(folder: Path, *, snapshots: int, rounds: int) -> dict[str, Any]:
    """Medians of a table that has so many snapshots in the middle of the rounds."""
    lake = Lake(folder)
    for _ in range(snapshots - rounds):
        lake.ours()
    contenders: dict[str, Callable[[], float]] = {"the sink": lake.ours, "pyiceberg": lake.theirs}
    compared = compare("commit", contenders, rounds=rounds, unit="ms")
    found = {name: round(one.median, 1) for name, one in summarise(compared).items()}
    return {"snapshots": snapshots, **found, "raw": asdict(compared)}


def main(arguments: list[str]) -> int:
    """Measure, print the figures, and keep them."""
    parser = argparse.ArgumentParser(prog="bench.iceberg_log", description=__doc__)
    parser.add_argument("--snapshots", type=int, nargs="*", default=[30, 100, 300])
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args(arguments)
    console, found = Console(), []
    for snapshots in given.snapshots:
        with tempfile.TemporaryDirectory(prefix="tenure-bench-") as folder:
            one = measured(Path(folder), snapshots=snapshots, rounds=given.rounds)
        found.append(one)
        console.print({name: value for name, value in one.items() if name != "raw"})
    RESULTS.mkdir(parents=True, exist_ok=True)
    written = {"machine": asdict(describe_machine()), "commits": found}
    (RESULTS / "iceberg_log.json").write_text(json.dumps(written, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
