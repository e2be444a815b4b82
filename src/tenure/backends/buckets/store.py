"""The coordination store in a bucket: one object a scope, one object a session.

Promise: the contract of `coordination.store`. A commit evaluates its guards on one state of the scope's object, and
replaces that very state by its tag: so leadership and data change in one compare-and-swap. A refusal is judged on a
state that was read after the call began. Not promised: that a session's records vanish by themselves (who looks at the
scope removes them), and that a change shows at once (`followed.POLL_S`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from tenure.backends.buckets import session_object
from tenure.backends.buckets.bucket import Bucket, NotAsSeen, SeenJson
from tenure.backends.buckets.followed import BucketFollowed
from tenure.backends.buckets.observer import BucketObserver, name_of
from tenure.backends.buckets.service import BucketPlace
from tenure.backends.buckets.session import SHARE, BucketSession
from tenure.backends.shared.amending import amend_by_commit
from tenure.backends.shared.following import FollowedChanges, Following
from tenure.backends.shared.scope_objects import CONFLICTS, ScopeObjects, SeenScope
from tenure.backends.shared.scope_state import ScopeState
from tenure.backends.shared.sightings import sightings_of
from tenure.clock import Clock, SystemClock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Listing,
    Record,
    Revision,
    Scope,
    SessionId,
    Write,
)
from tenure.coordination.store import Guarantees
from tenure.errors import OutcomeUnknown, StoreUnavailable, UsageError

_GUARANTEES: Final = Guarantees(
    name="bucket",
    max_record_bytes=128 * 1024,
    max_writes=128,
    survives_restart=True,
    one_session_a_commit=True,
    scopes_have_records=False,
)
MAX_SCOPE_BYTES: Final = 4_000_000
"""Each commit writes the whole scope."""
_SHORTEST: Final = timedelta(seconds=1)
_SUFFIX: Final = ".json"


class BucketStore(ScopeObjects[SeenJson]):
    """A client of the store at `place`."""

    def __init__(self, place: BucketPlace, *, clock: Clock | None = None) -> None:
        guarantees = replace(_GUARANTEES, name=place.service.name.lower())
        super().__init__(guarantees, most_bytes=MAX_SCOPE_BYTES, kind="object", clock=clock or SystemClock())
        self._place = place
        self._bucket = Bucket(place)
        self._observer = BucketObserver(
            self._bucket, remove=self._remove_session, sightings=sightings_of(place), clock=self._clock
        )
        self._following = Following(self._followed)
        self._closed = False  # set once, for good

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        return self._look(scope).state.records.get(key)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._look(scope).state.listing(prefix)

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._following.scope(scope).glance(prefix)

    def scopes(self) -> Sequence[Scope]:
        found = self._bucket.ages("scopes", "list the scopes")
        return sorted(scope for name, _ in found if (scope := Scope.found(name.removesuffix(_SUFFIX))) is not None)

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        return FollowedChanges(self._following.scope(scope), after=after, clock=self._clock)

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        if writes:
            self._check_conditions()
        return super().commit(scope, guards=guards, writes=writes)

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> BucketSession:
        if ttl < _SHORTEST:
            raise UsageError(f"a ttl of {ttl.total_seconds():g} s is too short for a bucket", fix="give 10 s or more")
        self._check_conditions()
        session = SessionId(new_uid()[:16])
        data = session_object.new_session(ttl=ttl, purpose=purpose)
        bucket = self._bucket.within(ttl.total_seconds() / SHARE)
        try:
            found = bucket.put(name_of(session), data, "open a session", replaces=None)
        except NotAsSeen as there:
            raise StoreUnavailable(f"session {session} is there already", fix="try again") from there
        opened = self._session(session, found)
        self._opened(opened)
        self._observer.prune()
        return opened

    def end_session(self, testament: str) -> None:
        session = SessionId(testament)
        found = self._bucket.get(name_of(session), "end a session")
        if found is not None:  # else observers remove the records
            self._session(session, found).close()

    def close(self) -> None:
        self._closed = True
        self._following.close()
        self._bucket.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _session(self, session: SessionId, found: SeenJson) -> BucketSession:
        checked = SeenJson(session_object.checked(found.data, where=f"object {name_of(session)}"), found.tag)
        return BucketSession(session, self._bucket, self._observer, checked, amend=self._amend)

    def _amend(self, scope: Scope, key: Key, value: bytes, session: SessionId) -> None:
        amend_by_commit(self, scope, key, value, session=session)

    def _check_conditions(self) -> None:
        try:
            self._bucket.check_conditions()
        except OutcomeUnknown as unknown:  # of the probe, so nothing was written
            raise StoreUnavailable(str(unknown)) from unknown

    def _known(self, scope: Scope) -> BucketFollowed:
        return self._following.scope(scope)

    def _look(self, scope: Scope) -> SeenScope[SeenJson]:
        """The object now, after the end of its dead sessions. Raises StoreUnavailable, CorruptRecord."""
        return self._following.scope(scope).ask()

    def _asked(self, scope: Scope, known: SeenScope[SeenJson] | None) -> SeenScope[SeenJson]:
        if self._closed:
            raise StoreUnavailable(f"store {self._place.shown} is closed")
        found = self._bucket.get(
            f"scopes/{scope}{_SUFFIX}", f"read scope {scope!r}", known=None if known is None else known.found
        )
        if known is not None and found is known.found:
            return known
        if found is None:
            return SeenScope(None, ScopeState())
        where = f"object {self._place.key(f'scopes/{scope}{_SUFFIX}')}"
        return SeenScope(found, ScopeState.of(found.data, scope=scope, where=where))

    def _judge(self, scope: Scope, state: ScopeState) -> bool:
        try:
            return self._observer.judge(state.sessions, scope)
        except OutcomeUnknown as unknown:  # of an end, which can be done twice
            raise StoreUnavailable(str(unknown)) from unknown

    def _replace(self, scope: Scope, seen: SeenScope[SeenJson], state: ScopeState, entries: dict[str, str]) -> bool:
        name, what = f"scopes/{scope}{_SUFFIX}", f"commit to scope {scope!r}"
        try:
            found = self._bucket.put(name, dict(entries), what, replaces=seen.found)
        except NotAsSeen:
            return False
        except OutcomeUnknown:
            settled = self._settled(name, entries, what)
            if settled is None:
                raise
            found = settled
        self._following.scope(scope).take(SeenScope(found, state))
        return True

    def _settled(self, name: str, entries: dict[str, str], what: str) -> SeenJson | None:
        """The object, if it is as the write without an answer has made it: versions are random, so no other write makes
        an equal object. None: it is not, or that cannot be seen."""
        try:
            found = self._bucket.get(name, what)
        except StoreUnavailable:
            return None
        return found if found is not None and found.data == entries else None

    def _remove_session(self, scope: Scope, session: SessionId, in_any_case: bool) -> None:
        """Remove a session that has ended, and its records, from a scope. `in_any_case`: write, even where the scope
        does not name it. Raises StoreUnavailable, OutcomeUnknown, CorruptRecord."""
        delays = CONFLICTS.delays_s()
        while True:
            seen = self._following.scope(scope).read()
            if not (in_any_case or session in seen.state.sessions):
                return
            if self._replaced(scope, seen, seen.state.without(session)):
                return
            self._pause(next(delays, None), scope)

    def _followed(self, scope: Scope) -> BucketFollowed:
        return BucketFollowed(
            scope, ask=partial(self._asked, scope), judge=partial(self._judge, scope), clock=self._clock
        )
