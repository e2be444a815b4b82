"""What is told is why a leadership ended, not what came of its end: the look for planned inputs is interrupted when its
query is stopped, and said that it cannot be known whether they are there, in place of the query that had failed.

And nothing hides that a target may hold a short batch."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import Place

__all__ = ["place", "spark"]

TWO = """
import threading

begun = threading.Event()

def waits(rows, batch):
    begun.set()
    while True:
        rows.count()  # until the query is stopped

def fails(rows, batch):
    begun.wait()
    raise ValueError("it is the cause")

job.stream("first", source(job), sink=ForeachBatch(waits, idempotent=True))
job.stream("second", source(job), sink=ForeachBatch(fails, idempotent=True))
"""
FAILS = """
def fails(rows, batch):
    raise ValueError("not yet")

job.stream("short", source(job), sink=ForeachBatch(fails, idempotent=True))
"""
IS_STOPPED = """
import os, signal

def waits(rows, batch):
    os.remove(job.params["input"] + "/000000.json")
    os.kill(os.getpid(), signal.SIGTERM)
    while not job.spark._jvm.java.lang.Thread.interrupted():
        pass  # until the query is stopped

job.stream("short", source(job), sink=ForeachBatch(waits, idempotent=True))
"""


def test_the_query_that_failed_first(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    told = place.run(place.pipeline(TWO), spark=spark)
    assert told.code == 8, told.err
    assert re.fullmatch(r"query 'second' failed: .*ValueError: it is the cause; see \S+", told.error)


def test_a_short_batch_of_a_leader_that_is_asked_to_end(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    assert place.run(place.pipeline(FAILS), spark=spark).code == 8
    told = place.run(place.pipeline(IS_STOPPED), spark=spark)
    assert told.code == 5, told.err
    assert "its function was called while they went, so the target may hold a short batch" in told.error
