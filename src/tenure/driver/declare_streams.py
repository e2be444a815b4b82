"""Lets a pipeline declare its streams, checks them before a term is spent on them, and reads their triggers and stall
timeouts.

Promise: no query is started. A query that the pipeline starts by itself is stopped, and is an error. So is a listener
that it adds to the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tenure.driver.listening import own_listeners
from tenure.errors import PipelineFileError, SourceUnavailable, TenureError, UsageError
from tenure.pipelines.loading import where
from tenure.pipelines.pipeline import Job, Pipeline, Stream
from tenure.sinks.sink import Calls, ChecksRows
from tenure.spark.connectors import missing_connector
from tenure.spark.errors import SPARK_ERRORS, does_not_answer, one_line, words_of
from tenure.spark.evaluations import differences
from tenure.spark.source_plans import sources_of
from tenure.spark.submit import RETAINED, check_setting


def declare(spark: SparkSession, pipeline: Pipeline, *, file: str, params: Mapping[str, str]) -> Job:
    """The streams of the pipeline that was loaded from `file`. Raises PipelineFileError, UsageError;
    SourceUnavailable: its function reads from something that does not answer."""
    job = Job(spark, params)
    before = {query.id for query in spark.streams.active}  # a rehearsal may still be stopping
    try:
        pipeline.declare(job)
    except TenureError:
        raise
    except (Exception, SystemExit) as error:  # user code and Spark's analysis of it: reported in one line
        kind = SourceUnavailable if does_not_answer(error) else PipelineFileError
        raise kind(f"{where(error, file)}: {one_line(error)}", fix=missing_connector(words_of(error))) from error
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
    if own_listeners(spark):
        raise PipelineFileError(
            f"pipeline {pipeline.name!r} adds a listener to the session, which would hear each event twice, and those "
            "of rehearsals",
            fix="declare it with job.listener(...) instead of spark.streams.addListener(...)",
        )
    if not job.streams:
        raise PipelineFileError(f"pipeline {pipeline.name!r} declares no stream", fix="call job.stream(...)")
    for stream in job.streams:
        _check_trigger(stream)
        _check_evaluations(stream)
        if isinstance(stream.sink, ChecksRows):
            stream.sink.check_rows(stream.rows)
        # Checked again: the value may come from spark-defaults.conf, a file of properties, or the pipeline's function.
        check_setting(RETAINED, str(stream.rows.sparkSession.conf.get(RETAINED)))
    return job


def with_sources(stream: Stream) -> Stream:
    """The stream with its sources, from Spark's plan. Raises PipelineFileError: Spark cannot plan it."""
    try:
        return replace(stream, sources=sources_of(stream.rows))
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineFileError(
            f"stream {stream.name!r}: Spark does not name its sources: {one_line(error)}"
        ) from error


def _check_trigger(stream: Stream) -> None:
    """Let Spark parse the trigger. Raises UsageError."""
    try:
        with_trigger(stream.rows.writeStream, stream.trigger)
    except SPARK_ERRORS as error:
        raise UsageError(
            f"trigger {stream.trigger!r} of stream {stream.name!r} is refused by Spark: {one_line(error)}",
            fix="use an interval such as '1 second', or 'available now'",
        ) from error


def _check_evaluations(stream: Stream) -> None:
    """Check that a second evaluation of a batch computes the same as the first. In complete mode each batch replaces
    the output by the state, so that they never part. Raises PipelineFileError."""
    if stream.output_mode == "complete":
        return
    try:
        found = [one for one in differences(stream.rows) if one.name not in stream.may_differ]
    except SPARK_ERRORS as error:
        raise PipelineFileError(f"stream {stream.name!r}: Spark makes no plan of it: {one_line(error)}") from error
    if not found:
        return
    names = sorted({one.name for one in found})
    clock = "take current_timestamp(), the batch's own time, or " if "now" in names else ""
    allow = ", ".join(f'"{name}"' for name in (stream.name, *names))
    told = ", ".join(one.told for one in found)
    raise PipelineFileError(
        f"query {stream.name!r} keeps state and is not deterministic: {told} may differ when a takeover runs a batch "
        "again whose output is there, and output and state would differ from then on",
        fix=f"{clock}compute it before the stream, or allow it by job.may_differ({allow})",
    )


def with_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """`writer` with the declared trigger; None: Spark's default."""
    if trigger is None:
        return writer
    if is_available_now(trigger):
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def is_available_now(trigger: str | None) -> bool:
    """Whether a query with this trigger ends by itself."""
    return trigger is not None and trigger.strip().lower().replace("-", " ") == "available now"


def may_run_without_data(rows: DataFrame) -> bool:
    """Whether Spark may run batches of this query that have no new data."""
    return str(rows.sparkSession.conf.get("spark.sql.streaming.noDataMicroBatches.enabled", "true")).lower() == "true"


def call_of(query: str) -> str:
    """The name of the call of a query's function."""
    return f"{query} (its function)"


def limits_of(streams: Sequence[Stream]) -> Mapping[str, float]:
    """The stall timeouts of queries, and of the calls of their functions, in seconds."""
    limits = {}
    for stream in streams:
        if stream.stall_timeout is not None:
            limits[stream.name] = stream.stall_timeout.total_seconds()
        if isinstance(stream.sink, Calls) and stream.sink.timeout is not None:
            limits[call_of(stream.name)] = stream.sink.timeout.total_seconds()
    return limits
