"""Which of our errors an error of a query is: a JVM that has ended is no fault of the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkValueError
from pyspark.sql import SparkSession

from tenure.driver import failures
from tenure.errors import (
    BatchFailed,
    BatchMayBeShort,
    CorruptCheckpoint,
    DriverDied,
    InputsGone,
    OutcomeUnknown,
    OwnerMismatch,
    PipelineFileError,
    QueryFailed,
    SinkUnavailable,
    SourceUnavailable,
    StorageError,
    StorageUnavailable,
    StoreUnavailable,
    TenureError,
    TermLost,
    UsageError,
    error_from_data,
    error_to_data,
)

SPARK = cast(SparkSession, object())


def raised(*, cause: BaseException | None = None, context: BaseException | None = None) -> BaseException:
    """What pyspark raises in place of another error, or while it handles one."""
    error = PySparkValueError("Unable to parse datatype: calling o7.schema")
    error.__context__ = context
    if cause is not None:
        error.__cause__ = cause  # hides the context
    return error


def told(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, code: int | None) -> TenureError:
    def exit_code(spark: Any, *, patience_s: float) -> int | None:
        return code

    monkeypatch.setattr(failures, "jvm_exit_code", exit_code)
    return failures.query_error("q", error, spark=SPARK, log="spark.log")


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("no answer"),
        ConnectionRefusedError(111, "refused"),
        raised(cause=Py4JNetworkError("no answer")),
        raised(context=raised(cause=ConnectionRefusedError(111, "refused"))),
    ],
)
def test_what_came_of_a_jvm_that_has_ended(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    died = told(monkeypatch, error, code=-9)
    assert isinstance(died, DriverDied)
    assert "Spark's JVM ended with exit code -9" in str(died)
    assert isinstance(told(monkeypatch, error, code=None), QueryFailed)


def test_an_error_before_the_queries_may_be_that_of_a_jvm_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "jvm_exit_code", lambda spark, *, patience_s: -9)
    wrapped = QueryFailed("Spark does not take Tenure's classes")
    assert failures.of_ended_jvm(wrapped, spark=SPARK, log="spark.log") is None
    wrapped.__cause__ = Py4JNetworkError("no answer")
    assert isinstance(failures.of_ended_jvm(wrapped, spark=SPARK, log="spark.log"), DriverDied)


def test_what_came_of_nothing_else_is_the_query_s_own(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = raised(context=Py4JNetworkError("no answer"))
    hidden.__suppress_context__ = True
    for error in (raised(), hidden, ValueError("7")):
        assert isinstance(told(monkeypatch, error, code=-9), QueryFailed)


def test_a_python_worker_that_was_not_up_in_time_is_no_error_of_the_query(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is busy for some seconds ended a pipeline for good: `query 'counts' failed`, exit code 8."""
    died = told(monkeypatch, ValueError("Python worker failed to connect back. SQLSTATE: XXKST"), code=None)
    assert isinstance(died, DriverDied)
    assert "query 'q': ValueError: Python worker failed to connect back" in str(died)


