"""The queries that run under one term, and how they come to rest.

Promise: one thread watches each query until its end, however often the query is idle, so its error is known. The
queries are idle only when each has looked for work after the last batch of each, since one may read what another
writes, and found none; and from then on none of them begins a batch. `stop_all` asks all of them at once, and returns
whether they stopped.

A query that ended may be started again, while the driver waits: by the thread that stops the queries later, so that
none starts after the stop.

`finish_batches` lets each query finish its batch and begin no other. It returns IDLE only when each stream is between
two batches, none has failed, and Spark has noted the last batch of each as done. There is no time limit while the term
is held and no other end is asked for: a hung query passes the stall timeout of its stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Final

from pyspark.sql.streaming.query import StreamingQuery

from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.driver.stream import FencedStream
from tenure.link.driver import Ended
from tenure.spark.errors import SPARK_ERRORS

_LOOK_UP_S = 0.02
"""How long a lost term may go unnoticed by the waiting driver."""


Counts = Mapping[str, int | None]
"""Query -> how many batches of it have begun; None: a batch is being written."""

StartAgain = Callable[[FencedStream, BaseException], StreamingQuery | None]
"""Stream, and the error that ended its query -> the query that runs now; None: it has failed."""


class RunningQueries:
    """The queries of one term. A thread watches each until its end; where the run ends at idleness, a second thread
    watches for that."""

    def __init__(self, clock: Clock, *, until_idle: bool) -> None:
        """`until_idle`: watch for the idleness of the queries, too."""
        self._clock = clock
        self._idles = until_idle
        self._queries: dict[str, StreamingQuery] = {}
        self._watched: dict[str, FencedStream] = {}
        self._gone: dict[str, threading.Event] = {}  # set when the query has ended
        self._lock = threading.Lock()  # guards the three below
        self._ended: set[str] = set()
        self._idle: dict[str, Counts] = {}  # of all queries, before the look in which the query found no work
        self.errors: dict[str, BaseException] = {}
        """Query -> the error that ended it."""
        self._wake = threading.Event()

    def watch(self, query: StreamingQuery, stream: FencedStream) -> None:
        """Watch for the query's end. An earlier query of the stream has ended, and is forgotten."""
        name = stream.name
        with self._lock:
            self._queries[name], self._watched[name], self._gone[name] = query, stream, threading.Event()
            self._ended.discard(name)
            self._idle.pop(name, None)
            self.errors.pop(name, None)
        threading.Thread(target=self._until_ended, args=(name, query), name=f"tenure-query-{name}", daemon=True).start()
        if self._idles and not stream.ends_by_itself:
            look = threading.Thread(
                target=self._until_idle, args=(name, query, stream), name=f"tenure-idle-{name}", daemon=True
            )
            look.start()

    def wait(self, term: Term, *, stop: threading.Event, finish: threading.Event, start_again: StartAgain) -> Ended:
        """Wait for an end: LOST; STOPPED: `stop` or `finish` is set; FAILED: a query has failed, and is not started
        again; IDLE: all queries are idle, or have ended by themselves as declared, and begin no further batch. Raises
        what `start_again` raises."""
        while True:
            if term.lost:
                return Ended.LOST
            # Checked before failures: a signal to the whole group ends the JVM, too, and that is no failure.
            if stop.is_set() or finish.is_set():
                return Ended.STOPPED
            if not all(self._run_again(name, start_again) for name in self.failed):
                return Ended.FAILED
            if self._finished_idle():
                return Ended.IDLE
            self._clock.wait(self._wake, timeout_s=_LOOK_UP_S)
            self._wake.clear()

    def _run_again(self, name: str, start_again: StartAgain) -> bool:
        with self._lock:
            error = self.errors.get(name)
        stream = self._watched[name]
        query = None if error is None else start_again(stream, error)
        if query is not None:
            self.watch(query, stream)
        return query is not None

    @property
    def failed(self) -> Sequence[str]:
        """The queries that have ended, with an error or without, though neither their trigger nor Tenure ended them."""
        with self._lock:
            ended, errors = set(self._ended), set(self.errors)
        return [
            name
            for name, stream in self._watched.items()
            if not stream.refused and (name in errors or (name in ended and not stream.ends_by_itself))
        ]

    def _finished_idle(self) -> bool:
        """Finish the queries if each is idle now, or has ended by itself as declared; False: nothing was changed."""
        with self._lock:
            ended, idle = set(self._ended), dict(self._idle)
        counts = self._counts()
        rest = [name for name, stream in self._watched.items() if not (stream.ends_by_itself and name in ended)]
        if not all(idle.get(name) == counts for name in rest):
            return False
        try:
            are_active = all(self._queries[name].isActive for name in rest)  # else its error arrives soon
        except SPARK_ERRORS:
            return False  # as above
        return are_active and _finish_at(counts, list(self._watched.values()))

    def _counts(self) -> Counts:
        with self._lock:
            watched = dict(self._watched)
        return {name: stream.resting for name, stream in watched.items()}

    def stop_all(self, *, patience: timedelta) -> bool:
        """Ask all queries to stop at once. Return whether all did in time: `StreamingQuery.stop` can hang."""
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
        except SPARK_ERRORS as error:  # the stop of a failed query raises its error again
            with self._lock:
                self.errors.setdefault(name, error)

    def _until_idle(self, name: str, query: StreamingQuery, stream: FencedStream) -> None:
        """Note each idleness: a query that is idle now may have work again before the others are idle."""
        gone = self._gone[name]
        while True:
            before = self._counts()
            if any(count is None for other, count in before.items() if other != name):
                if self._clock.wait(gone, timeout_s=_LOOK_UP_S):  # its output may be work for this query
                    return
                continue
            try:
                query.processAllAvailable()
            except SPARK_ERRORS:
                return  # the thread in `_until_ended` notes it
            found = {**before, name: stream.resting}
            with self._lock:
                if name in self._ended or self._queries[name] is not query:
                    return
                if found[name] is not None:
                    self._idle[name] = found
            self._wake.set()
            while found[name] is not None and self._counts() == found:
                if self._clock.wait(gone, timeout_s=_LOOK_UP_S):
                    return

    def _until_ended(self, name: str, query: StreamingQuery) -> None:
        gone, error = self._gone[name], None
        try:
            query.awaitTermination()
        except SPARK_ERRORS as found:
            error = found  # the driver raises it, in its own thread
        finally:
            with self._lock:
                if error is not None:
                    self.errors[name] = error
                self._ended.add(name)
            gone.set()
            self._wake.set()


