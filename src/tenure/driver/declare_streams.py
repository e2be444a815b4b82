"""Lets a pipeline declare its streams, and checks them before a term is spent on them.

Promise: no query is started. A query that the pipeline starts by itself is stopped, and is an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from tenure.driver.triggers import with_trigger
from tenure.errors import PipelineFileError, TenureError, UsageError
from tenure.link.submit import RETAINED, check_setting
from tenure.pipelines.loading import where
from tenure.pipelines.pipeline import Job, Pipeline, Stream
from tenure.spark.errors import SPARK_ERRORS, one_line


def declare(spark: SparkSession, pipeline: Pipeline, *, file: str, params: Mapping[str, str]) -> Job:
    """The streams of the pipeline that was loaded from `file`. Raises PipelineFileError, UsageError."""
    job = Job(spark, params)
    before = {query.id for query in spark.streams.active}  # a rehearsal may still be stopping
    try:
        pipeline.declare(job)
    except TenureError:
        raise
    except (Exception, SystemExit) as error:  # user code and Spark's analysis of it: reported in one line
        raise PipelineFileError(f"{where(error, file)}: {one_line(error)}") from error
    started = [query for query in spark.streams.active if query.id not in before]
    if started:
        running = [str(query.name or query.id) for query in started]
        for query in started:
            query.stop()
        raise PipelineFileError(
            f"pipeline {pipeline.name!r} starts {len(running)} queries by itself ({', '.join(running)}), "
            "outside of the fence",
            fix="declare them with job.stream(...) instead of writeStream.start()",
        )
    if not job.streams:
        raise PipelineFileError(f"pipeline {pipeline.name!r} declares no stream", fix="call job.stream(...)")
    for stream in job.streams:
        _check_trigger(stream)
        # Checked again: the value may come from spark-defaults.conf, a file of properties, or the pipeline's function.
        check_setting(RETAINED, str(stream.rows.sparkSession.conf.get(RETAINED)))
    return job


def _check_trigger(stream: Stream) -> None:
    """Let Spark parse the trigger. Raises UsageError."""
    try:
        with_trigger(stream.rows.writeStream, stream.trigger)
    except SPARK_ERRORS as error:
        raise UsageError(
            f"trigger {stream.trigger!r} of stream {stream.name!r} is refused by Spark: {one_line(error)}",
            fix="use an interval such as '1 second', or 'available now'",
        ) from error
