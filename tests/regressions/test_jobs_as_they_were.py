"""A job of plain Spark becomes a pipeline with the function that it had, and with what stands at the top level of its
file. A column or a function there ended the run (exit code 7, "AssertionError"); `batch_id % 2` was a TypeError; and a
listener that the pipeline's function adds heard each event twice, on standbys too."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import COPY, Place
from tests.kit.members import MAIN

__all__ = ["place", "spark"]

JOB = """
import tenure
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.streaming import StreamingQueryListener
from tenure.sinks import ForeachBatch

with open({log!r}, "a") as lines:
    print("the file begins", file=lines)

spark = SparkSession.builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
DOUBLED = F.col("id") * 2


@F.udf("long")
def with_one(number):
    return number + 1


class Lines(StreamingQueryListener):
    def note(self, line):
        with open({log!r}, "a") as lines:
            print(line, file=lines)

    def onQueryStarted(self, event):
        self.note(f"started {{event.name}}")

    def onQueryProgress(self, event):
        if event.progress.numInputRows:
            self.note(f"batch {{event.progress.batchId}}")

    def onQueryTerminated(self, event):
        self.note("ended")


def put(rows, batch_id):
    kind = "even" if batch_id % 2 == 0 else "odd"
    shown = rows.withColumn("batch", F.lit(batch_id)).withColumn("kind", F.lit(kind))
    shown.write.mode("overwrite").option("txnVersion", batch_id).json(f"{output}/{{batch_id}}")


@tenure.pipeline
def rows(job):
    assert spark is SparkSession.getActiveSession() and job.spark is spark, "the member's own session"
    assert spark.sparkContext.appName.startswith("tenure-job-"), "started with the member's settings"
    job.listener(Lines())
    rows = job.spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(job.params["input"])
    rows = rows.select("id", DOUBLED.alias("doubled"), with_one("id").alias("one"))
    job.stream("rows", rows, sink=ForeachBatch(put, idempotent=True))
"""


def test_a_job_with_its_columns_functions_and_listener(place: Place) -> None:
    for number in (4, 5):
        place.feed(number)
    log, output = place.folder / "log", place.folder / "put"
    file = place.folder / "job.py"
    file.write_text(JOB.format(log=str(log), output=output))
    words = ["run", str(file), *place.flags(), "--until-idle", "--standby", "cold"]
    environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_SUBMIT_ARGS"}
    done = subprocess.run([*MAIN, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    lines = log.read_text().splitlines()
    assert lines == ["the file begins", "the file begins", "started rows", "batch 0", "batch 1", "ended"]
    for batch, kind in enumerate(["even", "odd"]):
        (part,) = (output / str(batch)).glob("part-*")
        number = 4 + batch
        assert json.loads(part.read_text()) == {
            "id": number,
            "doubled": 2 * number,
            "one": number + 1,
            "batch": batch,
            "kind": kind,
        }


LISTENER = """
from pyspark.sql.streaming import StreamingQueryListener
class Mine(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event): pass
    def onQueryTerminated(self, event): pass
mine = Mine()
"""


def test_a_listener_that_the_function_adds_is_refused(place: Place, spark: SparkSession) -> None:
    body = f"{LISTENER}{COPY}\njob.spark.streams.addListener(mine)\nimport builtins; builtins.mine = mine"
    try:
        told = place.run(place.pipeline(body), spark=spark)
    finally:
        import builtins

        spark.streams.removeListener(builtins.mine)  # type: ignore[attr-defined] # the pipeline sets it
    assert told.code == 7
    assert "declare it with job.listener(...) instead of spark.streams.addListener(...)" in told.error


@pytest.mark.parametrize("what", ["None", "Mine", "print"])
def test_what_is_no_listener_is_refused(place: Place, spark: SparkSession, what: str) -> None:
    told = place.run(place.pipeline(f"{LISTENER}job.listener({what})\n{COPY}"), spark=spark)
    assert told.code == 2
    assert "is not a listener; give an object of a class that extends StreamingQueryListener" in told.error


def test_a_file_with_another_error_is_not_loaded_twice(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text(f"print('loaded', file=open({str(tmp_path / 'log')!r}, 'a'))\nassert 1 == 2\n")
    words = ["run", str(file), "--store", f"sqlite://{tmp_path}/ha.db", "--storage", f"file://{tmp_path}/storage"]
    done = subprocess.run([*MAIN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert f"{file}:2: AssertionError" in done.stderr
    assert (tmp_path / "log").read_text() == "loaded\n"
