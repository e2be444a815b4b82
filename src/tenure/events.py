"""The kinds of events: what logs, metrics and displays read. An event carries its own line for people, and its metrics.

Promise: as `event.py` says, whose names are here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import ClassVar, Final

from tenure.event import Event, Events, Once, Subscriber, event_from_data, event_to_data
from tenure.metric import Kind, Metric

__all__ = ["Event", "Events", "Once", "Subscriber", "event_from_data", "event_to_data"]
"""The names of `event.py`. Who imports a kind of event imports them from here, too."""

_OF_QUERY: Final = {"query": "query"}
_ORPHANS: Final = ("orphans", "Orphans of dead leaders and members that are not removed yet")
_LEADER_GAVE_UP: Final = (Metric("away", "Times that a leader gave up because this was away", labels={"what": "what"}),)


class DriverStarted(Event, line="member {member} waits for Spark to start"):
    """The agent started a driver process: the leader `pid` of a process group that includes its JVM."""

    member: str
    pid: int
    waits = True


class DriverEnded(Event, line="driver of member {member} is replaced in {again_s:g} s: {why}"):
    level = "warning"
    member: str
    why: str
    again_s: float
    metrics = (Metric("driver_restarts", "Drivers that ended by themselves, and were replaced"),)


class Away(Event):
    """Something does not answer a member, which tries again `again_s` seconds later."""

    level = "warning"
    member: str
    why: str
    again_s: float
    what: ClassVar[str]


class StoreAway(Away, line="member {member} tries the store again in {again_s:g} s: {why}"):
    """The store refuses service to a member that is not leading."""

    what = "store"
    metrics = (Metric("store_failures", "Times that the store was away"),)


class StoreBack(Event, line="the store answers member {member} again, after {away_s:g} s"):
    member: str
    away_s: float


class DriverSilent(Event, line="the driver of member {member} gives no sign of life, for {silent_s:g} s now"):
    """Emitted once a silence. The driver is killed after `driver_silence`."""

    level = "warning"
    member: str
    silent_s: float


class RunEnded(Event):
    """The run of a member ends with an error. `error`: the line that the command prints. `exit_code`: of the
    command."""

    level = "error"
    member: str
    exit_code: int
    error: str


class SourceAway(Away, line="member {member} tries its sources again in {again_s:g} s: {why}"):
    what = "source"
    metrics = _LEADER_GAVE_UP


class SinkAway(Away, line="member {member} tries its sinks again in {again_s:g} s: {why}"):
    """A sink of the leader, or what its batch reads, does not answer."""

    query: str
    what = "sink"
    metrics = _LEADER_GAVE_UP


class StorageAway(Away, line="member {member} tries its storage again in {again_s:g} s: {why}"):
    what = "storage"
    metrics = _LEADER_GAVE_UP


class RecordSkipped(Event, line="{why}; it is skipped"):
    """A record of a member or of a request does not decode and is skipped. Each member emits this once for a record."""

    level = "warning"
    record: str
    why: str


class JvmStarted(Event):
    """The driver of a member has a JVM. `java`: its version, such as 17.0.15."""

    member: str
    java: str


class MemberReady(Event, line="member {member} is ready, standing by"):
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
    waits = True

    def line(self) -> str:
        who = f"{self.leader} leads (epoch {self.epoch})" if self.leader else "nobody leads"
        cause = f": {self.why}" if self.why else ""
        return f"member {self.member} waits for the leadership: {who}{', and the scope is paused' * self.paused}{cause}"


class LocalFilesSlow(Event, line="member {member} starts a process for each local file of Spark: {why}"):
    """The driver's JVM starts a process for each file that it creates on a local disk. `why` nothing avoids that."""

    level = "warning"
    member: str
    why: str


class TablesNotKept(Event, line="member {member} copies a state from the storage at each start of a query: {why}"):
    """The driver's JVM keeps no tables of states on its disk: it copies them from the storage at each start. `why`."""

    level = "warning"
    member: str
    why: str


class StandbyWarm(Event, line="member {member} is warm after {seconds:.0f} s of rehearsals"):
    """The member has rehearsed every query: the code that its first batch as a leader needs is in memory."""

    member: str
    seconds: float


class RehearsalFailed(Event, line="query {query} was not rehearsed: {why}"):
    level = "warning"
    query: str
    why: str


