"""Which of our errors an error of a query is, in one line."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tenure.driver.session import jvm_exit_code
from tenure.errors import BatchMayBeShort, DriverDied, QueryFailed, StorageError, TenureError, TermLost
from tenure.link.driver_folder import full_disk_fix
from tenure.spark.errors import one_line, words_of


class Ending(Protocol):
    """What is asked of a stream whose query has ended."""

    failure: BaseException | None
    """What ended the query, when it was raised on our side of Spark; None: nothing was."""

    @property
    def name(self) -> str:
        """The query's name."""
        ...


def short_batch(streams: Iterable[Ending]) -> BatchMayBeShort | None:
    """That a target may hold a short batch, whatever else there is to tell; None: nothing says so."""
    said = (stream.failure for stream in streams)
    return next((one for one in said if isinstance(one, BatchMayBeShort)), None)


def why_ended(
    streams: Sequence[Ending],
    errors: Mapping[str, BaseException],
    failed: Collection[str],
    *,
    spark: SparkSession | None,
    log: str,
) -> TenureError:
    """The reason why a leadership failed. `errors`: what each query ended with. `failed`: the streams that had ended
    before the others were stopped; what those say came of that, but for a term that is over."""
    for stream in streams:
        if isinstance(stream.failure, TermLost):
            return stream.failure
    causes = [stream for stream in streams if stream.name in failed]
    for stream in causes:
        if isinstance(stream.failure, TenureError):
            return stream.failure
    for stream in causes:
        error = errors.get(stream.name)
        if (why := stream.failure or error) is not None:
            ended = told(stream.name, why, spark=spark, log=log)
            ended.__cause__ = error
            return ended
    return ended_unasked([stream.name for stream in causes], spark=spark, log=log)


def told(query: str, error: BaseException, *, spark: SparkSession | None, log: str) -> TenureError:
    """What ended a query. `spark`: its session, None: it is over. `log`: the file with the words of its JVM."""
    line = one_line(error)
    if (room := full_disk_fix(words_of(error))) is not None:
        return StorageError(f"query {query!r}: {line}", fix=room)
    if any(isinstance(one, (Py4JError, OSError)) for one in _chain(error)):
        ended = how_jvm_ended(spark)
        if ended is not None:
            return DriverDied(ended, fix=f"see {log}")
    return QueryFailed(f"query {query!r} failed: {line}", fix=f"see {log}")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came of: pyspark raises some of its own in place of what the gateway has said."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def ended_unasked(queries: Sequence[str], *, spark: SparkSession | None, log: str) -> TenureError:
    """Queries have ended without an error, and nobody here has stopped them."""
    if (ended := how_jvm_ended(spark)) is not None:
        return DriverDied(ended, fix=f"see {log}")
    names = ", ".join(map(repr, queries))
    return QueryFailed(f"query {names} was stopped, and not by Tenure", fix=f"see who stops it, and {log}")


def how_jvm_ended(spark: SparkSession | None) -> str | None:
    """None: it runs, or is not ours. Its connections break a little before it has ended."""
    ended = None if spark is None else jvm_exit_code(spark, patience_s=2)
    return None if ended is None else f"Spark's JVM ended with exit code {ended}"
