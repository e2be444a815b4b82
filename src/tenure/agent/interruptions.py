"""What a member heeds while it contends or leads: operators, its driver's end, a store that goes; and its delays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from tenure.coordination.candidates import RESTARTS, SWITCHOVER, Unread, is_restart, read_switchover, unread_in
from tenure.coordination.election import Flag
from tenure.coordination.records import Delete, Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import GuardFailed, OutcomeUnknown, StoreUnavailable
from tenure.events import Events, RecordSkipped
from tenure.link.lifecycle import Ended
from tenure.results.result import Result, Stage
from tenure.results.store import result_in
from tenure.retry import RetryPolicy


class Restarts:
    """The requests to replace one member's driver: each is obeyed once, also when its record could not be removed."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, member: str) -> None:
        self._store = store
        self._scope = scope
        self._key = RESTARTS.child(member)
        self._obeyed: bytes | None = None  # what the last one said that was obeyed, which no other one does

    def asked(self, records: Sequence[Record]) -> Record | None:
        """A request among the records of the scope that was not obeyed yet."""
        found = next((record for record in records if record.key == self._key and is_restart(record)), None)
        if found is not None and found.value == self._obeyed:
            self.obeyed(found)
            return None
        return found

    def obeyed(self, request: Record) -> None:
        """Remove a request; one that was made anew meanwhile stays. If it cannot be known whether it is gone, it is
        tried again when it is seen again."""
        self._obeyed = request.value
        with suppress(GuardFailed, StoreUnavailable, OutcomeUnknown):
            self._store.commit(self._scope, guards=(), writes=(Delete(request.key, request.version),))


class Requests:
    """What operators ask of one member under one session. As a flag: set when it must not go on contending."""

    def __init__(self, restarts: Restarts, *, stop: threading.Event, gone: Callable[[], str | None]) -> None:
        self._restarts = restarts
        self._stop = stop
        self._gone = gone
        self.restart: Record | None = None  # None: nobody asked for it
        self.finish = threading.Event()
        """Set when the leader shall finish its batch and give the term up."""
        self.finish_as: Ended | None = None  # None: it shall not
        self.done: Result | None = None
        """How the pipeline ended, once it was cleaned up. None: it was not."""

    def is_set(self) -> bool:
        return self._stop.is_set() or self.done is not None or self.restart is not None or self._gone() is not None

    def look(self, records: Sequence[Record], *, epoch: int | None) -> None:
        """Note what the records ask. `epoch`: of the member's own term, None: it does not lead."""
        result = result_in(records)
        self.done = result if result is not None and result.stage is Stage.CLEAN else None
        restart = self._restarts.asked(records)
        if restart is not None:
            self.restart = restart
            self._finish(Ended.RESTART)
        switchovers = [read_switchover(record) for record in records if record.key == SWITCHOVER]
        if any(asked is not None and asked.epoch == epoch for asked in switchovers):
            self._finish(Ended.SWITCHOVER)

    def _finish(self, ended: Ended) -> None:
        if self.finish_as is None:
            self.finish_as = ended
            self.finish.set()


class Skipped:
    """Tells of each record that does not decode and is skipped, once."""

    def __init__(self, scope: Scope, events: Events) -> None:
        self._scope = scope
        self._events = events
        self._told: list[Unread] = []

    def look(self, records: Sequence[Record]) -> None:
        """Tell of those that were not there at the last look."""
        found = unread_in(records)
        for one in found:
            if one not in self._told:
                self._events.emit(RecordSkipped(self._scope, record=one.key, why=one.why))
        self._told = found


class StopOrStoreLost:
    """Set when the member was asked to stop, or a renewal failed; then it stays so."""

    def __init__(self, stop: Flag, term: Term) -> None:
        self._stop = stop
        self._term = term
        self._lost = False

    def is_set(self) -> bool:
        self._lost = self._lost or self._term.liveness.cause is not None
        return self._lost or self._stop.is_set()


class Delays:
    """The delays of a policy, from the first one on again after things went well for a while."""

    _well_s = 60.0

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._delays: Iterator[float] = policy.delays_s()

    def after(self, lasted_s: float) -> float:
        """How long to wait when what was tried last went on for `lasted_s`."""
        if lasted_s > self._well_s:
            self._delays = self._policy.delays_s()
        return next(self._delays)
