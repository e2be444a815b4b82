"""A member looks at the records of its scope: orders of operators, the leader it waits for, records that do not decode,
checkpoints of a newer Spark.

Promise: a request is obeyed once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from tenure.checkpoints.store import newest_in
from tenure.coordination.candidates import (
    NOBODY,
    RESTARTS,
    SWITCHOVER,
    AskedBy,
    Pause,
    pause_in,
    read_restart,
    read_switchover,
    unread_in,
)
from tenure.coordination.encoding import decode
from tenure.coordination.records import Delete, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import LEADER
from tenure.coordination.terms import End
from tenure.declarations.declaration import Declaration, decode_declaration
from tenure.declarations.sparks import check_spark, epochs_of
from tenure.declarations.store import DECLARED
from tenure.errors import CorruptHandle, CorruptRecord, GuardFailed, OutcomeUnknown, StoreUnavailable
from tenure.events import LeadershipAwaited, RecordSkipped
from tenure.link.driver import AFTER, Ended
from tenure.results.result import Result, Stage
from tenure.results.store import result_in


class Restarts:
    """The requests to replace a member's driver. Each is obeyed once, also when its record cannot be removed."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, member: str) -> None:
        self._store = store
        self._scope = scope
        self._key = RESTARTS.child(member)
        self._obeyed: bytes | None = None  # the value of the last obeyed request: no other request has it

    def asked(self, records: Sequence[Record]) -> Record | None:
        """A request among the records of the scope that is not obeyed yet."""
        own = (record for record in records if record.key == self._key)
        request = next((record for record in own if read_restart(record) is not None), None)
        if request is not None and request.value == self._obeyed:
            self.obeyed(request)
            return None
        return request

    def obeyed(self, request: Record) -> None:
        """Note that a request was obeyed, and remove its record unless it was made anew. `asked` repeats a removal that
        fails."""
        self._obeyed = request.value
        with suppress(GuardFailed, StoreUnavailable, OutcomeUnknown):
            self._store.commit(self._scope, guards=(), writes=(Delete(request.key, request.version),))


class Requests:
    """The requests of operators to a member under one session. As a flag: set when the member must stop contending."""

    def __init__(
        self, restarts: Restarts, *, stop: threading.Event, gone: Callable[[], str | None], ends: bool = False
    ) -> None:
        """`ends`: the run is to end, so it does not wait for the end of a pause that followed on failures."""
        self._ends = ends
        self._restarts = restarts
        self._stop = stop
        self._gone = gone
        self.restart: Record | None = None  # None: no operator asked for a restart
        self.finish = threading.Event()
        """Set when the leader is to finish its batch and give the term up."""
        self.finish_as: Ended | None = None  # None: `finish` is not set
        self.successor = ""
        """The member that a switchover names: `to ben`; empty: there is no switchover, or it names no member."""
        self.asked: AskedBy = NOBODY
        """Who asked for the switchover or the restart."""
        self.done: Result | None = None
        """The result of a pipeline that was cleaned up; None: the pipeline was not."""
        self.failed: Pause | None = None
        """The pause after failures for which the member does not wait; None: there is none."""

    def is_set(self) -> bool:
        asked = self.done is not None or self.restart is not None or self.failed is not None
        return asked or self._stop.is_set() or self._gone() is not None

    def look(self, records: Sequence[Record], *, epoch: int | None) -> None:
        """Note the requests among the records. `epoch`: of the member's own term; None: the member does not lead."""
        result = result_in(records)
        self.done = result if result is not None and result.stage is Stage.CLEAN else None
        pause = pause_in(records) if self._ends and epoch is None else None
        led = any(record.key == LEADER for record in records)
        self.failed = pause if pause is not None and pause.why and not led else None
        restart = self._restarts.asked(records)
        if restart is not None:
            self.restart = restart
            if self._finish(Ended.RESTART):
                self.asked = read_restart(restart) or NOBODY
        switchovers = [read_switchover(record) for record in records if record.key == SWITCHOVER]
        for asked in switchovers:
            if asked is not None and asked.epoch == epoch and self._finish(Ended.SWITCHOVER):
                self.successor, self.asked = f"to {asked.to}" if asked.to else "", asked.asked

    def end_of(self, ended: Ended) -> End | None:
        """What the record of a term says of such an end; None: the term is lost."""
        word, asked = AFTER[ended].resign, self.asked
        if word is None:
            return None
        if ended is not self.finish_as:
            return End(word)
        return End(word, self.successor if ended is Ended.SWITCHOVER else "", asked.by, asked.reason)

    def _finish(self, ended: Ended) -> bool:
        """Let the leader finish, for this reason; False: it finishes for an earlier reason already."""
        if self.finish_as is not None:
            return False
        self.finish_as = ended
        self.finish.set()
        return True


class NewerSpark:
    """Ends a member whose Spark is older than that of the newest checkpoints: before it takes an office that it could
    not keep."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._known: tuple[Record, Declaration | None] | None = None  # as read last; None: not read yet

    def look(self, records: Sequence[Record], *, spark: str) -> None:
        """Compare the scope with the version of the driver's Spark; empty: it is not known. Raises DeclaredOtherwise.
        Records that do not decode are the driver's to refuse; a pipeline that has ended is cleaned up by any Spark."""
        record = next((one for one in records if one.key == DECLARED), None)
        if record is None or not spark or result_in(records) is not None:
            return
        with suppress(CorruptRecord, CorruptHandle):
            if self._known is None or self._known[0] != record:
                self._known = (record, None)
                self._known = (record, decode_declaration(record))
            check_spark(self._scope, self._known[1], lambda: epochs_of(newest_in(records).values()), spark=spark)


def skipped_in(records: Sequence[Record], scope: Scope) -> list[RecordSkipped]:
    """An event for each record that does not decode and is skipped."""
    return [RecordSkipped(scope, record=record.key, why=record.why) for record in unread_in(records)]


def leader_in(records: Sequence[Record]) -> tuple[str, int]:
    """The leader and its epoch; empty and 0: nobody leads, or the record does not decode, which is an error of those
    who decide by it."""
    leader = next((record for record in records if record.key == LEADER), None)
    if leader is not None:
        with suppress(CorruptRecord):
            found = decode(leader, fields={"member": str, "epoch": int})
            return found["member"], found["epoch"]
    return "", 0


def awaited_in(records: Sequence[Record], scope: Scope, *, member: str) -> list[LeadershipAwaited]:
    """The event about the leader, or the pause, for which a member waits; none: nobody leads."""
    pause, (name, epoch) = pause_in(records), leader_in(records)
    why = "" if pause is None else pause.why
    if not name and pause is None:
        return []
    return [LeadershipAwaited(scope, member, leader=name, epoch=epoch, paused=pause is not None, why=why)]
