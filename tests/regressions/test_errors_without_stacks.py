"""An error is one line, and stacks are for logs: a damaged table's line had delta-rs' stack in it, that of a function
whose write failed only the name of a call, and that of a file which cites Java's words all frames of Java's."""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from tests.cli.conftest import place, spark
from tests.cli.support import COPY, Place, Told

__all__ = ["place", "spark"]

WRITE = """
def put(rows, batch):
    rows.write.parquet(job.params["input"] + "/000000.json/below")
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=True))
"""
CITE = """
def put(rows, batch):
    try:
        rows.write.parquet(job.params["input"] + "/000000.json/below")
    except Exception as error:
        raise RuntimeError(f"{error}")
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=True))
"""
AT_IMPORT = """
raise RuntimeError('An error occurred while calling o7.x.\\n: a.B: no luck\\n\\tat a.B.c(D.java:7)')
"""


def line_of(told: Told, *, code: int) -> str:
    assert told.code == code, told.err
    assert not re.search(r"\bat [\w.$/]+\(|<unknown>|\.(java|scala|rs|c):\d", told.err), told.err
    return told.error


def test_a_damaged_table(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    assert place.run(file, spark=spark).code == 0
    newest = max((place.output / "_delta_log").glob("*.json"))
    newest.write_text("{nope\n")
    place.feed(2)
    line = line_of(place.fail(file, spark=spark), code=8)
    assert "Json error: Encountered unexpected 'n' whilst parsing object" in line


def test_a_function_whose_write_fails(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    line = line_of(place.run(place.pipeline(WRITE), spark=spark), code=8)
    assert "ParentNotDirectoryException: Parent path is not a directory" in line


def test_a_function_that_cites_java(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    line = line_of(place.run(place.pipeline(CITE), spark=spark), code=8)
    assert "RuntimeError: org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is not a directory" in line


def test_a_file_that_cites_java(place: Place, spark: SparkSession) -> None:
    file = place.folder / "raises.py"
    file.write_text(AT_IMPORT)
    line = line_of(place.run(str(file), spark=spark), code=7)
    assert line == f"{file}:2: RuntimeError: a.B: no luck"
