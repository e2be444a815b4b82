"""Typed events: what logs, metrics and displays read.

Promise: an event is emitted after the thing that it names happened. A subscriber that raises is a bug of the
subscriber: the error reaches the emitter's thread. Events decide nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from tenure.clock import Clock


@dataclass(frozen=True, slots=True)
class Event:
    """Root of all events. `scope` is the pipeline's scope."""

    scope: str


@dataclass(frozen=True, slots=True)
class DriverStarted(Event):
    """The agent started a driver process: the leader `pid` of a process group that has its JVM as well."""

    member: str
    pid: int


@dataclass(frozen=True, slots=True)
class DriverEnded(Event):
    """The driver ended without having been told to. The agent starts another one `again_s` seconds later."""

    member: str
    why: str
    again_s: float


@dataclass(frozen=True, slots=True)
class StoreAway(Event):
    """The store refuses service to a member that is not leading. It tries again `again_s` seconds later."""

    member: str
    why: str
    again_s: float


@dataclass(frozen=True, slots=True)
class RecordSkipped(Event):
    """A record of a member or of a request does not decode. It is skipped, and nothing is done because of it. Said once
    by each member. `why` names it."""

    record: str
    why: str


@dataclass(frozen=True, slots=True)
class MemberReady(Event):
    """The member's driver is up and can lead."""

    member: str


@dataclass(frozen=True, slots=True)
class LocalFilesSlow(Event):
    """The driver's JVM starts a process for each file that it creates on a local disk: it could not be spared that."""

    member: str
    why: str


@dataclass(frozen=True, slots=True)
class StandbyWarm(Event):
    """The member has rehearsed every query: its first batch as a leader finds all that it needs in memory."""

    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RehearsalFailed(Event):
    """A standby could not rehearse the newest batch of a query. Its leader is not touched by that."""

    query: str
    why: str


@dataclass(frozen=True, slots=True)
class DeclarationChanged(Event):
    """A leader runs something else than the last one did, and has recorded that. `what`: what is different."""

    epoch: int
    what: str


@dataclass(frozen=True, slots=True)
class FlagsNotNeeded(Event):
    """A member was started with flags that allow what need not be allowed (any more)."""

    flags: str


@dataclass(frozen=True, slots=True)
class TableShared(Event):
    """A query that has planned nothing yet is to write to a table that others have written to. `by`: who."""

    query: str
    by: str


@dataclass(frozen=True, slots=True)
class MirrorFailed(Event):
    """A standby could not go on mirroring a query; it tries again, from the beginning. Said once for each reason."""

    query: str
    why: str


@dataclass(frozen=True, slots=True)
class TermWon(Event):
    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TermLost(Event):
    """The term is over for the member. `why`: the word that it resigned with, or how it learned of the end."""

    member: str
    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class RunDirectorySeeded(Event):
    """The run directory that a takeover goes on in is complete. `files`: how many the takeover brought; `mirrored`:
    the standby had brought the others."""

    epoch: int
    query: str
    batch: int
    files: int
    seconds: float
    mirrored: bool = False


@dataclass(frozen=True, slots=True)
class BatchRetaken(Event):
    """The checkpoint of a batch that an earlier term planned is this term's now. `done`: an overtaken leader had
    finished it, and it is gone on after it; else it is run again."""

    epoch: int
    query: str
    batch: int
    done: bool


@dataclass(frozen=True, slots=True)
class QueryStarted(Event):
    epoch: int
    query: str
    run_directory: str


@dataclass(frozen=True, slots=True)
class BatchStarted(Event):
    epoch: int
    query: str
    batch: int


@dataclass(frozen=True, slots=True)
class CheckpointSaved(Event):
    """Batch `batch` is planned: its checkpoint is committed in the store."""

    epoch: int
    query: str
    batch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BatchCommitted(Event):
    """The sink has the batch. `repeated`: it had it already, and nothing was written."""

    epoch: int
    query: str
    batch: int
    repeated: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class WriteRefused(Event):
    """A write of a term that is over was refused. `by`: `store` or `sink`; `what` names the write."""

    epoch: int
    by: str
    what: str


@dataclass(frozen=True, slots=True)
class BlobLeft(Event):
    """A blob that should go could not be deleted, or must stay until the sweep decides."""

    address: str
    why: str


@dataclass(frozen=True, slots=True)
class PipelineEnded(Event):
    """The pipeline has ended for good: its result is written, and nothing of it will be run again. `clean`: nothing is
    left of it but that."""

    ending: str
    epoch: int
    clean: bool


@dataclass(frozen=True, slots=True)
class OrphansFound(Event):
    """A leader found so many things of one kind (a row of the cleanup's plan) that nobody needs, and removes them
    now, beside its batches."""

    epoch: int
    row: str
    count: int


@dataclass(frozen=True, slots=True)
class Swept(Event):
    """A leader's sweep went through. `left`: what could not be removed, and is tried again; `first`: one of that, with
    its reason; empty: nothing is."""

    epoch: int
    removed: int
    left: int
    first: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CleanupDelayed(Event):
    """Something that a pipeline left could not be removed. It is tried again `again_s` seconds later. `first`: one of
    the `left`, with its reason."""

    left: int
    first: str
    again_s: float


@dataclass(frozen=True, slots=True)
class CleanupEnded(Event):
    """A cleanup went through, or the policy gave up. `first`: one of the `left`, with its reason; empty: none
    is."""

    removed: int
    left: int
    first: str
    seconds: float


def event_to_data(event: Event) -> dict[str, Any]:
    """The event as data: its kind under `event`, and its fields."""
    return {"event": type(event).__name__, **asdict(event)}


def event_from_data(data: Mapping[str, Any]) -> Event:
    """The event that `event_to_data` described. Raises ValueError."""
    kind = globals().get(data.get("event", ""))
    if not (isinstance(kind, type) and issubclass(kind, Event)):
        raise ValueError(f"no event is called {data.get('event')!r}")
    found: Event = kind(**{name: value for name, value in data.items() if name != "event"})
    return found


Subscriber = Callable[[Event], None]


class Events:
    """Hands each event to every subscriber, in the emitter's thread, in the order of emission a thread."""

    nobody: ClassVar[Events]

    def __init__(self, *subscribers: Subscriber) -> None:
        self._subscribers = subscribers

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)


Events.nobody = Events()


class JsonLines:
    """A subscriber that appends each event to a file as one JSON line, by one write."""

    def __init__(self, path: str, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        fields = event_to_data(event)
        line = {"event": fields.pop("event"), "at": self._clock.now().isoformat(), **fields}
        with self._lock, open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