class DeclarationChanged(Event, line="the pipeline differs from its last leader's: {what}"):
    """A leader runs other streams or queries than the last leader, and has recorded that. `what`: the differences."""

    epoch: int
    what: str


class FlagsNotNeeded(Event, line="{flags}: not needed, and would allow the next change as well: leave it out"):
    level = "warning"
    flags: str


class TableShared(Event, line="query {query} begins in a table with other writers: {by}"):
    """A query that has planned nothing yet writes to a table that other writers, `by`, have written to."""

    level = "warning"
    query: str
    by: str


class MirrorFailed(Event, line="query {query} is not mirrored: {why}"):
    """A standby could not go on mirroring a query, and begins again. Emitted once for each reason."""

    level = "warning"
    query: str
    why: str


class SnapshotNotMade(Event, line="a takeover of query {query} replays its last changes: {why}"):
    """A standby could not make a snapshot of a state that is in changelogs only."""

    level = "warning"
    query: str
    why: str


class TermWon(Event, line="member {member} leads, epoch {epoch}"):
    member: str
    epoch: int
    metrics = (Metric("terms_won", "Terms won"),)


class TermEnded(Event):
    """The term is over for the member. `why`: the reason of its resignation, with `detail`; or how the member learned
    of the end."""

    member: str
    epoch: int
    why: str
    detail: str = ""
    metrics = (Metric("terms_ended", "Terms that ended", labels={"why": "why"}),)

    def line(self) -> str:
        return f"term {self.epoch} is over: {self.why}{self.detail and ': '}{self.detail}"


class OfBatch(Event):
    """An event about one batch."""

    epoch: int
    query: str
    batch: int


class RunDirectorySeeded(OfBatch):
    """The run directory of a takeover is complete. `files`: how many it copied; `mirrored`: the mirror had the rest."""

    files: int
    seconds: float
    mirrored: bool = False
    metrics = (
        Metric("seed_duration_seconds", "How long run directories took to fill", "seconds", _OF_QUERY, Kind.HISTOGRAM),
    )

    def line(self) -> str:
        seed = f"{self.files} files" + (" and a mirror" if self.mirrored else "")
        return f"query {self.query} goes on at batch {self.batch} ({seed}, {self.seconds:.2f} s)"


class BatchRetaken(OfBatch):
    """This term has taken over the checkpoint of a batch that an earlier term planned. `done`: an overtaken leader had
    finished the batch, and the query goes on after it; else the batch runs again."""

    done: bool


class QueryStarted(Event, line="query {query} started in {run_directory}"):
    epoch: int
    query: str
    run_directory: str


class QueryStartedAgain(Event, line="query {query} is started again, by the same driver: {why}"):
    """A query ended before its first batch, as a Python process of Spark's was not up in time."""

    level = "warning"
    epoch: int
    query: str
    why: str


class BatchStarted(OfBatch):
    """The stream was called with the batch."""


class CheckpointSaved(OfBatch):
    """Batch `batch` is planned: its checkpoint is committed in the store."""

    seconds: float
    metrics = (Metric("plan_duration_seconds", "How long plans of batches took", "seconds", _OF_QUERY, Kind.HISTOGRAM),)


class BatchCommitted(OfBatch):
    """The sink has the batch. `repeated`: the sink had the batch already, and nothing was written."""

    repeated: bool
    seconds: float
    metrics = (
        Metric("batches_committed", "Batches that a sink took", labels=_OF_QUERY),
        Metric("last_batch", "Number of the newest batch", "batch", _OF_QUERY, Kind.GAUGE, of_term=True),
        Metric("batch_duration_seconds", "How long batches took", "seconds", _OF_QUERY, Kind.HISTOGRAM),
    )

    def line(self) -> str:
        again = " (the sink had it already)" if self.repeated else ""
        return f"query {self.query} batch {self.batch} committed in {self.seconds:.2f} s{again}"


