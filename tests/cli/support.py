"""The command line in this process, on a folder of its own; a run borrows the module's SparkSession.

Promise: `tenure(...)` does what the command does, signals included, and returns its exit code and what it printed.
Only the driver's process, and the start and the end of the JVM, are left out: the driver is a thread.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from tenure.assembly import assemble
from tenure.backends.sqlite import SqliteStore
from tenure.cli.main import main
from tenure.clock import SystemClock
from tenure.coordination.records import Key, Scope
from tenure.driver.__main__ import load
from tests.kit.thread_child import ThreadChild

HEAD = """
import tenure
from pyspark.sql import functions as F
from tenure.sinks import Delta, ForeachBatch

def source(job):
    rows = job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 1)
    return rows.json(job.params["input"])

@tenure.pipeline
def rows(job):
"""

COPY = 'job.stream("copy", source(job), sink=Delta(job.params["output"]))'
COUNTS = (
    'job.stream("counts", source(job).groupBy("k").count(),'
    ' sink=Delta(job.params["output"], key=["k"]), output_mode="update")'
)


@dataclass(frozen=True)
class Told:
    """How a command ended and what it printed."""

    code: object
    out: str
    err: str

    @property
    def error(self) -> str:
        """The line of the error. There is exactly one, it is the last, and no stack trace is near it."""
        lines = self.err.splitlines()
        found = [line for line in lines if line.startswith("tenure: error: ")]
        assert len(found) == 1, self.err
        assert found[0] == lines[-1], self.err
        assert "Traceback" not in self.err, self.err
        assert "\tat " not in self.err, self.err
        return found[0].removeprefix("tenure: error: ")

    @property
    def json(self) -> Any:
        """The one JSON document that it printed."""
        return json.loads(self.out)


def start_driver(member: str) -> ThreadChild:
    """A driver on a thread."""
    return ThreadChild(lambda begin: load(begin, clock=SystemClock()))


def tenure(*arguments: str, spark: SparkSession | None = None) -> Told:
    """Run one command; `spark`: the session that a run borrows."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with contextlib.ExitStack() as around:
        around.enter_context(contextlib.redirect_stdout(out))
        around.enter_context(contextlib.redirect_stderr(err))
        around.enter_context(patch.object(sys, "argv", ["tenure", *arguments]))
        around.enter_context(patch("tenure.cli.run.assemble", functools.partial(assemble, start_driver=start_driver)))
        if spark is not None:
            around.enter_context(patch("tenure.spark.session.start_session", lambda **named: spark))
            around.enter_context(patch("tenure.driver.spark_driver.end_session", lambda spark, *, patience_s: None))
        try:
            main()
        except SystemExit as end:
            code = end.code
    return Told(code, out.getvalue(), err.getvalue())


class Place:
    """A store, a storage, an input and an output below one folder."""

    def __init__(self, folder: Path, *, store: Path | None = None, storage: Path | None = None) -> None:
        self.folder = folder
        self.store = store or folder / "store.db"
        self.storage = storage or folder / "storage"
        self.input = folder / "input"
        self.output = folder / "output"
        self.input.mkdir()
        self._files = 0

    def make_store(self) -> None:
        """Make an empty store: readers do not make one."""
        with contextlib.closing(SqliteStore(self.store)) as store:
            store.read(Scope("rows"), Key("none"))

    def feed(self, *ids: int) -> None:
        """One more file, so one more batch: row `id` with key a (even) or b (odd)."""
        text = "".join(json.dumps({"id": number, "k": "ab"[number % 2]}) + "\n" for number in ids)
        hidden = self.input / f".{self._files:06d}.json"
        hidden.write_text(text)
        os.utime(hidden, (1.7e9 + self._files,) * 2)  # Spark takes the oldest first
        hidden.rename(self.input / f"{self._files:06d}.json")
        self._files += 1

    def pipeline(self, *body: str, name: str = "rows") -> str:
        """Write a pipeline file; `body`: the lines of its function."""
        path = self.folder / f"{name}.py"
        path.write_text(HEAD + "".join(f"    {line}\n" for line in "\n".join(body).splitlines()))
        return str(path)

    def flags(self, *, ttl: str = "2s") -> list[str]:
        """The flags of a run that ends by itself."""
        return [
            *("--store", f"sqlite://{self.store}", "--storage", f"file://{self.storage}", "--ttl", ttl),
            *("--param", f"input={self.input}", "--param", f"output={self.output}"),
            *("--spark-log", str(self.folder / "spark.log"), "--master", "local[2]"),
            *("--conf", "spark.sql.shuffle.partitions=2"),
        ]

    def run(self, file: str, *more: str, spark: SparkSession) -> Told:
        """Run until idle in this process."""
        return tenure("run", file, *self.flags(), "--until-idle", *more, spark=spark)

    def fail(self, file: str, *more: str, spark: SparkSession) -> Told:
        """Run a pipeline of which a query fails, at its only attempt, and resume the scope where that paused it."""
        told = self.run(file, *more, "--batch-attempts", "1", spark=spark)
        assert told.code == 8, told.err
        if self.look("status")["paused"]:
            assert tenure("resume", "--store", f"sqlite://{self.store}", "--scope", "rows").code == 0
        return told

    def look(self, *command: str, scope: str = "rows") -> Any:
        """The JSON of a command that looks at the scope."""
        storage = ["--storage", f"file://{self.storage}"] if command[0] == "checkpoints" else []
        told = tenure(*command, "--store", f"sqlite://{self.store}", *storage, "--scope", scope, "--output", "json")
        assert told.code == 0, told.err
        return told.json

    def sql(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Look into the store's file, or damage it, by hand."""
        with contextlib.closing(sqlite3.connect(self.store)) as connection, connection:
            return connection.execute(statement, values).fetchall()

    def ids(self) -> list[int]:
        """The ids in the output, sorted, with every double."""
        return sorted(row["id"] for row in self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """The rows in the output."""
        from deltalake import DeltaTable

        return list(DeltaTable(str(self.output)).to_pyarrow_table().to_pylist())


def numbers(*ranges: Iterable[int]) -> list[int]:
    """The ids of some ranges, sorted."""
    return sorted(number for one in ranges for number in one)
