"""A query reads other sources than the query whose checkpoint it goes on from, or a source of an unusual kind.

What went wrong: sources were known by their position alone. The two sides of a union were swapped, and Spark read each
folder from the position of the other; a folder was moved, and each of its files was read a second time; a source of
Python was given another feed, and went on there. A source whose offset is a map of maps of numbers was taken for Kafka:
after one batch no member could start again (exit code 5, "sources/0/0 is missing"), and a batch in flight ended each
member with exit code 6.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import Place, Told

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

FOLDERS = """
def folder(name):
    return job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 1).json(f"{INPUT}/{name}")
INPUT = job.params["input"]
job.stream("copy", ROWS, sink=Delta(job.params["output"]))
"""
A_AND_B = FOLDERS.replace("ROWS", 'folder("web").unionByName(folder("app"))')
B_AND_A = FOLDERS.replace("ROWS", 'folder("app").unionByName(folder("web"))')

MAPS = """
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

class Reader(SimpleDataSourceStreamReader):
    def __init__(self, feed):
        self.feed = feed
    def initialOffset(self):
        return {"shards": {"0": 0}}
    def read(self, start):
        begin = int(start["shards"]["0"])
        end = len(open(self.feed).readlines())
        return self.readBetweenOffsets(start, {"shards": {"0": end}}), {"shards": {"0": end}}
    def readBetweenOffsets(self, start, end):
        lines = open(self.feed).readlines()
        return iter([(int(line), "a") for line in lines[int(start["shards"]["0"]):int(end["shards"]["0"])]])

class Maps(DataSource):
    @classmethod
    def name(cls):
        return "maps"
    def schema(self):
        return "id long, k string"
    def simpleStreamReader(self, schema):
        return Reader(self.options["feed"])

job.spark.dataSource.register(Maps)
rows = job.spark.readStream.format("maps").option("feed", f"{job.params['input']}/FEED").load()
job.stream("copy", rows, sink=Delta(job.params["output"]))
"""


def feed(place: Place, folder: str, *ids: int) -> None:
    place.input.mkdir(exist_ok=True)
    path = place.input / folder
    path.mkdir(exist_ok=True)
    text = "".join(json.dumps({"id": number, "k": "a"}) + "\n" for number in ids)
    file = path / f"{len(list(path.iterdir()))}.json"
    file.write_text(text)
    os.utime(file, (1.7e9 + ids[0],) * 2)  # no two files are of one time


def refused(told: Told, *words: str) -> None:
    """It ended before it led, with one line."""
    assert told.code == 12, (told.code, told.err)
    assert all(word in told.error for word in words), told.error
    assert " leads, epoch " not in told.err


def test_a_swapped_union_is_refused_and_a_flag_lets_no_folder_go_on_as_another(
    place: Place, spark: SparkSession
) -> None:
    feed(place, "web", 1)
    feed(place, "app", 11)
    assert place.run(place.pipeline(A_AND_B), spark=spark).code == 0
    feed(place, "app", 12)
    swapped = place.pipeline(B_AND_A)
    refused(
        place.run(swapped, spark=spark),
        f"source 0 of query 'copy' was [json path=file:{place.input}/web], and would go on from there with "
        f"[json path=file:{place.input}/app], which was source 1",
        "undo that, or allow it once by --changed-source copy",
    )
    told = place.run(swapped, "--changed-source", "copy", spark=spark)
    assert (told.code, "which was source 1: the sources have changed their places" in told.error) == (12, True)
    assert place.ids() == [1, 11]
    assert place.run(place.pipeline(A_AND_B), spark=spark).code == 0, "it has run nothing since it was changed"
    assert place.ids() == [1, 11, 12]


def test_a_folder_that_was_moved_goes_on_with_a_flag_also_in_a_batch_in_flight(
    place: Place, spark: SparkSession
) -> None:
    one = FOLDERS.replace("ROWS", 'folder("web")')
    feed(place, "web", 1)
    assert place.run(place.pipeline(one), spark=spark).code == 0
    shutil.move(place.input / "web", place.input / "moved here")
    feed(place, "moved here", 2)
    moved = place.pipeline(one.replace('"web"', '"moved here"'))
    refused(place.run(moved, spark=spark), "/input/web", "/input/moved here", "--changed-source copy")
    (newest_run(place) / "commits" / "0").unlink()  # as if its leader had died before Spark's note
    told = place.run(moved, "--changed-source", "copy", spark=spark)
    assert told.code == 0, told.err
    assert "query 'copy' goes on with other sources" in told.err
    assert place.ids() == [1, 2]
    feed(place, "moved here", 3)
    again = place.run(moved, spark=spark)
    assert again.code == 0, again.err
    assert place.ids() == [1, 2, 3]


def test_a_source_of_python_runs_again_and_with_another_feed_only_with_a_flag(
    place: Place, spark: SparkSession
) -> None:
    (place.input / "web").write_text("1\n2\n")
    (place.input / "app").write_text("11\n12\n13\n")
    web, app = (MAPS.replace("FEED", feed) for feed in ("web", "app"))
    assert place.run(place.pipeline(web), spark=spark).code == 0
    again = place.run(place.pipeline(web), spark=spark)
    assert again.code == 0, again.err
    refused(place.run(place.pipeline(app), spark=spark), f"was [maps feed={place.input}/web]", "--changed-source copy")
    assert place.ids() == [1, 2]
    told = place.run(place.pipeline(app), "--changed-source", "copy", spark=spark)
    assert told.code == 0, told.err
    assert place.ids() == [1, 2, 13], "it goes on from the position of the other"


def newest_run(place: Place) -> Path:
    return max((place.storage / "rows" / "runs" / "copy").iterdir())


def test_a_batch_in_flight_of_a_source_with_maps_of_maps_runs_again(place: Place, spark: SparkSession) -> None:
    file = place.pipeline(MAPS.replace("FEED", "web"))
    (place.input / "web").write_text("1\n2\n")
    assert place.run(file, spark=spark).code == 0
    (place.input / "web").write_text("1\n2\n3\n")
    assert place.run(file, spark=spark).code == 0
    (newest_run(place) / "commits" / "1").unlink()  # as if its leader had died before Spark's note
    told = place.run(file, spark=spark)
    assert told.code == 0, told.err
    assert place.ids() == [1, 2, 3]
