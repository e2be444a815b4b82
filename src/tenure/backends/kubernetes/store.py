"""The coordination store on a Kubernetes API server: one ConfigMap a scope, one Lease a session.

Promise: the contract of `coordination.store`. A commit evaluates its guards on one state of the ConfigMap, and replaces
that very state by its resourceVersion: so leadership and data change in one compare-and-swap. A refusal is judged on a
state that was read after the call began. Not promised: that a session's records vanish by themselves. An observer
removes them, any client that watches, and none does while all are away; the guarantees declare that.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

from tenure.backends.kubernetes import leases
from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.examination import KubernetesExamination
from tenure.backends.kubernetes.followed import KubernetesFollowed
from tenure.backends.kubernetes.follower import Follower
from tenure.backends.kubernetes.objects import object_name, version_of
from tenure.backends.kubernetes.observer import Observer
from tenure.backends.kubernetes.session import KubernetesSession, own
from tenure.backends.kubernetes.url import Place
from tenure.backends.shared.following import FollowedChanges, Following
from tenure.backends.shared.scope_objects import CONFLICTS, ScopeObjects, SeenScope
from tenure.backends.shared.scope_state import ScopeState, scope_in
from tenure.backends.shared.sightings import sightings_of
from tenure.clock import Clock, SystemClock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import (
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
)
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import (
    AccessDenied,
    OutcomeUnknown,
    StoreUnavailable,
    UsageError,
)

GUARANTEES: Final = Guarantees(
    name="kubernetes",
    max_record_bytes=128 * 1024,
    max_writes=128,
    survives_restart=True,
    one_session_a_commit=True,
    scopes_have_records=False,
    amended_at_one_instant=False,
)
MAX_SCOPE_BYTES: Final = 900_000
"""The API server refuses a ConfigMap of more than 1 MiB of data."""


class KubernetesStore(ScopeObjects[Object]):
    """A client of the store at `place`."""

    def __init__(self, place: Place, *, clock: Clock | None = None) -> None:
        super().__init__(GUARANTEES, most_bytes=MAX_SCOPE_BYTES, kind="ConfigMap", clock=clock or SystemClock())
        self._place = place
        self._api = Api(place, clock=self._clock)
        self._observer = Observer(
            self._api,
            place.name,
            remove=self.remove_session,
            woken=self._wake_all,
            compare=self._compare,
            sightings=sightings_of(place),
            clock=self._clock,
        )
        self._following = Following(self._followed)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        record = self._look(scope).state.records.get(key)
        return None if record is None else self._observer.amended(scope, record)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        return self._amended(scope, self._look(scope).state.listing(prefix))

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        self._observer.check_removals(scope)
        try:
            found = self._following.scope(scope).glance(prefix)
        except StoreUnavailable as failed:
            if isinstance(failed, AccessDenied):
                raise
            return self.list(scope, prefix)  # the line broke, and a request may be answered
        return self._amended(scope, found)

    def scopes(self) -> Sequence[Scope]:
        """The scopes of the ConfigMaps with the label of the store. This needs the right to list all ConfigMaps of the
        namespace, which members do not need."""
        query = [("labelSelector", leases.selector(self._place.name))]
        found = self._api.find(self._path(None), "list the ConfigMaps of all scopes", query=query) or {}
        named = ((scope_in(one.get("data") or {}), one["metadata"]["name"]) for one in found.get("items") or [])
        return sorted({scope for scope, name in named if scope and object_name(self._place.name, scope) == name})

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        followed = self._following.scope(scope)
        followed.begin()
        return FollowedChanges(followed, after=after, clock=self._clock)

    def examination(self) -> KubernetesExamination:
        """See `Examinable`."""
        return KubernetesExamination(self._place, self._api)

    # --- writing ------------------------------------------------------------------------------------------------

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> KubernetesSession:
        if ttl < timedelta(seconds=1):
            raise UsageError(f"a ttl of {ttl.total_seconds():g} s is too short for Kubernetes", fix="give 1 s or more")
        self._observer.start()
        session = SessionId(new_uid()[:16])
        lease = leases.new_lease(self._place.name, session, ttl=ttl, holder=purpose, now=self._clock.now())
        made = self._api.write("POST", self._observer.path(), "open a session", body=lease)
        if made is None:
            raise StoreUnavailable(f"session {session} is there already", fix="try again")
        opened = self._session(made, session, ttl)
        try:
            self._observer.check_rights(session)
        except StoreUnavailable:
            with suppress(StoreUnavailable, OutcomeUnknown):
                opened.close()
            raise
        self._opened(opened)
        return opened

    def end_session(self, testament: str) -> None:
        session = SessionId(testament)
        lease = self._api.find(self._observer.path(session), "end a session")
        if lease is None:
            return  # observers remove the records
        self._session(lease, session, timedelta(seconds=leases.ttl_s(lease))).close()

    def close(self) -> None:
        self._observer.close()
        self._following.close()
        self._api.close()

    # --- for observers --------------------------------------------------------------------------------------------

    def remove_session(self, scope: Scope, session: SessionId, in_any_case: bool) -> None:
        """Remove a session that has ended, and its records, from a scope. `in_any_case`: write, even where the scope
        does not name it. Raises StoreUnavailable, OutcomeUnknown, CorruptRecord."""
        delays = CONFLICTS.delays_s()
        while True:
            seen = self._look(scope)
            if seen.found is None or not (in_any_case or session in seen.state.sessions):
                return
            if self._replaced(scope, seen, seen.state.without(session)):
                return
            self._pause(next(delays, None), scope)

    # --- inside -------------------------------------------------------------------------------------------------

    def _session(self, lease: Object, session: SessionId, ttl: timedelta) -> KubernetesSession:
        api, observer, clock = self._api, self._observer, self._clock
        return KubernetesSession(self._own_record, api, observer, lease, session=session, ttl=ttl, clock=clock)

    def _own_record(self, scope: Scope, key: Key, value: bytes, session: SessionId) -> Record:
        record = own(self._look(scope).state.records.get(key), key, session)
        check_commit(GUARANTEES, (), (Put(key, value, record.version, session),))
        return record

    def _path(self, scope: Scope | None) -> str:
        all_of_them = f"/api/v1/namespaces/{self._api.namespace}/configmaps"
        return all_of_them if scope is None else f"{all_of_them}/{object_name(self._place.name, scope)}"

    def _where(self, scope: Scope) -> str:
        return f"ConfigMap {self._api.namespace}/{object_name(self._place.name, scope)}"

    def _known(self, scope: Scope) -> KubernetesFollowed:
        return self._following.scope(scope)

    def _look(self, scope: Scope) -> SeenScope[Object]:
        """The ConfigMap now. Raises StoreUnavailable, CorruptRecord."""
        followed = self._following.scope(scope)
        at = followed.newest
        seen = self._asked(scope)
        followed.take(seen, at=at if seen.found is None else version_of(seen.found))
        return seen

    def _asked(self, scope: Scope) -> SeenScope[Object]:
        return self._decoded(scope, self._api.find(self._path(scope), f"read scope {scope!r}"))

    def _decoded(self, scope: Scope, found: Object | None) -> SeenScope[Object]:
        if found is None:
            return SeenScope(None, ScopeState())
        return SeenScope(found, ScopeState.of(found.get("data") or {}, scope=scope, where=self._where(scope)))

    def _news(self, scope: Scope, state: ScopeState) -> None:
        """Look after the sessions of a scope that has changed."""
        if state.sessions:
            self._observer.follow(scope)
            self._observer.misses(scope, state.sessions)

    def _replace(self, scope: Scope, seen: SeenScope[Object], state: ScopeState, entries: dict[str, str]) -> bool:
        what = f"commit to scope {scope!r}"
        if seen.found is None:
            found = self._api.write("POST", self._path(None), what, body=self._new(scope, entries))
        else:
            metadata = {name: value for name, value in seen.found["metadata"].items() if name != "managedFields"}
            body = {**seen.found, "metadata": leases.marked(metadata, self._place.name), "data": entries}
            found = self._api.write("PUT", self._path(scope), what, body=body)
        if found is None:
            return False
        self._following.scope(scope).take(SeenScope(found, state), at=version_of(found))
        return True

    def _new(self, scope: Scope, entries: dict[str, str]) -> dict[str, Any]:
        metadata = leases.marked({"name": object_name(self._place.name, scope)}, self._place.name)
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": entries}

    def _amended(self, scope: Scope, listing: Listing) -> Listing:
        if any(record.session is not None for record in listing.records):
            self._observer.follow(scope).tried.wait(self._api.request_s)
        return Listing(tuple(self._observer.amended(scope, record) for record in listing.records), listing.revision)

    def _followed(self, scope: Scope) -> KubernetesFollowed:
        name = object_name(self._place.name, scope)
        return KubernetesFollowed(
            scope,
            follow=lambda owner: Follower(
                self._api,
                partial(self._path, None),
                selector=lambda: ("fieldSelector", f"metadata.name={name}"),
                owner=owner,
                clock=self._clock,
                name="tenure-kubernetes-scope",
            ),
            ask=partial(self._asked, scope),
            decode=partial(self._decoded, scope),
            news=partial(self._news, scope),
            clock=self._clock,
        )

    def _compare(self) -> None:
        """Compare the picture of the scope that has not been compared for longest, if that is due. Raises
        StoreUnavailable."""
        due = self._following.due()
        if due is not None:
            asked_at = due.newest
            found = self._api.find(self._path(due.scope), f"look at scope {due.scope!r}", whole=False)
            due.told(None if found is None else version_of(found), asked_at=asked_at)

    def _wake_all(self) -> None:
        for followed in self._following.all():
            followed.wake(unnumbered=True)
            if followed.known is not None:
                self._observer.misses(followed.scope, followed.known.state.sessions)
