"""The section *Go back to an older batch* of the page *Operate*, done as an operator does it: a change of the pipeline
writes wrong rows, and the pipeline goes on after the last good batch, with its state of that time.

Promise: nothing is put in the place of the page's own words but its folders, the number of the batch, and an end of the
run.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.docs.blocks import OPERATE, text_of
from tests.docs.reader import UNTIL_IDLE, put_command, type_in, variables_of

pytestmark = pytest.mark.spark

PIPELINE = """
import tenure
from tenure.sinks import Delta

@tenure.pipeline
def hourly(job):
    rows = job.spark.readStream.schema("id long, delay long").json(job.params["input"])
    delay = rows["delay"] * int(job.params["factor"])
    rows = rows.dropDuplicates(["id"]).select("id", delay.alias("delay"))
    job.stream("hourly", rows, sink=Delta(job.params["output"]))
"""


class Desk:
    """The folder of an operator, and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("input", "storage"):
            (folder / name).mkdir()
        put_command(folder)
        (folder / "hourly.py").write_text(PIPELINE)
        self.table = f"{folder}/output"

    def feed(self, name: str, *ids: int) -> None:
        """A file of rows, whole."""
        lines = "".join(f"{json.dumps({'id': one, 'delay': one})}\n" for one in ids)
        (self.folder / "input" / f".{name}").write_text(lines)
        (self.folder / "input" / f".{name}").rename(self.folder / "input" / name)

    def type(self, text: str, *, factor: int = 1) -> str:
        """Let the operator's shell run commands; return all that they printed."""
        variables = variables_of(self.folder) | {
            "TENURE_STORE": f"sqlite://{self.folder}/store.db",
            "TENURE_STORAGE": f"file://{self.folder}/storage",
            "TENURE_CONF": json.dumps({"spark.sql.shuffle.partitions": "1"}),
            "TENURE_PARAMS": json.dumps({"input": f"{self.folder}/input", "output": self.table, "factor": str(factor)}),
        }
        done = type_in(text.replace("/data/checkpoints", f"{self.folder}/checkpoints"), self.folder, variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def rows(self) -> list[tuple[int, int]]:
        """The output."""
        table = DeltaTable(self.table).to_pyarrow_table()
        return sorted(zip(table["id"].to_pylist(), table["delay"].to_pylist(), strict=True))


def test_a_pipeline_goes_back(tmp_path: Path) -> None:
    desk, run = Desk(tmp_path), f"tenure run hourly.py --scope hourly {UNTIL_IDLE}"
    desk.feed("a.json", 1, 2, 3)
    desk.type(run)
    desk.type("tenure checkpoints pin hourly --scope hourly")
    good = DeltaTable(desk.table).version()
    (kept,) = json.loads(desk.type("tenure checkpoints list --scope hourly -o json"))
    desk.feed("b.json", 3, 4, 5)
    desk.type(run, factor=-1)
    desk.feed("c.json", 5, 6)
    desk.type(run, factor=-1)
    assert desk.rows() == [(1, 1), (2, 2), (3, 3), (4, -4), (5, -5), (6, -6)], "the change was wrong"

    batch = str(kept["batch"])
    told = desk.type(text_of(OPERATE, "sh back-export").replace("417", batch))
    assert f"put the output back to what it was then, and adopt {tmp_path}/checkpoints/hourly-{batch}" in told
    DeltaTable(desk.table).restore(good)
    desk.feed("d.json", 1, 6, 7)
    desk.type(f"{text_of(OPERATE, 'sh back-adopt').replace('417', batch).rstrip()} {UNTIL_IDLE}")
    assert desk.rows() == [(one, one) for one in range(1, 8)], "each row once, also those that the state knows"