def _finish_at(counts: Counts, streams: Sequence[FencedStream]) -> bool:
    """Finish these streams, all at one moment; False: a stream has begun another batch, and nothing was changed."""
    with ExitStack() as turns:
        for stream in streams:
            turns.enter_context(stream.turn)
        if any(stream.resting != counts[stream.name] for stream in streams):
            return False
        for stream in streams:
            stream.finish()
    return True


LOOK_S: Final = 0.01

SETTLE_S: Final = 5.0
"""How long a waiting successor lets Spark note the last batches as done. After that the successor runs them again."""


def finish_batches(
    streams: Sequence[FencedStream],
    running: RunningQueries,
    term: Term,
    *,
    stop: threading.Event,
    finish: threading.Event,
    clock: Clock,
) -> Ended:
    """Let each stream finish its batch and begin no other. `finish`: set when a successor waits.

    Return IDLE, LOST, FAILED, or STOPPED: `stop` was set, or the successor waited for `SETTLE_S`. Raises StorageError.
    """
    for stream in streams:
        stream.finish()
    given_up_s: float | None = None  # None: no successor waits, or a batch goes on
    while True:
        if term.lost:
            return Ended.LOST
        if stop.is_set():
            return Ended.STOPPED
        failed = bool(running.failed) or any(stream.failure is not None for stream in streams)
        if failed and not finish.is_set():  # with `finish` set, the other streams may end their batches
            return Ended.FAILED
        if not any(stream.resting is None for stream in streams):
            if all(stream.last_is_done for stream in streams):
                return Ended.FAILED if failed else Ended.IDLE
            now_s = clock.monotonic_s()
            if given_up_s is None and finish.is_set():
                given_up_s = now_s + SETTLE_S
            if given_up_s is not None and now_s >= given_up_s:
                return Ended.FAILED if failed else Ended.STOPPED
        clock.wait(stop, timeout_s=LOOK_S)
