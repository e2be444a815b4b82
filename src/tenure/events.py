"""Typed events: what logs, metrics and displays read.

Promise: an event is emitted after the fact that it names. The error of a subscriber is a bug of the subscriber, and
reaches the emitter's thread. No text of an event has a password. Events decide nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, dataclass_transform

from tenure.clock import Clock
from tenure.wording import masked


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Event:
    """Root of all events. `scope` is the pipeline's scope. Each kind of event is a frozen dataclass."""

    scope: str

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for field in fields(self):
            text = getattr(self, field.name)
            if isinstance(text, str) and (shown := masked(text)) != text:
                object.__setattr__(self, field.name, shown)  # as the constructor of a frozen dataclass does


class DriverStarted(Event):
    """The agent started a driver process: the leader `pid` of a process group that includes its JVM."""

    member: str
    pid: int


class DriverEnded(Event):
    """The driver ended without an order. The agent starts another driver `again_s` seconds later."""

    member: str
    why: str
    again_s: float


class StoreAway(Event):
    """The store refuses service to a member that is not leading. The member tries again `again_s` seconds later."""

    member: str
    why: str
    again_s: float


class RecordSkipped(Event):
    """A record of a member or of a request does not decode and is skipped. Each member emits this once for a record."""

    record: str
    why: str


class MemberReady(Event):
    """The member's driver is up and can lead."""

    member: str


class LeadershipAwaited(Event):
    """A member stands by while `leader` leads its term `epoch` (empty and 0: nobody leads, because the scope is
    `paused`; `why`: by a failure). Emitted in each session once for each leader, and for each begin and end of a
    pause."""

    member: str
    leader: str
    epoch: int
    paused: bool
    why: str = ""


class LocalFilesSlow(Event):
    """The driver's JVM starts a process for each file that it creates on a local disk. `why` nothing avoids that."""

    member: str
    why: str


class TablesNotKept(Event):
    """The driver's JVM keeps no tables of states on its disk: it copies them from the storage at each start. `why`."""

    member: str
    why: str


class StandbyWarm(Event):
    """The member has rehearsed every query: the code that its first batch as a leader needs is in memory."""

    member: str
    seconds: float


class RehearsalFailed(Event):
    """A standby could not rehearse the newest batch of a query. The leader is not affected."""

    query: str
    why: str


class DeclarationChanged(Event):
    """A leader runs other streams or queries than the last leader, and has recorded that. `what`: the differences."""

    epoch: int
    what: str


class FlagsNotNeeded(Event):
    """A member was started with flags that nothing needs (any more)."""

    flags: str


class TableShared(Event):
    """A query that has planned nothing yet writes to a table that other writers, `by`, have written to."""

    query: str
    by: str


class MirrorFailed(Event):
    """A standby could not go on mirroring a query, and begins again. Emitted once for each reason."""

    query: str
    why: str


class SnapshotNotMade(Event):
    """A standby could not make a snapshot of a state that is in changelogs only: a takeover replays them."""

    query: str
    why: str


class TermWon(Event):
    member: str
    epoch: int


class TermLost(Event):
    """The term is over for the member. `why`: the reason of its resignation, or how the member learned of the end."""

    member: str
    epoch: int
    why: str


class RunDirectorySeeded(Event):
    """The run directory of a takeover is complete. `files`: how many it copied; `mirrored`: the mirror had the rest."""

    epoch: int
    query: str
    batch: int
    files: int
    seconds: float
    mirrored: bool = False


class BatchRetaken(Event):
    """This term has taken over the checkpoint of a batch that an earlier term planned. `done`: an overtaken leader had
    finished the batch, and the query goes on after it; else the batch runs again."""

    epoch: int
    query: str
    batch: int
    done: bool


class QueryStarted(Event):
    epoch: int
    query: str
    run_directory: str


class BatchStarted(Event):
    epoch: int
    query: str
    batch: int


class CheckpointSaved(Event):
    """Batch `batch` is planned: its checkpoint is committed in the store."""

    epoch: int
    query: str
    batch: int
    seconds: float


class BatchCommitted(Event):
    """The sink has the batch. `repeated`: the sink had the batch already, and nothing was written."""

    epoch: int
    query: str
    batch: int
    repeated: bool
    seconds: float


class RecordsSkipped(Event):
    """The sink has the batch, and `offsets` records that are planned for it are gone from Kafka; `what` names them. A
    record that went after it was read counts, too."""

    epoch: int
    query: str
    batch: int
    offsets: int
    what: str


class SourceAway(Event):
    """A source of the leader does not answer. The member stands by again `again_s` seconds later."""

    member: str
    why: str
    again_s: float


class SinkAway(Event):
    """A sink of the leader, or what its batch reads, does not answer. A member tries again `again_s` seconds later."""

    member: str
    query: str
    why: str
    again_s: float


class StorageAway(Event):
    """The storage does not answer, or fails. A member tries again `again_s` seconds later."""

    member: str
    why: str
    again_s: float


class QueryFailed(Event):
    """Batch `batch` of a query failed by itself, for the `attempt`-th time by this error (batch -1: before any batch;
    query empty: the pipeline's own function failed). A member tries again `again_s` seconds later."""

    member: str
    query: str
    batch: int
    error: str
    attempt: int
    again_s: float


class ScopePaused(Event):
    """The last allowed attempt at a batch failed. No member is elected until an operator resumes the scope."""

    member: str
    why: str


class WriteRefused(Event):
    """A write of a term that is over was refused. `by`: `store` or `sink`; `what` names the write."""

    epoch: int
    by: str
    what: str


class BlobLeft(Event):
    """A blob that is not needed could not be deleted, or must stay until the sweep decides."""

    address: str
    why: str


class PipelineEnded(Event):
    """The pipeline has ended for good, and its result is written. `clean`: everything but the result is removed."""

    ending: str
    epoch: int
    clean: bool


class OrphansFound(Event):
    """A leader found `count` orphans of one kind (`row` of the cleanup's plan), and removes them beside its batches."""

    epoch: int
    row: str
    count: int


class Swept(Event):
    """A leader's sweep went through. `left` things could not be removed; `first` of them, with its reason, or empty."""

    epoch: int
    removed: int
    left: int
    first: str
    seconds: float


class CleanupDelayed(Event):
    """A cleanup could not remove `left` things (`first`, with its reason), and tries again `again_s` seconds later."""

    left: int
    first: str
    again_s: float


class CleanupEnded(Event):
    """A cleanup went through, or the policy gave up. `left`, `first`: as `Swept` has them."""

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
    """Hands each event to every subscriber, in the emitter's thread. The events of a thread stay in order."""

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
