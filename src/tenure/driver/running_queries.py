"""The queries that run under one term.

Promise: each query is watched by one thread until it has stopped, however often it was idle: its error is known. All
are idle only where each is active, and idle, in one and the same look. `stop_all` asks all of them at once, and says
whether they did.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from pyspark.sql.streaming.query import StreamingQuery

from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.link.lifecycle import Ended
from tenure.spark.errors import SPARK_ERRORS

_LOOK_UP_S = 0.02
"""How long a lost term may go unnoticed by the waiting driver."""


class Watched(Protocol):
    """What is asked of a stream whose query runs."""

    @property
    def name(self) -> str:
        """The query's name."""
        ...

    @property
    def ends_by_itself(self) -> bool:
        """Whether the query ends when it has taken what its sources had at its start."""
        ...

    @property
    def resting(self) -> int | None:
        """How many batches have begun; None: one is being written."""
        ...

    @property
    def refused(self) -> bool:
        """Whether the query was ended by us, as it wanted to begin another batch after the last one."""
        ...


class RunningQueries:
    """The queries of one term, each watched by one thread that ends with it, and by one more that looks for idleness
    where they are to end then."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queries: dict[str, StreamingQuery] = {}
        self._watched: dict[str, Watched] = {}
        self._gone: dict[str, threading.Event] = {}  # set when the query has ended
        self._lock = threading.Lock()  # guards the three below
        self._ended: set[str] = set()
        self._idle: dict[str, int] = {}  # how many batches had begun when the query was found idle
        self.errors: dict[str, BaseException] = {}
        """The error of each query that ended with one, by name."""
        self._wake = threading.Event()

    def watch(self, query: StreamingQuery, stream: Watched, *, until_idle: bool) -> None:
        """Notice when it ends; `until_idle`: also when it has taken what its sources have."""
        name = stream.name
        self._queries[name], self._watched[name], self._gone[name] = query, stream, threading.Event()
        threading.Thread(target=self._until_ended, args=(name, query), name=f"tenure-query-{name}", daemon=True).start()
        if until_idle and not stream.ends_by_itself:
            look = threading.Thread(
                target=self._until_idle, args=(name, query, stream), name=f"tenure-idle-{name}", daemon=True
            )
            look.start()

    def wait(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        """Wait until the term is lost, one of the two is set, a query failed, or all are idle or at their own end."""
        while True:
            if term.lost:
                return Ended.LOST
            # Asked before failures: a signal to the whole group ends the JVM too, and that is no failure.
            if stop.is_set() or finish.is_set():
                return Ended.STOPPED
            if self.failed:
                return Ended.FAILED
            if self._all_idle():
                return Ended.IDLE
            self._clock.wait(self._wake, timeout_s=_LOOK_UP_S)
            self._wake.clear()

    @property
    def failed(self) -> Sequence[str]:
        """The queries that have ended though neither they nor we were to end them, with an error or without one."""
        with self._lock:
            ended, errors = set(self._ended), set(self.errors)
        return [
            name
            for name, stream in self._watched.items()
            if not stream.refused and (name in errors or (name in ended and not stream.ends_by_itself))
        ]

    def _all_idle(self) -> bool:
        """Whether, now, each query is idle, or ended as it was to."""
        with self._lock:
            ended, idle = set(self._ended), dict(self._idle)
        rest = [name for name, stream in self._watched.items() if not (stream.ends_by_itself and name in ended)]
        if not all(name in idle and self._watched[name].resting == idle[name] for name in rest):
            return False
        try:
            return all(self._queries[name].isActive for name in rest)  # else its error is about to be heard of
        except SPARK_ERRORS:
            return False  # the same

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

    def _until_idle(self, name: str, query: StreamingQuery, stream: Watched) -> None:
        """Note each time that it is idle: a query that is idle now may have work again before the others are."""
        while True:
            try:
                query.processAllAvailable()
            except SPARK_ERRORS:
                return  # the other thread hears of it
            resting = stream.resting
            with self._lock:
                if name in self._ended:
                    return
                if resting is not None:
                    self._idle[name] = resting
            self._wake.set()
            while resting is not None and stream.resting == resting:
                if self._clock.wait(self._gone[name], timeout_s=_LOOK_UP_S):
                    return

    def _until_ended(self, name: str, query: StreamingQuery) -> None:
        try:
            query.awaitTermination()
        except SPARK_ERRORS as error:  # what ended the query is told by the driver, in its own thread
            with self._lock:
                self.errors[name] = error
        finally:
            with self._lock:
                self._ended.add(name)
            self._gone[name].set()
            self._wake.set()