class BatchMeasured(OfBatch):
    """Spark's figures of a batch that has ended, up to a second after its end. `state_rows` and `state_bytes` None: the
    query keeps no state. `watermark_lag_s` None: it has no watermark yet. `backlog`: source -> unit -> how much of it
    no batch has taken, where Spark knows it: each topic of Kafka by its name in `offsets`, a table of Delta in `files`
    and `bytes`. `at_limit`: a source of files gave `maxFilesPerTrigger` files, so more may wait."""

    rows: int
    rows_per_s: float
    state_rows: int | None = None
    state_bytes: int | None = None
    watermark_lag_s: float | None = None
    backlog: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    at_limit: bool = False
    metrics = (
        Metric("input_rows", "Rows that batches have read", "rows", _OF_QUERY),
        Metric("batches_at_limit", "Batches that took as many files as they may", "at_limit", _OF_QUERY),
        Metric("state_rows", "Rows of the states of a query", "state_rows", _OF_QUERY, Kind.GAUGE, True),
        Metric("state_bytes", "Bytes of the states of a query", "state_bytes", _OF_QUERY, Kind.GAUGE, True),
        Metric(
            "watermark_lag_seconds",
            "How far the watermark was behind the clock when the newest batch began",
            "watermark_lag_s",
            _OF_QUERY,
            Kind.GAUGE,
            True,
        ),
    )


class RecordsSkipped(
    OfBatch, line="query {query} batch {batch} lacks {offsets} offsets that Kafka has no more: {what}"
):
    """The sink has the batch, and `offsets` records that are planned for it are gone from Kafka; `what` names them. A
    record that went after it was read counts, too."""

    level = "warning"
    offsets: int
    what: str


class AttemptFailed(Event):
    """Batch `batch` of a query failed by itself, for the `attempt`-th time by this error (batch -1: before any batch;
    query empty: the pipeline's own function failed). A member tries again `again_s` seconds later."""

    level = "warning"
    member: str
    query: str
    batch: int
    error: str
    attempt: int
    again_s: float
    metrics = (Metric("batches_failed", "Batches that failed by themselves", labels=_OF_QUERY),)

    def line(self) -> str:
        what = f"query {self.query} batch {self.batch}" if self.query else "the pipeline's function"
        again = f", tried again in {self.again_s:g} s" if self.again_s else ""
        return f"{what} failed (attempt {self.attempt}){again}: {self.error}"


class ScopePaused(Event, line="paused by member {member} after the last attempt: {why}; see tenure resume"):
    """The last allowed attempt at a batch failed. No member is elected until an operator resumes the scope."""

    level = "error"
    member: str
    why: str


class WriteRefused(Event, line="refused by the {by}: {what} (epoch {epoch} is over)"):
    """A write of a term that is over was refused. `by`: `store` or `sink`; `what` names the write."""

    level = "warning"
    epoch: int
    by: str
    what: str
    metrics = (Metric("writes_refused", "Late writes that were refused", labels={"by": "by"}),)


class BlobLeft(Event, line="blob {address} stays for the sweep: {why}"):
    """A blob that is not needed could not be deleted, or must stay until the sweep decides."""

    level = "warning"
    address: str
    why: str


class PipelineEnded(Event):
    """The pipeline has ended for good, and its result is written. `clean`: everything but the result is removed."""

    ending: str
    epoch: int
    clean: bool

    def line(self) -> str:
        how_far = "nothing is left of it" if self.clean else "its remains are cleaned up now"
        return f"the pipeline has {self.ending} for good, epoch {self.epoch}: {how_far}"


class OrphansFound(Event):
    """A leader found `count` orphans of one kind (`row` of the cleanup's plan), and removes them beside its batches."""

    epoch: int
    row: str
    count: int
    metrics = (Metric(*_ORPHANS, "count", kind=Kind.GROWS, of_term=True),)


class Swept(Event):
    """A leader's sweep went through. `left` things could not be removed; `first` of them, with its reason, or empty."""

    epoch: int
    removed: int
    left: int
    first: str
    seconds: float
    metrics = (
        Metric("orphans_removed", "Orphans of dead leaders and members that were removed", "removed"),
        Metric(*_ORPHANS, "left", kind=Kind.GAUGE, of_term=True),
    )

    def line(self) -> str:
        return f"swept orphans {_removed(self)}"


class CleanupDelayed(Event, line="cleanup: {left} left, tried again in {again_s:g} s; the first: {first}"):
    level = "warning"
    left: int
    first: str
    again_s: float


class CleanupEnded(Event):
    """A cleanup went through, or the policy gave up. `left`, `first`: as `Swept` has them."""

    removed: int
    left: int
    first: str
    seconds: float

    def line(self) -> str:
        return f"cleaned up {_removed(self)}"


def _removed(event: CleanupEnded | Swept) -> str:
    left = f"; {event.left} left, the first: {event.first}" if event.left else ""
    return f"in {event.seconds:.1f} s: {event.removed} removed{left}"
