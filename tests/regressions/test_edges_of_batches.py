"""What was lost, doubled or done again at the edges of a batch, where Spark's life and ours meet, with exit code 0."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import COUNTS, Place

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

# Writes down each call; a batch whose number is in the file `fail` fails, once.
NOTE = """
import json, os
def note(rows, batch):
    ids = sorted(row["id"] for row in rows.collect())
    fail = os.path.join(job.params["output"], "fail")
    if os.path.exists(fail) and open(fail).read() == str(batch.id):
        os.unlink(fail)
        raise OSError("no luck")
    with open(os.path.join(job.params["output"], "calls"), "a") as calls:
        calls.write(json.dumps([batch.id, ids]) + "\\n")
"""
NOTED = NOTE + 'job.stream("copy", source(job), sink=ForeachBatch(note, idempotent=True))'


class Calls:
    """What a function wrote down."""

    def __init__(self, place: Place) -> None:
        self._folder = place.output
        self._folder.mkdir()

    def fail(self, batch: int) -> None:
        """Let it fail at this batch, once."""
        (self._folder / "fail").write_text(str(batch))

    def all(self) -> list[tuple[int, list[int]]]:
        path = self._folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(batch, ids) for batch, ids in map(json.loads, lines)]


@pytest.fixture
def calls(place: Place) -> Calls:
    return Calls(place)


def test_a_nightly_run_goes_on_after_what_is_done_though_its_inputs_were_moved(
    place: Place, spark: SparkSession
) -> None:
    file = place.pipeline(COUNTS)
    place.feed(0, 2)
    place.feed(4, 6)
    assert place.run(file, spark=spark).code == 0
    for taken in place.input.glob("*.json"):
        taken.rename(place.folder / taken.name)
    place.feed(8, 10)
    assert place.run(file, spark=spark).code == 0
    assert [(row["k"], row["count"]) for row in place.rows()] == [("a", 6)]


def test_a_function_is_not_called_again_for_a_batch_that_is_done(
    place: Place, calls: Calls, spark: SparkSession
) -> None:
    file = place.pipeline(NOTED)
    place.feed(0, 1)
    for _ in range(2):
        assert place.run(file, spark=spark).code == 0
    place.feed(2)
    assert place.run(file, spark=spark).code == 0
    assert calls.all() == [(0, [0, 1]), (1, [2])]


def with_three_folders(place: Place, read: str, union: str) -> str:
    """A pipeline that reads three folders, a file at a time; the first has two files, so its offset differs later."""
    folders = {name: place.folder / name for name in ("one", "two", "three")}
    for number, folder in enumerate(folders.values()):
        folder.mkdir()
        (folder / "a.json").write_text(json.dumps({"id": number, "k": "a"}) + "\n")
    (folders["one"] / "b.json").write_text(json.dumps({"id": 3, "k": "a"}) + "\n")
    os.utime(folders["one"] / "a.json", (1e9, 1e9))  # the older one is read first
    lines = f'def read(folder): return {read}.option("maxFilesPerTrigger", 1).json(folder)'
    rows = f"one, two, three = (read(folder) for folder in {[str(folder) for folder in folders.values()]})"
    return place.pipeline(NOTE, lines, rows, f'job.stream("copy", {union}, sink=ForeachBatch(note, idempotent=True))')


@contextmanager
def settings(spark: SparkSession, **values: str) -> Iterator[None]:
    """These settings of structured streaming, for as long as a test needs them."""
    for name, value in values.items():
        spark.conf.set(f"spark.sql.streaming.{name.replace('_', '.')}", value)
    try:
        yield
    finally:
        for name in values:
            spark.conf.unset(f"spark.sql.streaming.{name.replace('_', '.')}")


@pytest.mark.parametrize("version", ["1", "2"])
def test_one_folder_that_is_read_twice_beside_others_with_equal_offsets(
    place: Place, calls: Calls, spark: SparkSession, version: str
) -> None:
    """Which folder of Spark's logs belongs to which line of the offsets cannot be told from these."""
    read = 'job.spark.readStream.schema("id long, k string")'
    file = with_three_folders(place, read, "one.union(two).union(one).union(three)")
    with settings(spark, offsetLog_formatVersion=version):
        goes_on_after_a_failure(place, calls, spark, file, ([0, 0, 1, 2], [3, 3]))


def test_sources_with_names_of_their_own(place: Place, calls: Calls, spark: SparkSession) -> None:
    """Their folders have these names, and not numbers."""
    name = 'name("s" + folder[-3:])'
    read = f'job.spark.readStream.schema("id long, k string").{name}'
    file = with_three_folders(place, read, "one.union(two).union(three)")
    with settings(spark, offsetLog_formatVersion="2", queryEvolution_enableSourceEvolution="true"):
        goes_on_after_a_failure(place, calls, spark, file, ([0, 1, 2], [3]))


def goes_on_after_a_failure(
    place: Place, calls: Calls, spark: SparkSession, file: str, batches: tuple[list[int], list[int]]
) -> None:
    """The second batch fails in its function, and is run again; nothing is left to do after that."""
    calls.fail(1)
    place.fail(file, spark=spark)
    for _ in range(2):
        told = place.run(file, spark=spark)
        assert told.code == 0, told.err
        assert calls.all() == list(enumerate(batches))


def test_planned_inputs_that_are_gone_are_named_and_it_goes_on_when_they_are_back(
    place: Place, calls: Calls, spark: SparkSession
) -> None:
    file = place.pipeline(NOTED)
    place.feed(0)
    place.feed(1)
    calls.fail(1)
    place.fail(file, spark=spark)
    planned = place.input / "000001.json"
    planned.rename(place.folder / "moved.json")
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert f"planned for batch 1 of query 'copy' are gone: file://{planned};" in told.error
    assert "put them back" in told.error
    assert calls.all() == [(0, [0])]
    (place.folder / "moved.json").rename(planned)
    assert place.run(file, spark=spark).code == 0
    assert calls.all() == [(0, [0]), (1, [1])]


def test_a_note_of_the_last_batch_that_lost_its_content(place: Place, spark: SparkSession) -> None:
    """Spark renames it without a sync: after a loss of power nobody could take over for ever."""
    file = place.pipeline(COUNTS)
    place.feed(0)
    place.feed(2)
    assert place.run(file, spark=spark).code == 0
    notes = place.storage / "rows" / place.look("checkpoints", "show", "counts")["run_directory"] / "commits"
    (notes / "1").write_bytes(b"")
    place.feed(4)
    told = place.run(file, spark=spark)
    assert told.code == 0, told.err
    assert [(row["k"], row["count"]) for row in place.rows()] == [("a", 3)]


def test_an_older_note_that_lost_its_content_is_an_error(place: Place, spark: SparkSession) -> None:
    file = place.pipeline(COUNTS)
    place.feed(0)
    place.feed(2)
    assert place.run(file, spark=spark).code == 0
    notes = place.storage / "rows" / place.look("checkpoints", "show", "counts")["run_directory"] / "commits"
    (notes / "0").write_bytes(b"")
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert f"{notes}/0 does not decode" in told.error
