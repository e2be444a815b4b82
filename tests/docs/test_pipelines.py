"""The pipelines of README and docs are loaded and declared as `tenure run` does it; their functions are called."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

import tenure
from tenure.pipelines.loading import load_pipeline
from tenure.pipelines.pipeline import Job, Pipeline
from tests.docs.blocks import HOW_TO, OWN_SINK, Block, all_blocks, text_of

pytestmark = pytest.mark.spark


def python(*roles: str) -> list[Block]:
    return [block for block in all_blocks("python") if block.role in roles]


def load(block: Block, folder: Path) -> Pipeline:
    file = folder / "pipeline.py"
    file.write_text(block.text)
    return load_pipeline(str(file)).pipeline


@pytest.mark.parametrize("block", python("pipeline"), ids=str)
def test_it_declares_its_streams(block: Block, spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, {"input": str(tmp_path), "output": str(tmp_path / "out")})
    load(block, tmp_path).declare(job)
    assert job.streams


class Target:
    """What the page's `ledger` and `write` keep, in memory."""

    def __init__(self) -> None:
        self.newest: tuple[int, int] = (-1, -1)
        """Epoch and batch."""
        self.rows: list[int] = []

    def ledger(self, target: object, query_id: str, batch: int, epoch: int) -> tuple[int | None, bool]:
        if epoch < self.newest[0]:
            return self.newest[0], False
        had, self.newest = batch <= self.newest[1], (epoch, max(batch, self.newest[1]))
        return None, had

    def write(self, target: object, rows: list[int], *, only_evaluate: bool) -> None:
        self.rows += [] if only_evaluate else rows


@pytest.mark.parametrize("block", python("foreach-batch"), ids=str)
def test_its_function_fences(
    block: Block, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = Target()
    client: Any = ModuleType("psycopg")
    client.connect = contextlib.nullcontext
    monkeypatch.setitem(sys.modules, "psycopg", client)
    pipeline = load(block, tmp_path)
    names = vars(sys.modules[pipeline.declare.__module__])
    names |= {"TARGET": "somewhere", "ledger": target.ledger, "write": target.write}
    job = Job(spark, {"input": str(tmp_path), "output": ""})
    pipeline.declare(job)
    assert [stream.name for stream in job.streams] == ["copy"]

    def call(number: int, *, epoch: int, rows: list[int]) -> Any:
        batch = tenure.Batch(scope="copy", query="copy", query_id="q", id=number, epoch=epoch)
        return names["upsert"](rows, batch)

    assert call(0, epoch=1, rows=[1]) == tenure.Written(repeated=False)
    assert call(0, epoch=2, rows=[1]) == tenure.Written(repeated=True)
    with pytest.raises(tenure.Fenced):
        call(1, epoch=1, rows=[2])
    assert target.rows == [1]


class Suite(NamedTuple):
    """A page with a module and the tests of it."""

    page: str
    kind: str
    tests: str
    module: str
    of: int


@pytest.mark.parametrize(
    "suite",
    [
        Suite(HOW_TO, "tested-pipeline", "unit-test", "orders", 3),
        Suite(OWN_SINK, "own-sink", "own-sink-tests", "sqlite_rows", 4),
    ],
    ids=lambda suite: suite.module,
)
def test_the_tests_of_the_page_pass(
    suite: Suite,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / f"{suite.module}.py").write_text(text_of(suite.page, f"python {suite.kind}"))
    monkeypatch.syspath_prepend(str(tmp_path))
    names: dict[str, Any] = {}
    exec(text_of(suite.page, f"python {suite.tests}"), names)
    monkeypatch.delitem(sys.modules, suite.module)
    tests = {name: test for name, test in names.items() if name.startswith("test_")}
    assert len(tests) == suite.of
    for name, test in tests.items():
        folder = tmp_path / name
        folder.mkdir()
        given = {"spark": spark, "tmp_path": folder, "capsys": capsys}
        test(**{one: given[one] for one in inspect.signature(test).parameters})


@pytest.fixture
def flights(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The folder that stands for /data, with some flights."""
    rows = spark.sql("SELECT timestamp'2026-01-01 00:10:00' AS at, 'AA' AS carrier, 1.0D AS delay")
    rows.write.parquet(str(tmp_path / "flights"))
    yield tmp_path
    for query in spark.streams.active:
        query.stop()


@pytest.mark.parametrize("block", python("spark-job"), ids=str)
def test_the_job_of_before_runs(block: Block, flights: Path) -> None:
    text = block.text.replace("/data", str(flights))
    assert "query.awaitTermination()" in text
    names: dict[str, Any] = {}
    exec(text.replace("query.awaitTermination()", "query.processAllAvailable()"), names)
    assert SimpleNamespace(**names).query.lastProgress["numInputRows"] >= 0
    assert (flights / "checkpoints" / "hourly" / "commits" / "0").exists()
