"""Turns the end of a query into the error that the member raises, in one line.

Promise: the member tries a query again that has committed batches before, but for errors on which a retry changes
nothing: those of data that is gone or damaged (`Corrupt`), of the store, of a lost term, and of a driver that died. The
error of a query that has never committed a batch is raised as it is: the address of its sink may be wrong. Not that of
its run directory, once a batch has begun there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tenure.driver.stream import FencedStream
from tenure.errors import (
    BatchFailed,
    BatchMayBeShort,
    Corrupt,
    DriverDied,
    InputsGone,
    OwnerMismatch,
    QueryFailed,
    SinkUnavailable,
    SourceUnavailable,
    StorageError,
    StorageUnavailable,
    StoreError,
    TenureError,
    TermLost,
)
from tenure.inputs.kafka_records import LOSS, TOLERATE
from tenure.link.driver_folder import full_disk_fix
from tenure.spark.connectors import missing_connector
from tenure.spark.errors import causes_of, does_not_answer, is_late_worker, one_line, words_of
from tenure.spark.session import jvm_exit_code

_REASON: Final = re.compile(r"Reason: (.+?)\.?(?: SQLSTATE.*)?$", flags=re.MULTILINE)
"""Of Spark's refusal to read on."""

_FILE: Final = re.compile(r"[Ee]ncountered error while reading file (\S+?)\.?(?:\s|\Z)")
"""In the words of Spark, whose innermost cause does not name the file."""

_SILENCE: Final = (
    "org.apache.kafka.common.errors.TimeoutException",
    "java.util.concurrent.TimeoutException: Cannot fetch record",
    "org.apache.kafka.common.errors.DisconnectException",
    "Failed to create new KafkaAdminClient",  # the names of the brokers are not resolved
)
"""In the errors of a query whose broker did not answer for as long as Spark waits."""


def short_batch(streams: Iterable[FencedStream]) -> BatchMayBeShort | None:
    """The error that a target may hold a short batch, which goes before all others; None: no stream failed so."""
    return next((stream.failure for stream in streams if isinstance(stream.failure, BatchMayBeShort)), None)


def why_ended(
    streams: Sequence[FencedStream],
    errors: Mapping[str, BaseException],
    failed: Collection[str],
    *,
    spark: SparkSession | None,
    log: str,
) -> TenureError:
    """Why a leadership failed. `errors`: query -> its error. `failed`: the queries that had ended before the others
    were stopped; errors of the others result from the stop, except for TermLost."""
    for stream in streams:
        if isinstance(stream.failure, TermLost):
            return stream.failure
    causes = [stream for stream in streams if stream.name in failed]
    for stream in causes:
        if isinstance(stream.failure, TenureError):
            return judged(stream, stream.failure)
    for stream in causes:
        error = errors.get(stream.name)
        if (why := stream.failure or error) is not None:
            failure = source_error(stream, why) or query_error(stream.name, why, spark=spark, log=log)
            failure.__cause__ = error or why
            return judged(stream, failure)
    return ended_unasked([stream.name for stream in causes], spark=spark, log=log)


_AS_IT_IS: Final = (Corrupt, OwnerMismatch, StoreError, TermLost, DriverDied)
"""Errors that are not tried again, or that the member handles by other rules."""


def judged(stream: FencedStream, error: TenureError) -> TenureError:
    """The error of a query that ended. Its class says whether the member tries again; see above."""
    error.of_query(stream.name, stream.newest)
    if isinstance(error, (*_AS_IT_IS, SourceUnavailable, SinkUnavailable)):
        return error
    kind: type[TenureError] = BatchFailed
    if isinstance(error, StorageError):
        kind = StorageUnavailable
    elif does_not_answer(error):
        kind = StorageUnavailable if stream.failure is None else SinkUnavailable
    storage_worked = kind is StorageUnavailable and stream.failure is None and stream.newest >= 0
    if not (stream.has_done or storage_worked):
        return error
    known = kind(error.what, fix=error.fix).of_query(error.query, error.batch)
    known.__cause__ = error
    return known


def declared_before(error: BaseException) -> TenureError:
    """The error of a pipeline's function that has declared its streams before: what it reads has changed."""
    if isinstance(error, SourceUnavailable):
        return error
    words = error.what if isinstance(error, TenureError) else one_line(error)
    return BatchFailed(words, fix=error.fix if isinstance(error, TenureError) else None)


def source_error(stream: FencedStream, error: BaseException) -> TenureError | None:
    """The error of a query whose source failed, as ours; None: another error. A source that does not answer is worth
    another try only where the query has read before: else its address may be wrong."""
    words = words_of(error)
    if LOSS in words:
        reason = _REASON.search(words)
        return InputsGone(
            f"query {stream.name!r}: records are gone from Kafka: {reason[1] if reason else one_line(error)}",
            fix=TOLERATE,
        )
    if stream.has_read and any(sign in words for sign in _SILENCE):
        return SourceUnavailable(f"query {stream.name!r}: a source does not answer: {one_line(error)}")
    return None


def query_error(query: str, error: BaseException, *, spark: SparkSession | None, log: str) -> TenureError:
    """The error of a query as ours. `spark`: its session; None: the session is over. `log`: the log file of its JVM."""
    line = one_line(error)
    if (file := _FILE.search(words_of(error))) is not None and file[1] not in line:
        line += f" (while reading file {file[1]})"
    if (fix := full_disk_fix(words_of(error))) is not None:
        return StorageError(f"query {query!r}: {line}", fix=fix)
    if is_late_worker(error):
        return DriverDied(f"query {query!r}: {line}", fix=f"the host may be short of cores or memory; see {log}")
    if (died := of_ended_jvm(error, spark=spark, log=log)) is not None:
        return died
    return QueryFailed(f"query {query!r} failed: {line}", fix=missing_connector(words_of(error)) or f"see {log}")


def of_ended_jvm(error: BaseException, *, spark: SparkSession | None, log: str) -> DriverDied | None:
    """The error of a JVM that has ended, where this error came of that. None: it came of something else."""
    if not any(isinstance(cause, (Py4JError, OSError)) for cause in causes_of(error)):
        return None
    ended = how_jvm_ended(spark)
    return None if ended is None else DriverDied(ended, fix=f"see {log}")


def ended_unasked(queries: Sequence[str], *, spark: SparkSession | None, log: str) -> TenureError:
    """The error for queries that ended without an error and were not stopped by Tenure."""
    if (ended := how_jvm_ended(spark)) is not None:
        return DriverDied(ended, fix=f"see {log}")
    names = ", ".join(map(repr, queries))
    return QueryFailed(f"query {names} was stopped, and not by Tenure", fix=f"see who stops it, and {log}")


def how_jvm_ended(spark: SparkSession | None) -> str | None:
    """How Spark's JVM ended; None: it runs, or this process did not start it. Waits up to 2 s, as the JVM's connections
    break a little before its end."""
    code = None if spark is None else jvm_exit_code(spark, patience_s=2)
    return None if code is None else f"Spark's JVM ended with exit code {code}"
