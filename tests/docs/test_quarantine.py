"""The section *A batch that fails* of the page *Operate*, done as an operator does it: two members run, a file cannot
be read, the pipeline is paused, the page's commands take the file out, and a member goes on.

Promise: nothing is put in the place of the page's own words but the folder of the bad files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.docs.blocks import OPERATE, text_of
from tests.docs.reader import put_command, type_in, variables_of
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

PIPELINE = """
import tenure
from tenure.sinks import Delta

@tenure.pipeline
def rows(job):
    rows = job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 2).option("mode", "FAILFAST")
    rows = rows.json(job.params["input"])
    job.stream("raw", rows, sink=Delta(job.params["output"] + "/raw"))
    job.stream("counts", rows.groupBy("k").count(), sink=Delta(job.params["output"] + "/counts", key=["k"]),
               output_mode="update")
"""


class Site:
    """The folder of an operator: two members, their input and output, and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("input", "storage", "data"):
            (folder / name).mkdir()
        put_command(folder)
        (folder / "rows.py").write_text(PIPELINE)
        self.places = {"TENURE_STORE": f"sqlite://{folder}/store.db", "TENURE_STORAGE": f"file://{folder}/storage"}
        arguments = ["run", str(folder / "rows.py"), "--ttl", "3s", "--master", "local[1]", "--batch-attempts", "2"]
        arguments += ["--conf", "spark.sql.shuffle.partitions=1"]
        arguments += ["--param", f"input={folder}/input", "--param", f"output={folder}/output"]
        self.members = [
            MemberProcess(name, folder=folder, arguments=arguments, environment=self.places) for name in ("anna", "ben")
        ]

    def release(self, name: str, text: str) -> None:
        """Put a file into the input, whole."""
        hidden = self.folder / "input" / f".{name}"
        hidden.write_text(text)
        hidden.rename(self.folder / "input" / name)

    def type(self, command: str, *, code: int = 0) -> str:
        """Let the operator's shell run a command; return all that it printed."""
        text = command.replace("/data/quarantine", f"{self.folder}/data/quarantine")
        done = type_in(text, self.folder, {**variables_of(self.folder), **self.places, "TENURE_SCOPE": "rows"})
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def did(self, query: str) -> bool:
        """Whether a member did a batch of the query."""
        return any(member.events("BatchCommitted", query=query) for member in self.members)

    def ids(self) -> list[int]:
        """The ids in the output of `raw`."""
        found: list[int] = DeltaTable(str(self.folder / "output" / "raw")).to_pyarrow_table()["id"].to_pylist()
        return sorted(found)

    def counts(self) -> dict[str, int]:
        """The output of `counts`."""
        table = DeltaTable(str(self.folder / "output" / "counts")).to_pyarrow_table()
        return dict(zip(table["k"].to_pylist(), table["count"].to_pylist(), strict=True))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as members:
        found = Site(tmp_path)
        for member in found.members:
            members.enter_context(member)
        yield found


def lines(*ids: int) -> str:
    return "".join(f"{json.dumps({'id': one, 'k': 'ab'[one % 2]})}\n" for one in ids)


def test_a_poison_file_in_a_running_pipeline(site: Site) -> None:
    site.release("a.json", lines(1, 2))
    wait_until(lambda: site.did("raw") and site.did("counts"), what="the first batch of both queries")
    site.release("c.json", lines(4, 5))
    site.release("d.json", '{"id": 6, "k": \n')

    wait_until(lambda: "paused by" in site.type("tenure list"), what="a pause after the last attempt")
    assert "d.json" in site.type("tenure list")
    look, apply = text_of(OPERATE, "sh quarantine").splitlines()
    assert "d.json" in site.type(look)
    assert (site.folder / "input" / "d.json").exists(), "the first command writes nothing"
    site.type(apply)
    assert [one.name for one in (site.folder / "data" / "quarantine").iterdir()] == ["d.json"]

    site.release("e.json", lines(7))
    wait_until(lambda: site.ids() == [1, 2, 4, 5, 7], what="each other row, once")
    wait_until(lambda: site.counts() == {"a": 2, "b": 3}, what="the counts of all other rows")
    assert [member.name for member in site.members if not member.running] == []
    assert "without d.json (by " in site.type("tenure history")
