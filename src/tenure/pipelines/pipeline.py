"""The declarations of a user: one pipeline a file, its streams and their sinks.

Promise: declaring starts nothing. A stream that Tenure could not keep right is refused here, in one line: its trigger
plans late, or its sink does not support the output mode.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, overload

from tenure.checkpoints.source import Source
from tenure.coordination.records import Scope
from tenure.durations import parse_duration
from tenure.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from tenure.sinks.sink import OutputMode, Sink

STREAM_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}\Z")
_SHORTEST_STALL = timedelta(seconds=15)  # Spark reports the progress of an idle query every 10 s
_LATE_PLANS = ("continuous", "real")
_MODES = ("append", "complete", "update")


class Params(dict[str, str]):
    """The `--param NAME=VALUE` of the run. `params[NAME]` of a parameter that was not given raises UsageError;
    `params.get(NAME, default)` gives the default."""

    def __missing__(self, name: str) -> str:
        raise UsageError(f"the pipeline asks for parameter {name!r}", fix=f"give --param {name}=...")


@dataclass(frozen=True, slots=True)
class Stream:
    """One query of a pipeline, as declared."""

    name: str
    rows: DataFrame
    sink: Sink
    output_mode: OutputMode
    trigger: str | None
    """An interval such as `1 second`, `available now`, or None: a batch starts as soon as the last is done."""
    stall_timeout: timedelta | None = None
    """How long the query may work without progress before its driver counts as hung; None: for ever."""
    may_differ: frozenset[str] = frozenset()
    """What a second evaluation of a batch may compute otherwise, by name, though the query keeps state."""
    sources: tuple[Source, ...] = ()
    """What the query reads, a source a line of Spark's offsets; empty: Spark's plan was not read."""


class Job:
    """The argument of a pipeline function: the session, the parameters, `stream` to declare streams, and `listener` to
    hear of their progress. Declaring starts nothing. The function is called on standbys, too, and again in each term.
    A test of a pipeline makes a job of its own: `Job(spark, {"input": "..."})`."""

    def __init__(self, spark: SparkSession, params: Mapping[str, str]) -> None:
        """`params`: name -> value, as `--param` gives them."""
        self.spark = spark
        """The session of the driver."""
        self.params = Params(params)
        """The values of `--param NAME=VALUE`. `params[NAME]` of a parameter that was not given raises UsageError."""
        self._streams: dict[str, Stream] = {}
        self._listeners: list[StreamingQueryListener] = []

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The declared streams, in order."""
        return tuple(self._streams.values())

    @property
    def listeners(self) -> tuple[StreamingQueryListener, ...]:
        """The declared listeners, in order."""
        return tuple(self._listeners)

    def listener(self, listener: StreamingQueryListener) -> None:
        """Declare a listener of the queries: it is called on the leader only, and once for each event. It is added
        when the queries start, and removed when they end. Raises UsageError."""
        calls = ("onQueryStarted", "onQueryProgress", "onQueryTerminated")
        if isinstance(listener, type) or not all(callable(getattr(listener, name, None)) for name in calls):
            raise UsageError(
                f"{listener!r} is not a listener", fix="give an object of a class that extends StreamingQueryListener"
            )
        if not any(one is listener for one in self._listeners):
            self._listeners.append(listener)

    def stream(
        self,
        name: str,
        rows: DataFrame,
        *,
        sink: Sink,
        output_mode: OutputMode = "append",
        trigger: str | None = None,
        stall_timeout: str | timedelta | None = None,
    ) -> None:
        """Declare a query: `rows` (a streaming DataFrame) into `sink`. The name is the query's identity in the store:
        a renamed query starts from nothing, and only if an operator allows that.

        `stall_timeout` (`10m`): a batch that works for longer without progress counts as hung, and the driver is killed
        and replaced. A query that waits for data does not count as hung. Raises UsageError.
        """
        if not STREAM_NAME.match(name):
            raise UsageError(f"stream name {name!r} is not a name", fix="use letters, digits, '_' and '-'")
        if name in self._streams:
            raise UsageError(f"stream {name!r} is declared twice", fix="give each stream a name of its own")
        if not rows.isStreaming:
            raise UsageError(f"the rows of stream {name!r} are not streaming", fix="start from spark.readStream")
        if not callable(getattr(sink, "check", None)):
            raise UsageError(f"sink {sink!r} of stream {name!r} is not a sink", fix="use one of tenure.sinks")
        if output_mode not in _MODES:
            raise UsageError(f"output mode {output_mode!r} of stream {name!r} is unknown", fix=f"use one of {_MODES}")
        if trigger is not None and trigger.strip().lower().startswith(_LATE_PLANS):
            raise UsageError(
                f"trigger {trigger!r} of stream {name!r} writes its offsets late, so no batch could be planned "
                "before its output",
                fix="use an interval such as '1 second', or 'available now'",
            )
        sink.check(output_mode=output_mode)
        self._streams[name] = Stream(name, rows, sink, output_mode, trigger, _stall_timeout(stall_timeout, stream=name))

    def may_differ(self, name: str, *values: str) -> None:
        """Allow by name what a second evaluation of a batch of a declared query may compute otherwise, though the query
        keeps state: `job.may_differ("totals", "rand", "tables")`.

        Such a query is refused otherwise. You answer for its rows: a takeover may run a batch again whose output the
        sink has, and output and state may differ from then on. Raises UsageError: no stream of this name is declared.
        """
        if name not in self._streams:
            raise UsageError(f"stream {name!r} is not declared", fix="call job.stream(...) before job.may_differ(...)")
        stream = self._streams[name]
        self._streams[name] = replace(stream, may_differ=stream.may_differ | frozenset(values))


def _stall_timeout(given: str | timedelta | None, *, stream: str) -> timedelta | None:
    try:
        timeout = None if given is None else parse_duration(given)
    except ValueError as error:
        raise UsageError(f"stall_timeout {given!r} of stream {stream!r} is not a duration", fix=str(error)) from error
    if timeout is not None and timeout < _SHORTEST_STALL:
        raise UsageError(
            f"stall_timeout {given!r} of stream {stream!r} is too short to tell a slow batch from a hung one",
            fix=f"give {_SHORTEST_STALL.total_seconds():g}s or more",
        )
    return timeout


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A named function that declares streams on a job: the result of `@tenure.pipeline`."""

    name: str
    """The pipeline's name; also its scope, unless `--scope` is set."""
    declare: Callable[[Job], None]
    """The function. A test may call it with a job of its own."""


@overload
def pipeline(declare: Callable[[Job], None], /) -> Pipeline: ...


@overload
def pipeline(*, name: str) -> Callable[[Callable[[Job], None]], Pipeline]: ...


def pipeline(
    declare: Callable[[Job], None] | None = None, /, *, name: str | None = None
) -> Pipeline | Callable[[Callable[[Job], None]], Pipeline]:
    """Make a function the pipeline of its file: `@tenure.pipeline(name="flights")`, or `@tenure.pipeline` for the
    function's own name. The pipeline's name is also its scope, unless `--scope` is set. Raises UsageError."""
    if declare is not None:
        if not callable(declare):
            raise UsageError(f"{declare!r} is not a function", fix='write @tenure.pipeline(name="...")')
        return Pipeline(name=Scope(declare.__name__), declare=declare)
    if not isinstance(name, str):
        raise UsageError(f"pipeline name {name!r} is not a string", fix='write @tenure.pipeline(name="...")')
    checked = Scope(name)
    return lambda declare: Pipeline(name=checked, declare=declare)
