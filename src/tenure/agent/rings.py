"""The newest events and batches of a member, for people who ask it later.

Promise: the memory is bounded: 2,000 events, 3,600 batches. Each event has a number, one more each time, and a reader
asks for higher numbers than the last that it has. Thread-safe. Not promised: that nothing falls out between two
questions; the first number of an answer shows it. The rings end with the agent, and the record of the term stays.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from tenure.clock import Clock, timestamp
from tenure.events import BatchCommitted, Event, event_to_data

EVENTS: Final = 2000
BATCHES: Final = 3600


class Rings:
    """A subscriber."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # guards the three below
        self._number = 0
        self._events: deque[dict[str, Any]] = deque(maxlen=EVENTS)
        self._batches: deque[dict[str, Any]] = deque(maxlen=BATCHES)

    def __call__(self, event: Event) -> None:
        """Keep one event."""
        data = {"at": timestamp(self._clock), **event_to_data(event)}
        with self._lock:
            self._number += 1
            self._events.append({"number": self._number, **data})
            if isinstance(event, BatchCommitted):
                named = ("at", "epoch", "query", "batch", "seconds", "repeated")
                self._batches.append({"number": self._number, **{name: data[name] for name in named}})

    def events(self, *, after: int = 0) -> Sequence[dict[str, Any]]:
        """The events with higher numbers, oldest first."""
        with self._lock:
            return [event for event in self._events if event["number"] > after]

    def batches(self, *, after: int = 0) -> Sequence[dict[str, Any]]:
        """The committed batches with higher numbers, oldest first."""
        with self._lock:
            return [batch for batch in self._batches if batch["number"] > after]
