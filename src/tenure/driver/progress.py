"""Asks Spark for the progress of a query, beside its batches.

Promise: nothing is asked in the thread of a batch. A look returns each batch once, also where several ended between two
looks, as far back as Spark remembers (`spark.sql.streaming.numRecentProgressUpdates`, 100). A look asks for the newest
progress, and for others only where there are others. Not promised: the batches of a JVM that is gone; whether a batch
took as many files as it may, where Spark has compacted its list of them, which it does every tenth time.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from pyspark.sql.streaming.query import StreamingQuery

from tenure.coordination.term import Term
from tenure.driver.progress_rules import Progress, entries, measured, news
from tenure.errors import StorageError
from tenure.events import BatchMeasured
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seed_logs import MissingFile
from tenure.spark.errors import SPARK_ERRORS
from tenure.spark.plans import file_limits_of

_LAST_S: Final = 2.0
"""How long the last look may take."""


class Measured(Protocol):
    """A query whose batches are measured."""

    def measure(self) -> None:
        """Emit the figures of the batches that ended. Raises Spark's own errors."""
        ...


class Measuring:
    """Measures queries on a thread of its own: a look may wait for the storage, and neither the signs of life of a
    driver nor the end of its term may. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _thread
        self._thread: threading.Thread | None = None  # None: there was no look yet

    def begin(self, queries: Sequence[Measured]) -> threading.Thread:
        """Look, unless a look goes on. Returns the thread of the look."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=_measure, args=(tuple(queries),), name="tenure-measure", daemon=True
                )
                self._thread.start()
            return self._thread

    def finish(self, queries: Sequence[Measured]) -> None:
        """Look for the last time, and wait a moment for that."""
        self.begin(queries).join(_LAST_S)  # it may have begun before the last batch ended
        self.begin(queries).join(_LAST_S)


def _measure(queries: Sequence[Measured]) -> None:
    with suppress(*SPARK_ERRORS):  # the JVM is gone, and the pulse and the end of the queries say so
        for query in queries:
            query.measure()


class ProgressReader:
    """The progress of one query under one term. Any thread may look."""

    def __init__(self, query: str, term: Term, *, directory: str) -> None:
        """`directory`: the run directory of the query."""
        self._name = query
        self._term = term
        self._directory = RunDirectory(directory)
        self._lock = threading.Lock()  # guards the two below
        self._looked = ""  # the time of the newest progress of the last look, as Spark writes it
        self._limits: Sequence[int | None] | None = None  # None: not asked yet

    def look(self, query: StreamingQuery) -> Sequence[BatchMeasured]:
        """The batches that ended since the last look, oldest first. Raises Spark's own errors."""
        with self._lock:
            found, self._looked = news(_newest_first(query), after=self._looked)
            if found and self._limits is None:
                self._limits = file_limits_of(query)
            limits = self._limits or ()
        return [
            measured(one, term=self._term, query=self._name, at_limit=self._took_all_it_may(one, limits))
            for one in found
        ]

    def _took_all_it_may(self, progress: Progress, limits: Sequence[int | None]) -> bool:
        return any(self._files(path) >= limit for path, limit in entries(progress, limits))

    def _files(self, path: str) -> int:
        """The files of an entry of a source's log; 0: nobody knows."""
        try:
            return self._directory.read_text(path).rstrip("\n").count("\n")
        except (MissingFile, StorageError):  # it is compacted; or the batches, which need the storage, tell it
            return 0


def _newest_first(query: StreamingQuery) -> Iterator[Progress]:
    last: Any = query._jsq.lastProgress()
    if last is None:
        return
    yield json.loads(last.json())
    recent: Any = query._jsq.recentProgress()
    for index in reversed(range(len(recent))):  # the newest comes twice
        yield json.loads(recent[index].json())
