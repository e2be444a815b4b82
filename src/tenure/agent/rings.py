"""The newest events and batches of a member, for people who ask it later.

Promise: the memory is bounded: 2,000 events, 3,600 batches. Each event has a number, one more each time, and a reader
asks for higher numbers than the last that it has. A batch has a line when the sink has it, and a second line with the
figures of Spark, up to a second later; both have its query, its number and its epoch. Thread-safe. Not promised: that
nothing falls out between two questions; the first number of an answer shows it. The rings end with the agent, and the
record of the term stays.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tenure.clock import Clock, timestamp
from tenure.events import BatchCommitted, BatchMeasured, BatchStarted, Event, OfBatch, TermEnded, TermWon, event_to_data

EVENTS: Final = 2000
BATCHES: Final = 3600

_OF_BATCH: Final = (BatchCommitted, BatchMeasured)


class Rings:
    """A subscriber."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards all below
        self._number = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._batches: deque[dict[str, Any]] = deque(maxlen=len(_OF_BATCH) * BATCHES)
        self._epoch: int | None = None  # of the present term; None: there is none
        self._queries: dict[str, dict[str, Any]] = {}
        self._listeners: list[Callable[[], None]] = []

    def __call__(self, event: Event) -> None:
        """Keep one event."""
        data = {"at": timestamp(self._clock), **event_to_data(event)}
        with self._lock:
            self._number += 1
            self._events.append({"number": self._number, **data})
            if isinstance(event, _OF_BATCH):
                named = {name: value for name, value in data.items() if name not in ("event", "scope")}
                self._batches.append({"number": self._number, **named})
            if isinstance(event, TermWon | TermEnded):
                self._epoch, self._queries = event.epoch if isinstance(event, TermWon) else None, {}
            if isinstance(event, OfBatch) and event.epoch == self._epoch:
                self._note(event, data)
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call `listener` after each event, for as long as the block lasts. It returns at once, and raises nothing."""
        with self._lock:
            self._listeners.append(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    @property
    def newest(self) -> int:
        """The number of the newest event; 0: there was none."""
        with self._lock:
            return self._number

    def _note(self, event: OfBatch, data: Mapping[str, Any]) -> None:
        query = self._queries.setdefault(event.query, {})
        match event:
            case BatchStarted():
                query["running"], query["running_since"] = event.batch, data["at"]
            case BatchCommitted():
                query["running"] = query["running_since"] = None
                query["batch"], query["committed_at"], query["seconds"] = event.batch, data["at"], event.seconds
            case BatchMeasured():
                known = ("event", "scope", "epoch", "query", "batch", "at")
                query.update({name: value for name, value in data.items() if name not in known})

    def events(self, *, after: int = 0) -> Sequence[dict[str, Any]]:
        """The events with higher numbers, oldest first."""
        with self._lock:
            return [event for event in self._events if event["number"] > after]

    def batches(self, *, after: int = 0) -> Sequence[dict[str, Any]]:
        """The lines of batches with higher numbers, oldest first."""
        with self._lock:
            return [batch for batch in self._batches if batch["number"] > after]

    def queries(self) -> dict[str, dict[str, Any]]:
        """Query of the present term -> its newest batches and figures; none, where the member does not lead."""
        with self._lock:
            return {query: dict(figures) for query, figures in self._queries.items()}
