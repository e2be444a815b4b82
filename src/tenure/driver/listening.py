"""The listeners of a pipeline, for as long as its queries run under a term.

Promise: a listener is called for the queries of the leader only, and once for each event, over any number of terms in
one process. It is not called for rehearsals. When the queries have ended, their last events are waited for, for up to
`LAST_EVENTS_S`; then the listener is removed. Not promised: events of a JVM that ended.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from tenure.clock import Clock
from tenure.errors import DriverDied
from tenure.spark.errors import SPARK_ERRORS, one_line

LAST_EVENTS_S: Final = 2.0

_OF_PYTHON: Final = ".PythonStreamingQueryListenerWrapper"
"""How the class ends that stands in the JVM for a listener in Python."""


@contextmanager
def listening(
    spark: SparkSession, listeners: Sequence[object], *, queries: Collection[str], clock: Clock
) -> Iterator[None]:
    """Call the listeners for the queries of these names that start in the block. Raises DriverDied: the JVM is gone."""
    added = [_OfQueries(listener, queries) for listener in listeners]
    try:
        for one in added:
            try:
                spark.streams.addListener(one)
            except SPARK_ERRORS as error:
                raise DriverDied(f"Spark's JVM does not answer: {one_line(error)}") from error
        yield
        for one in added:
            clock.wait(one.ended, timeout_s=LAST_EVENTS_S)
    finally:
        for one in added:
            with suppress(*SPARK_ERRORS):  # the JVM is gone
                spark.streams.removeListener(one)


def own_listeners(spark: SparkSession) -> int:
    """How many listeners in Python the session has."""
    found: Any = spark.streams._jsqm.listListeners()  # Scala's manager has it, PySpark's has not
    return sum(str(one.getClass().getName()).endswith(_OF_PYTHON) for one in found)


class _OfQueries(StreamingQueryListener):
    """Calls a listener for the queries of these names, from their start on."""

    def __init__(self, listener: Any, names: Collection[str]) -> None:
        self._listener = listener
        self._names = frozenset(names)
        self._lock = threading.Lock()  # guards _runs
        self._runs: set[str] = set()
        self.ended = threading.Event()
        """Set while no run of the queries lacks its last event."""
        self.ended.set()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - PySpark's name
        if event.name in self._names:
            with self._lock:
                self._runs.add(str(event.runId))
                self.ended.clear()
            self._listener.onQueryStarted(event)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - PySpark's name
        if self._is_ours(event.progress.runId):
            self._listener.onQueryProgress(event)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - PySpark's name
        if self._is_ours(event.runId):
            self._listener.onQueryIdle(event)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - PySpark's name
        if not self._is_ours(event.runId):
            return
        try:
            self._listener.onQueryTerminated(event)
        finally:
            with self._lock:
                self._runs.discard(str(event.runId))
                if not self._runs:
                    self.ended.set()

    def _is_ours(self, run: object) -> bool:
        with self._lock:
            return str(run) in self._runs