def test_a_file_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator takes the file out of the batch by its name; the innermost cause had none."""
    words = (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/d%20e.json. SQLSTATE: KD001\n"
        "\tat org.a.B.c(B.java:1)\nCaused by: com.fasterxml.jackson.core.io.JsonEOFException: Unexpected end-of-input"
    )
    line = str(told(monkeypatch, ValueError(words), code=None))
    assert "Unexpected end-of-input (while reading file file:///in/d%20e.json); see spark.log" in line


class Ended:
    """A stream whose query has ended."""

    newest = 7

    def __init__(
        self,
        name: str,
        failure: BaseException | None = None,
        *,
        has_read: bool = True,
        has_done: bool = False,
    ) -> None:
        self.has_read = has_read
        self.has_done = has_done
        self.name = name
        self.failure = failure


def why(*streams: Ended, failed: Sequence[str], errors: Mapping[str, BaseException] | None = None) -> TenureError:
    return failures.why_ended(cast(Any, streams), errors or {}, failed, spark=None, log="spark.log")


INTERRUPTED = StorageError("it cannot be known: java.lang.InterruptedException")


def test_what_ended_before_the_others_were_stopped_is_the_reason() -> None:
    gone, lost = InputsGone("inputs are gone"), TermLost(scope="s", epoch=3)
    assert why(Ended("a", INTERRUPTED), Ended("b", gone), failed=["b"]) is gone
    assert "ValueError: 7" in str(why(Ended("a", INTERRUPTED), Ended("b", ValueError("7")), failed=["b"]))
    mine = why(Ended("a", INTERRUPTED), Ended("b"), failed=["b"], errors={"b": ValueError("7")})
    assert "query 'b' failed: ValueError: 7" in str(mine)
    assert "query 'b' was stopped, and not by Tenure" in str(why(Ended("a", INTERRUPTED), Ended("b"), failed=["b"]))
    # Of several, our own words say more than Spark's.
    assert why(Ended("a", ValueError("7")), Ended("b", gone), failed=["a", "b"]) is gone
    # A term that is over is one, whoever heard of it, and when.
    assert why(Ended("a", gone), Ended("b", lost), failed=["a"]) is lost


GONE = """[STREAM_FAILED] Query [id = 4, runId = 5] terminated with exception: Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Added partition a-2 starts from 4 instead of 0. SQLSTATE: XXKST"""  # noqa: E501 - Spark's words
SILENT = "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: listNodes"


def test_records_that_spark_itself_misses_are_gone() -> None:
    gone = why(Ended("a", ValueError(GONE)), failed=["a"])
    assert isinstance(gone, InputsGone)
    assert str(gone) == (
        "query 'a': records are gone from Kafka: Added partition a-2 starts from 4 instead of 0; "
        "to go on without them, set the option failOnDataLoss of the source to false, and start again"
    )


def test_a_source_that_does_not_answer_is_tried_again_only_where_it_was_read_before() -> None:
    assert isinstance(why(Ended("a", ValueError(SILENT)), failed=["a"]), SourceUnavailable)
    never = why(Ended("a", ValueError(SILENT), has_read=False), failed=["a"])
    assert type(never) is QueryFailed


def test_a_short_batch_is_one_whoever_ended_first() -> None:
    short = BatchMayBeShort("inputs are gone")
    others = [Ended("a"), Ended("b", TermLost(scope="s", epoch=3)), Ended("c", InputsGone("inputs are gone"))]
    assert failures.short_batch(cast(Any, others)) is None
    assert failures.short_batch(cast(Any, [*others, Ended("d", short)])) is short


# --- worth another try ------------------------------------------------------------------------------------------

NODE = (
    "java.io.IOException: x\nCaused by: java.net.ConnectException: Connection refused\n\tat java.base/a.B.c(B.java:1)"
)
BUSY = "org.apache.hadoop.fs.s3a.AWSServiceIOException: Service: S3, Status Code: 503, Request ID: 7: SlowDown"


@pytest.mark.parametrize(
    ("failure", "error", "kind"),
    [
        (ValueError("7"), None, BatchFailed),
        (QueryFailed("table raw refused a statement"), None, BatchFailed),
        (UsageError("table raw lacks column 'delay' of the rows"), None, BatchFailed),
        (SinkUnavailable("table raw: refused"), None, SinkUnavailable),
        (ConnectionRefusedError(111, "refused"), None, SinkUnavailable),
        (TimeoutError("the lookup service"), None, SinkUnavailable),
        (RuntimeError("HTTP Error 503: Service Unavailable"), None, SinkUnavailable),
        (QueryFailed("the commit failed: error sending request for url (http://s3)"), None, SinkUnavailable),
        (StorageError("blobs/7: no space"), None, StorageUnavailable),
        (None, ValueError(NODE), StorageUnavailable),
        (None, ValueError(BUSY), StorageUnavailable),
        (None, ValueError(SILENT), SourceUnavailable),
        (None, ValueError("[UNRESOLVED_COLUMN] delay"), BatchFailed),
        # Waiting changes nothing, or other rules know what to do.
        (InputsGone("inputs are gone"), None, InputsGone),
        (CorruptCheckpoint("no"), None, CorruptCheckpoint),
        (OwnerMismatch("another's"), None, OwnerMismatch),
        (StoreUnavailable("away"), None, StoreUnavailable),
        (OutcomeUnknown("who knows"), None, OutcomeUnknown),
        (DriverDied("it died"), None, DriverDied),
    ],
)
def test_what_is_tried_again_of_a_query_that_worked(
    failure: BaseException | None, error: BaseException | None, kind: type[TenureError]
) -> None:
    errors = {"a": error} if error is not None else {}
    found = why(Ended("a", failure, has_done=True), failed=["a"], errors=errors)
    assert type(found) is kind
    assert (found.query, found.batch) == ("a", 7)


@pytest.mark.parametrize("failure", [ValueError("7"), ConnectionRefusedError(111, "refused"), StorageError("no space")])
def test_a_query_that_never_worked_is_not_tried_again(failure: BaseException) -> None:
    found = why(Ended("a", failure), failed=["a"])
    assert type(found) in (QueryFailed, StorageError)
    assert found.query == "a", "so the storage of another query does not speak for this"


@pytest.mark.parametrize(("newest", "kind"), [(-1, StorageError), (0, StorageUnavailable)])
def test_a_run_directory_with_a_batch_is_tried_again_though_the_sink_never_worked(
    newest: int, kind: type[TenureError]
) -> None:
    """The error of a takeover, and of Spark itself: no sink has any part in it. Batch 0 may have all that there is."""
    stream = Ended("a")
    stream.newest = newest
    found = failures.judged(cast(Any, stream), StorageError("s3://bucket: 503"))
    assert (type(found), found.query) == (kind, "a")
    assert type(failures.judged(cast(Any, stream), QueryFailed("no luck"))) is QueryFailed


def test_an_error_keeps_its_query_between_the_processes() -> None:
    sent = error_to_data(BatchFailed("no luck", fix="see the log").of_query("raw", 0))
    came = error_from_data(sent)
    assert (type(came), str(came), came.query, came.batch) == (BatchFailed, "no luck; see the log", "raw", 0)


def test_a_function_that_has_declared_its_streams_before_is_tried_again() -> None:
    silent = SourceUnavailable("line 3: refused")
    assert failures.declared_before(silent) is silent
    again = failures.declared_before(PipelineFileError("line 3: no such file", fix="f"))
    assert (type(again), str(again), again.query) == (BatchFailed, "line 3: no such file; f", "")
