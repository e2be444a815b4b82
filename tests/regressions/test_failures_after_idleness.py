"""A query that fails after it had been idle once, while others work on, was no failure: `--until-idle` ended with 0.

Two streams, `a` and `b`. The function of `b` waits until `a` is idle, then lets `a` have another file and fail, and
ends only when `a` has failed: so whoever looks for the failures of idle queries no more takes the run for a good one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import Place, Told

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

BOTH = """
import os, pathlib
from tests.kit.waiting import wait_until
p = job.params
def query(name):
    return next((one for one in job.spark.streams.active if one.name == name), None)
def first(rows, batch):
    rows.collect()
    if batch.id == 1 and p["how"] == "function":
        raise ValueError("no luck")
def second(rows, batch):
    rows.collect()
    if p["how"] == "none" or batch.id > 0:
        return
    a = query("a")
    a.processAllAvailable()
    if p["how"] == "offsets":
        (runs,) = pathlib.Path(p["runs"], "a").iterdir()
        (runs / "offsets" / "1").write_text("no offsets")
    os.rename(p["next"], os.path.join(p["input"], "next.json"))
    wait_until(lambda: query("a") is None)
def read(folder):
    return job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 1).json(p[folder])
job.stream("a", read("input"), sink=ForeachBatch(first, idempotent=True))
job.stream("b", read("other"), sink=ForeachBatch(second, idempotent=True))
"""


class Two:
    """A pipeline of two streams."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.file = place.pipeline(BOTH)
        self.other, self.next = place.folder / "other", place.folder / "next.json"
        self.other.mkdir()
        (self.other / "one.json").write_text('{"id": 1, "k": "a"}\n')
        self.next.write_text('{"id": 2, "k": "a"}\n')
        place.feed(1)

    def run(self, how: str, *more: str, spark: SparkSession) -> Told:
        named = {"other": self.other, "next": self.next, "runs": self.place.storage / "rows" / "runs", "how": how}
        params = [word for name, value in named.items() for word in ("--param", f"{name}={value}")]
        return self.place.run(self.file, *params, *more, "--batch-attempts", "1", spark=spark)

    def runs(self) -> list[Path]:
        return list((self.place.storage / "rows" / "runs").glob("*/*"))


@pytest.fixture
def two(place: Place) -> Two:
    return Two(place)


@pytest.mark.parametrize(
    ("how", "final", "said"),
    [
        ("offsets", False, "query 'a' failed: "),
        ("offsets", True, "query 'a' failed: "),
        ("function", False, "query 'a' failed: ValueError: no luck; it was the last attempt, and "),
        ("function", True, "query 'a' failed: ValueError: no luck; it was the last attempt, and "),
    ],
    ids=["offsets", "offsets, final", "function", "function, final"],
)
def test_a_query_that_fails_after_it_was_idle_fails_the_run(
    two: Two, spark: SparkSession, how: str, final: bool, said: str
) -> None:
    told = two.run(how, *["--final"] * final, spark=spark)
    assert told.code == 8, told.err
    assert told.error.startswith(said)
    assert two.place.look("result", "show") is None
    assert two.place.look("history")[-1]["why"] == "failed"
    assert two.runs(), "nothing is removed"


def test_without_a_failure_it_ends_for_good(two: Two, spark: SparkSession) -> None:
    told = two.run("none", "--final", spark=spark)
    assert told.code == 0, told.err
    assert two.place.look("result", "show")["ending"] == "finished"
    assert two.runs() == []
