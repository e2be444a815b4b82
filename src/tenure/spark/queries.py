"""The queries that run under one term, and what Spark's errors say.

Promise: each query is watched by one thread, which ends with it. `stop_all` asks all of them at once, and says whether
they did.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.pipelines.lifecycle import Ended
from tenure.wording import sentence

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""What a call into the JVM can raise: Spark's own word, the gateway's, and a JVM that is gone."""

_LOOK_UP_S = 0.02
"""How long a lost term may go unnoticed by the waiting driver."""


def source_folders_of(query: StreamingQuery) -> tuple[str, ...]:
    """The folder below `sources/` of each line of the query's offsets: Spark numbers them by the first time that a
    source comes in the plan, and one that is read twice has two lines."""
    sources: Any = query._jsq.streamingQuery().sources()
    distinct: list[Any] = []
    folders = []
    for position in range(sources.size()):
        source = sources.apply(position)
        known = next((number for number, one in enumerate(distinct) if one.equals(source)), None)
        if known is None:
            known = len(distinct)
            distinct.append(source)
        folders.append(str(known))
    return tuple(folders)


class RunningQueries:
    """The queries of one term, each watched by one thread that ends with it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queries: dict[str, StreamingQuery] = {}
        self._lock = threading.Lock()  # guards the two below
        self._ended: set[str] = set()
        self.errors: dict[str, BaseException] = {}
        """The error of each query that ended with one, by name."""
        self._wake = threading.Event()

    def watch(self, query: StreamingQuery, *, until_idle: bool) -> None:
        """Notice when it ends; `until_idle`: when it has taken what its sources have."""
        name = str(query.name)
        self._queries[name] = query
        wait = query.processAllAvailable if until_idle else query.awaitTermination
        threading.Thread(target=self._until_ended, args=(name, wait), name=f"tenure-query-{name}", daemon=True).start()

    def wait(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """Wait until the term is lost, one of the two is set, a query failed, or all have ended."""
        while True:
            if term.lost:
                return Ended.LOST
            with self._lock:
                failed, done = bool(self.errors), len(self._ended) == len(self._queries)
            # Asked before failures: a signal to the whole group ends the JVM too, and that is no failure.
            if stop.is_set() or finish.is_set():
                return Ended.STOPPED
            if failed:
                return Ended.FAILED
            if done:
                return Ended.IDLE
            self._clock.wait(self._wake, timeout_s=_LOOK_UP_S)
            self._wake.clear()

    def stop_all(self, *, patience: timedelta) -> bool:
        """Ask every query to stop, at once; return whether all did in time. `StreamingQuery.stop` can hang."""
        threads = [
            threading.Thread(target=self._stop, args=(name, query), daemon=True)
            for name, query in self._queries.items()
        ]
        end_s = self._clock.monotonic_s() + patience.total_seconds()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=max(0.0, end_s - self._clock.monotonic_s()))
        return not any(thread.is_alive() for thread in threads)

    def _stop(self, name: str, query: StreamingQuery) -> None:
        try:
            query.stop()
        except SPARK_ERRORS as error:  # a query that failed says so again when it is stopped
            with self._lock:
                self.errors.setdefault(name, error)

    def _until_ended(self, name: str, wait: Callable[[], object]) -> None:
        try:
            wait()
        except SPARK_ERRORS as error:  # what ended the query is told by the driver, in its own thread
            with self._lock:
                self.errors[name] = error
        finally:
            with self._lock:
                self._ended.add(name)
            self._wake.set()


def one_line(error: BaseException) -> str:
    """The sentence that matters of a Spark or Python error."""
    said = sentence(words_of(error))
    if said and isinstance(error, (PySparkException, Py4JJavaError)):
        return said
    return ": ".join(filter(None, (type(error).__name__, said)))


def words_of(error: BaseException) -> str:
    """What an error says, with a JVM that answers or without: to tell more, PySpark's and py4j's errors ask it, and
    then fail themselves, or add a stack that nobody has asked for."""
    said = getattr(error, "_desc", None) if isinstance(error, PySparkException) else None
    if isinstance(said, str):
        return said
    try:
        return str(error)
    except (Py4JError, OSError):
        return str(getattr(error, "errmsg", ""))
