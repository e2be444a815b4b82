"""The sessions of a store as one client sees them; it ends those that are silent for their ttl.

Promise: a dead session is ended in two steps. First its Lease is replaced by an ended Lease, under the resourceVersion
that was seen: an owner that renews in between wins, and an owner that renews later learns that it has ended. Only then
are its records removed, scope by scope, and then the Lease. Every step can be done twice, and by several observers. In
each scope that the Lease names, the removal writes, even where it finds nothing: so a commit of the session that was
evaluated before is refused by the object's resourceVersion.

The Leases are followed by their labels: those of the scopes that the client has looked at, and those without a scope. A
Lease that a scope names and that has lost its labels is judged all the same: it is asked for by its name. What an
observer has seen outlives it (`sightings.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from tenure.backends.kubernetes import leases
from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.errors import NoAnswer, Refused, unavailable
from tenure.backends.kubernetes.follower import Follower
from tenure.backends.kubernetes.objects import version_of
from tenure.backends.shared.sightings import Sightings, Silence
from tenure.clock import Clock
from tenure.coordination.records import Record, Scope, SessionId
from tenure.errors import AccessDenied, TenureError

_IDLE_S: Final = 60.0
_OTHERS_S: Final = 1.0
"""The owner, or the observer that ends a session, removes its records; other observers do so after this pause."""
_DENIED_S: Final = 10.0
"""The pause where this account may not write the scope: members of that scope may."""

Remove = Callable[[Scope, SessionId, bool], None]
"""Removes a session and its records from a scope; with True it writes in any case. Raises StoreError."""


class Observer:
    """Follows the Leases of a store. Nothing is sent before `start`."""

    def __init__(
        self,
        api: Api,
        store: str,
        *,
        remove: Remove,
        woken: Callable[[], None],
        compare: Callable[[], None],
        sightings: Sightings,
        clock: Clock,
    ) -> None:
        """`woken`: called when a value was amended, or the Leases were listed. `compare`: called at each renewal that
        shows; raises StoreUnavailable. `sightings`: of this process."""
        self._api = api
        self._store = store
        self._sightings = sightings
        self.remove = remove
        self._woken = woken
        self._compare = compare
        self._clock = clock
        self._lock = threading.Lock()  # guards the eight below
        self._scopes: set[Scope] = set()  # that the client has looked at
        self._leases: dict[SessionId, Object] = {}
        self._silences: dict[SessionId, Silence] = {}
        self._due: dict[tuple[SessionId, Scope | None], float] = {}
        """When to remove the records of an ended session; with a scope, which names a session of which no Lease is
        known: when to look for the Lease."""
        self._refused: dict[SessionId, tuple[Scope, AccessDenied]] = {}  # ended sessions whose records must stay
        self._follower: Follower | None = None  # None: not started
        self._thread: threading.Thread | None = None  # None: not started
        self._wake = threading.Event()
        self._listed = False
        self._closed = False

    def path(self, session: SessionId | None = None) -> str:
        """The path of all Leases, or of that of a session."""
        all_of_them = f"/apis/coordination.k8s.io/v1/namespaces/{self._api.namespace}/leases"
        return all_of_them if session is None else f"{all_of_them}/{self._store}.{session}"

    def marked(self, lease: Object) -> Object:
        """The Lease with its label, which a tool may have taken off, or an earlier version did not know."""
        return leases.labelled(lease, self._store)

    def follow(self, scope: Scope) -> Follower:
        """Follow the Leases of the sessions of this scope, too."""
        with self._lock:
            is_new = scope not in self._scopes
            self._scopes.add(scope)
            follower = self._follower
            self._listed = self._listed and not is_new
        if is_new and follower is not None:
            follower.begin_anew()
        return self.start()

    def start(self) -> Follower:
        """Follow Leases from now on, and end who is silent."""
        with self._lock:
            if self._follower is None:
                self._follower = Follower(
                    self._api,
                    self.path,
                    selector=self._selector,
                    owner=self,
                    clock=self._clock,
                    name="tenure-kubernetes-leases",
                )
                self._thread = threading.Thread(target=self._run, name="tenure-kubernetes-sessions", daemon=True)
                self._thread.start()
            return self._follower

    def _selector(self) -> tuple[str, str]:
        with self._lock:
            return "labelSelector", leases.selector_of(self._store, self._scopes)

    def check_rights(self, session: SessionId) -> None:
        """Try on this session the requests that are needed once another session is silent: without them, a dead leader
        would be leader for ever, and nobody would say why. Raises AccessDenied, StoreUnavailable."""
        try:
            self._api.ask("GET", self.path(session))
            self._api.ask("DELETE", self.path(session), query=[("dryRun", "All")])
        except (Refused, NoAnswer) as error:
            raise unavailable(error, "end the sessions of members that died") from error
        self.start().check_rights()

    def check_removals(self, scope: Scope) -> None:
        """Raises AccessDenied: the server refuses to remove the records of a session that has ended, so what the scope
        shows, a leader for example, may be dead."""
        with self._lock:
            refused = [error for where, error in self._refused.values() if where == scope]
        if refused:
            raise refused[0]

    def close(self) -> None:
        """Stop."""
        self._closed = True
        self._wake.set()
        with self._lock:
            follower = self._follower
        if follower is not None:
            follower.close()

    def sees(self, lease: Object) -> None:
        """Note a Lease as an answer shows it."""
        session = leases.session_of(lease, self._store)
        if session is None:
            return
        version, now_s = str(lease["metadata"]["resourceVersion"]), self._clock.monotonic_s()
        with self._lock:
            self._note(session, lease, version, now_s)
        self._wake.set()

    def misses(self, scope: Scope, sessions: Iterable[SessionId]) -> None:
        """Note the sessions of a scope, as its ConfigMap names them. Who removes a Lease by hand leaves such a name."""
        with self._lock:
            for session in sessions:
                if self._listed and session not in self._leases and (session, scope) not in self._due:
                    self._miss(session, scope)
                    self._wake.set()

    def amended(self, scope: Scope, record: Record) -> Record:
        """The record as its session last amended it, as far as is known here."""
        if record.session is None:
            return record
        with self._lock:
            lease = self._leases.get(record.session)
        return record if lease is None else leases.as_amended(lease, scope, record)

    # --- what the follower tells ----------------------------------------------------------------------------------

    def listed(self, objects: Sequence[Object], *, at: int) -> None:
        """See `Listener.listed`."""
        for lease in objects:
            self.sees(lease)
        there = {leases.session_of(lease, self._store) for lease in objects}
        with self._lock:
            for session in self._leases.keys() - there:
                self._forget(session)
            self._listed = True
        self._woken()

    def changed(self, kind: str, found: Object) -> None:
        """See `Listener.changed`."""
        session = leases.session_of(found, self._store)
        if kind != "DELETED":
            before = self._leases.get(session) if session is not None else None
            self.sees(found)
            self._tell(before, found)
        elif session is not None:
            with self._lock:
                self._forget(session)
                for scope in self._scopes.intersection(leases.scopes_of(found)):
                    self._miss(session, scope)  # or a Lease that has lost its label
            self._wake.set()

    def spoke(self) -> None:
        """See `Listener.spoke`."""

    def _tell(self, before: Object | None, found: Object) -> None:
        if before is None or before["metadata"].get("annotations") != found["metadata"].get("annotations"):
            self._woken()

    # --- judging; on a thread of its own ----------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            self._wake.clear()  # before the look: a later change is not lost
            now_s = self._clock.monotonic_s()
            with self._lock:
                looks = [session for session, silence in self._silences.items() if silence.next_look_s <= now_s]
                due = [what for what, at_s in self._due.items() if at_s <= now_s]
            for session in looks:
                self._look(session)
            for session, scope in due:
                if scope is None:
                    self._finish(session)
                else:
                    self._look_for(session, scope)
            with suppress(TenureError):  # the next renewal asks again
                self._compare()
            self._clock.wait(self._wake, timeout_s=self._until_next_s())

    def _until_next_s(self) -> float:
        with self._lock:
            due = [*(silence.next_look_s for silence in self._silences.values()), *self._due.values()]
        return max(0.0, min(due, default=self._clock.monotonic_s() + _IDLE_S) - self._clock.monotonic_s())

    def _look(self, session: SessionId) -> None:
        """Ask for the Lease of a silent session, and end the session if it is dead."""
        asked_s = self._clock.monotonic_s()
        try:
            lease = self._api.find(self.path(session), "look for a session")
        except TenureError:
            self._interrupted(session)
            return
        if lease is None:
            self._is_gone(session)
            return
        answered_s, version = self._clock.monotonic_s(), str(lease["metadata"]["resourceVersion"])
        with self._lock:
            silence, before = self._silences.get(session), self._leases.get(session)
            if silence is None or silence.version != version:
                self._note(session, lease, version, answered_s)
                dead = False
            else:
                silence.confirmed(asked_s=asked_s, answered_s=answered_s)
                self._sightings.note(session, silence)
                dead = silence.is_death
        if dead:
            self._end(session, lease)
        else:
            self._tell(before, lease)  # the line may be deaf

    def _end(self, session: SessionId, lease: Object) -> None:
        """The first step. The owner, or another observer, may be faster."""
        try:
            ended = self._api.write("PUT", self.path(session), "end a session", body=leases.ended(lease))
        except TenureError:
            self._interrupted(session)
            return
        if ended is None:
            return  # the next look shows why
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._sightings.due(session, at_s=now_s, now_s=now_s)  # for the next observer, should this be closed before
            self._note(session, ended, str(ended["metadata"]["resourceVersion"]), now_s)
            self._due[session, None] = now_s

    def _finish(self, session: SessionId) -> None:
        """The second step: the records, scope by scope, then the Lease."""
        with self._lock:
            lease = self._leases.get(session)
        try:
            if lease is not None:
                for scope in leases.scopes_of(lease):
                    self._remove_from(scope, session, in_any_case=True)
                self.delete(session)
        except TenureError as error:
            pause_s = _DENIED_S if isinstance(error, AccessDenied) else _OTHERS_S
            with self._lock:
                if (session, None) in self._due:
                    self._due[session, None] = self._clock.monotonic_s() + pause_s
            return
        with self._lock:
            self._forget(session)
        self._sightings.done(session)

    def delete(self, session: SessionId) -> None:
        """Delete the Lease of an ended session. Raises StoreUnavailable, OutcomeUnknown."""
        self._api.write("DELETE", self.path(session), "delete the Lease of an ended session")

    def _look_for(self, session: SessionId, scope: Scope) -> None:
        """A scope names a session whose Lease is not among those with our label: if it has lost the label, observe it
        from now on; where there is none indeed, remove the session's records."""
        done = True
        try:
            lease = self._api.find(self.path(session), "look for a session")
            if lease is None:
                self._remove_from(scope, session, in_any_case=False)
            else:
                self.sees(lease)
                self._woken()
        except TenureError:
            done = False
        with self._lock:
            if done:
                self._due.pop((session, scope), None)
                self._sightings.done(session, scope)
            else:
                self._due[session, scope] = self._clock.monotonic_s() + _OTHERS_S

    def _remove_from(self, scope: Scope, session: SessionId, *, in_any_case: bool) -> None:
        try:
            self.remove(scope, session, in_any_case)
        except AccessDenied as denied:
            with self._lock:
                self._refused[session] = (scope, denied)
            raise
        with self._lock:
            if self._refused.get(session, (None,))[0] == scope:
                del self._refused[session]

    def _is_gone(self, session: SessionId) -> None:
        with self._lock:
            lease = self._leases.get(session)
            self._forget(session)
            for scope in leases.scopes_of(lease) if lease is not None else ():
                self._due[session, scope] = self._clock.monotonic_s()
        self._sightings.done(session)

    def _interrupted(self, session: SessionId) -> None:
        with self._lock:
            silence = self._silences.get(session)
            if silence is not None:
                silence.interrupted(at_s=self._clock.monotonic_s())
                self._sightings.note(session, silence)

    # --- under the lock ---------------------------------------------------------------------------------------------

    def _note(self, session: SessionId, lease: Object, version: str, now_s: float) -> None:
        known = self._leases.get(session)
        if known is not None and version_of(known) > int(version):
            return  # an answer that came late
        self._leases[session] = lease
        if leases.has_ended(lease):
            self._silences.pop(session, None)
            self._due.setdefault((session, None), self._sightings.due(session, at_s=now_s + _OTHERS_S, now_s=now_s))
            return
        silence = self._silences.get(session)
        if silence is None or silence.version != version:
            ttl_s = leases.ttl_s(lease)
            self._silences[session] = self._sightings.silence(session, version, ttl_s=ttl_s, now_s=now_s)

    def _miss(self, session: SessionId, scope: Scope) -> None:
        now_s = self._clock.monotonic_s()
        self._due[session, scope] = self._sightings.due(session, scope, at_s=now_s + _OTHERS_S, now_s=now_s)

    def _forget(self, session: SessionId) -> None:
        for known in (self._leases, self._silences, self._refused):
            known.pop(session, None)
        self._due.pop((session, None), None)
