"""The store on a real API server: answers that are lost, refusals, hands that edit, servers that go and come back."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import Any
from urllib.error import HTTPError

import pytest

from tenure.backends.kubernetes import KubernetesStore
from tenure.backends.kubernetes.names import object_name
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Delete, Exact, Key, Put, Record, Scope, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.settle import commit_settled
from tenure.coordination.term import Term, commit_under
from tenure.errors import (
    AccessDenied,
    CommitRefused,
    CorruptRecord,
    GuardFailed,
    OutcomeUnknown,
    SessionEnded,
    StoreUnavailable,
    TermLost,
)
from tenure.testing.servers import KubernetesServer
from tenure.testing.waiting import NEVER, wait_until
from tests.support.api_gate import ApiGate
from tests.support.store_fixtures import KubernetesRig

pytestmark = pytest.mark.long

SCOPE = Scope("shop")
A, B = Key("a"), Key("b")
TTL = timedelta(seconds=10)
CLOCK = SystemClock()
COMMIT = r"PUT .*/configmaps/"


@pytest.fixture
def rig(kubernetes: KubernetesServer) -> Iterator[KubernetesRig]:
    made = KubernetesRig(kubernetes)
    yield made
    made.close()


@pytest.fixture
def gate(kubernetes: KubernetesServer) -> Iterator[ApiGate]:
    with ApiGate(kubernetes) as made:
        yield made


@pytest.fixture
def gated(rig: KubernetesRig, gate: ApiGate) -> KubernetesStore:
    """A client of the rig's place, through the gate."""
    return rig.through(gate)


def put(store: KubernetesStore, key: Key = A, value: bytes = b"first", replaces: Version | None = None) -> Version:
    return store.commit(SCOPE, guards=[], writes=[Put(key, value, replaces)]).versions[key]


def record(store: KubernetesStore, key: Key = A) -> Record:
    found = store.read(SCOPE, key)
    assert found is not None
    return found


def lead(store: KubernetesStore, keeper: SessionKeeper, member: str = "anna") -> Term:
    term = Election(store, SCOPE, member=member, clock=CLOCK).campaign(keeper, stop=threading.Event())
    assert term is not None
    return term


class Hands:
    """What an operator does to the objects with kubectl."""

    def __init__(self, rig: KubernetesRig) -> None:
        self._server = rig.server
        self._namespace = rig.place.namespace
        self._config_maps = f"/api/v1/namespaces/{self._namespace}/configmaps"
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{self._namespace}/leases"
        self.map_path = f"{self._config_maps}/{object_name('tenure', SCOPE)}"

    def config_map(self) -> dict[str, Any]:
        return self._server.ask("GET", self.map_path)

    def edit(self, entry: str, text: str | None) -> None:
        self._server.ask("PATCH", self.map_path, {"data": {entry: text}})

    def delete_map(self) -> None:
        self._server.ask("DELETE", self.map_path)

    def leases(self) -> list[dict[str, Any]]:
        return list(self._server.ask("GET", self._leases)["items"])

    def delete_lease(self, name: str) -> None:
        self._server.ask("DELETE", f"{self._leases}/{name}")

    def add(self, kind: str, name: str, **fields: Any) -> None:
        versions = {"ConfigMap": "v1", "Lease": "coordination.k8s.io/v1"}
        metadata = {"name": name, "namespace": self._namespace, **fields.pop("metadata", {})}
        self._server.apply({"apiVersion": versions[kind], "kind": kind, "metadata": metadata, **fields})

    def all(self) -> dict[str, dict[str, Any]]:
        found = [*self.leases(), *self._server.ask("GET", self._config_maps)["items"]]
        return {one["metadata"]["name"]: one for one in found}


@pytest.fixture
def hands(rig: KubernetesRig) -> Hands:
    return Hands(rig)


# --- answers that are lost ------------------------------------------------------------------------------------------


def test_a_replace_whose_answer_is_lost_is_settled(gated: KubernetesStore, gate: ApiGate) -> None:
    version = put(gated)
    writes = [Put(A, b"second", version)]
    gate.lose_answer(COMMIT)
    with pytest.raises(OutcomeUnknown):
        gated.commit(SCOPE, guards=[], writes=writes)
    gate.lose_answer(COMMIT)
    version = record(gated).version
    settled = commit_settled(
        gated, SCOPE, guards=[], writes=[Put(A, b"third", version)], go_on=lambda: True, clock=CLOCK
    )
    assert settled.versions[A] == record(gated).version
    assert record(gated).value == b"third"


def test_a_creation_whose_answer_is_lost_is_settled(gated: KubernetesStore, gate: ApiGate) -> None:
    lost = gate.lose_answer(r"POST .*/configmaps")
    settled = commit_settled(gated, SCOPE, guards=[], writes=[Put(A, b"x", None)], go_on=lambda: True, clock=CLOCK)
    assert lost.used.is_set()
    assert settled.versions[A] == record(gated).version


def test_a_renewal_whose_answer_is_lost_counts_by_the_next(gated: KubernetesStore, gate: ApiGate) -> None:
    session = gated.open_session(ttl=TTL)
    gate.lose_answer(r"PUT .*/leases/")
    with pytest.raises(OutcomeUnknown):
        session.renew()
    session.renew()


def test_a_session_whose_first_record_got_no_answer_joins_once(gated: KubernetesStore, gate: ApiGate) -> None:
    session = gated.open_session(ttl=TTL)
    gate.lose_answer(r"PUT .*/leases/")  # the Lease names the scope before the record is written
    with pytest.raises(StoreUnavailable):
        gated.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    gated.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    assert record(gated).session == session.id


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 504])
def test_a_server_that_fails_leaves_a_commit_unknown_and_a_read_not_made(
    gated: KubernetesStore, gate: ApiGate, status: int
) -> None:
    version = put(gated)
    gate.refuse(COMMIT, status)
    with pytest.raises(OutcomeUnknown):
        put(gated, value=b"second", replaces=version)
    gate.refuse(r"GET .*/configmaps/", status)
    with pytest.raises(StoreUnavailable):
        gated.read(SCOPE, A)
    put(gated, value=b"second", replaces=version)


def test_a_server_that_is_busy_is_asked_again_when_it_says(gated: KubernetesStore, gate: ApiGate) -> None:
    version = put(gated)
    busy = gate.refuse(COMMIT, 429, headers={"Retry-After": "1"}, times=2)
    put(gated, value=b"second", replaces=version)
    assert busy.used.is_set()
    gate.refuse(COMMIT, 429, headers={"Retry-After": "1"}, times=1000)
    with pytest.raises(StoreUnavailable):
        put(gated, value=b"third", replaces=record(gated).version)
    assert record(gated).value == b"second"


def test_a_term_outlives_refusals_that_are_shorter_than_its_ttl(gated: KubernetesStore, gate: ApiGate) -> None:
    with SessionKeeper(gated, ttl=TTL, clock=CLOCK) as keeper:
        term = lead(gated, keeper)
        failing = gate.refuse(r"(PUT|GET) ", 500, times=10)
        commit_under(gated, term, writes=[Put(A, b"", None)], clock=CLOCK)
        assert failing.used.is_set()
        assert not term.lost


def test_a_right_that_was_granted_before_is_missed_for_a_moment_only(gated: KubernetesStore, gate: ApiGate) -> None:
    version = put(gated, value=b"second", replaces=put(gated))
    gate.refuse(COMMIT, 403, times=3)
    put(gated, value=b"third", replaces=version)


def test_who_has_no_rights_is_told_at_once(rig: KubernetesRig) -> None:
    with closing(rig.as_user("nobody")) as store, pytest.raises(AccessDenied, match="configmaps"):
        store.list(SCOPE)


def test_a_namespace_that_is_not_there_is_named(rig: KubernetesRig) -> None:
    with closing(rig.in_namespace("no-such-namespace")) as store, pytest.raises(StoreUnavailable, match="no-such"):
        put(store)


# --- conflicts and fencing ------------------------------------------------------------------------------------------


def test_a_commit_that_others_overtake_is_evaluated_again(
    rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate
) -> None:
    other = rig.store()
    version = put(gated)
    gate.before(COMMIT, lambda: put(other, B))
    put(gated, value=b"second", replaces=version)
    assert (record(gated).value, record(gated, B).value) == (b"second", b"first")
    now = record(gated).version
    gate.before(COMMIT, lambda: put(other, value=b"theirs", replaces=now))
    with pytest.raises(GuardFailed) as refused:
        put(gated, value=b"mine", replaces=now)
    assert refused.value.guard == Exact(A, now)
    assert record(gated).value == b"theirs"


def test_a_write_of_an_earlier_term_of_the_same_member_is_refused(rig: KubernetesRig) -> None:
    store, other = rig.store(), rig.store()
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper, SessionKeeper(other, ttl=TTL, clock=CLOCK) as theirs:
        first = lead(store, keeper)
        Election(store, SCOPE, member="anna", clock=CLOCK).resign(first)
        second = lead(other, theirs, "bert")
        Election(other, SCOPE, member="bert", clock=CLOCK).resign(second)
        third = lead(store, keeper)
        assert [first.epoch, second.epoch, third.epoch] == [1, 2, 3]
        with pytest.raises(GuardFailed):
            store.commit(SCOPE, guards=first.guards(), writes=[Put(A, b"late", None)])
        commit_under(store, third, writes=[Put(A, b"now", None)], clock=CLOCK)


def test_a_removal_that_comes_late_spares_a_record_that_was_made_anew(rig: KubernetesRig, gate: ApiGate) -> None:
    """The observer's second step is on its way, while the same member opens a session and joins again."""
    observer, store, doomed = rig.through(gate), rig.store(), rig.store()
    session = doomed.open_session(ttl=timedelta(seconds=1))
    doomed.commit(SCOPE, guards=[], writes=[Put(A, b"old", None, session.id)])
    rig.kill(doomed)
    anew: list[str] = []

    def remade() -> None:
        fresh = store.open_session(ttl=TTL)
        stale = store.read(SCOPE, A)
        writes: list[Put | Delete] = [Put(A, b"new", None if stale is None else stale.version, fresh.id)]
        store.commit(SCOPE, guards=[], writes=writes)
        anew.append(fresh.id)

    late = gate.before(COMMIT, remade)
    observer.list(SCOPE)  # from now on it looks
    wait_until(late.used.is_set, what="the removal")
    wait_until(lambda: session.id not in json.loads(about(rig))["sessions"], what="the end of the session")
    assert record(store).session == anew[0]
    assert record(store).value == b"new"


def about(rig: KubernetesRig) -> str:
    return str(Hands(rig).config_map()["data"]["_tenure"])


def test_a_session_that_an_observer_ends_before_its_first_record_writes_none(
    rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate
) -> None:
    """The owner has proved that it lives, and is stopped before it writes."""
    put(rig.store())
    session = gated.open_session(ttl=timedelta(seconds=1))
    observer = rig.store()
    observer.open_session(ttl=TTL)  # it follows the Leases

    def ends() -> None:
        wait_until(lambda: session.id not in observer_leases(rig), what="the end of the session")

    gate.before(COMMIT, ends)
    with pytest.raises(SessionEnded):
        gated.commit(SCOPE, guards=[], writes=[Put(B, b"late", None, session.id)])
    assert rig.store().read(SCOPE, B) is None


def observer_leases(rig: KubernetesRig) -> set[str]:
    return {lease["metadata"]["name"].partition(".")[2] for lease in Hands(rig).leases()}


# --- hands that edit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "text"),
    [("a", "nonsense"), ("_tenure", None), ("_tenure", '{"v": 9}'), ("un_known", "{}"), ("a", '{"version":"1"}')],
)
def test_nonsense_in_a_config_map_is_named(rig: KubernetesRig, hands: Hands, entry: str, text: str | None) -> None:
    store = rig.store()
    put(store)
    hands.edit(entry, text)
    for ask in (lambda: store.list(SCOPE), lambda: put(store, B)):
        with pytest.raises((CorruptRecord, GuardFailed)) as told:
            ask()
        assert isinstance(told.value, CorruptRecord)
        assert f"{rig.place.namespace}/tenure.shop" in str(told.value)


def test_a_config_map_that_is_deleted_ends_the_term(rig: KubernetesRig, hands: Hands) -> None:
    store = rig.store()
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper:
        term = lead(store, keeper)
        hands.delete_map()
        with pytest.raises(TermLost):
            commit_under(store, term, writes=[Put(A, b"", None)], clock=CLOCK)


def test_a_version_from_before_a_deletion_names_nothing_later(rig: KubernetesRig, hands: Hands) -> None:
    store = rig.store()
    version = put(store)
    hands.delete_map()
    assert put(store) != version
    with pytest.raises(GuardFailed):
        put(store, value=b"second", replaces=version)


def test_a_lease_that_is_deleted_ends_its_session(rig: KubernetesRig, hands: Hands) -> None:
    store, other = rig.store(), rig.store()
    session = store.open_session(ttl=TTL)
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    other.list(SCOPE)
    hands.delete_lease(f"tenure.{session.id}")
    with pytest.raises(SessionEnded):
        session.renew()
    wait_until(lambda: other.read(SCOPE, A) is None, what="the removal of its records")


def test_objects_of_others_are_left_alone(rig: KubernetesRig, hands: Hands) -> None:
    """They have similar names and even our labels, and nobody renews them."""
    labels = {"app.kubernetes.io/managed-by": "tenure", "app.kubernetes.io/instance": "tenure2"}
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 1}
    hands.add("Lease", "tenure.theirs", spec=spec)
    hands.add("Lease", "tenure2.theirs", spec=spec, metadata={"labels": labels})
    hands.add(
        "Lease", "other.theirs", spec=spec, metadata={"labels": {**labels, "app.kubernetes.io/instance": "tenure"}}
    )
    hands.add("ConfigMap", "tenure", data={"a": "theirs"})
    hands.add("ConfigMap", "tenure.shop2", data={"a": "theirs"})
    before = hands.all()
    store, other = rig.store(), rig.store()
    doomed = store.open_session(ttl=timedelta(seconds=1))
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, doomed.id)])
    wait_until(lambda: other.read(SCOPE, A) is None, what="the end of a session that nobody renews")
    after = hands.all()
    assert {name: after.get(name) for name in before} == before


def test_labels_and_owners_that_others_add_are_kept(rig: KubernetesRig, hands: Hands) -> None:
    store = rig.store()
    version = put(store)
    rig.server.ask("PATCH", hands.map_path, {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    put(store, value=b"second", replaces=version)
    metadata = hands.config_map()["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("x", "y")


def test_a_scope_that_grows_too_large_is_refused_before_the_server_does(rig: KubernetesRig) -> None:
    store = rig.store()
    large = b"x" * store.guarantees.max_record_bytes
    for number in range(3):
        put(store, Key(f"large/{number}"), large)
    with pytest.raises(CommitRefused, match="900000"):
        put(store, Key("large/last"), large)
    assert len(store.list(SCOPE).records) == 3


def test_records_are_readable(rig: KubernetesRig, hands: Hands) -> None:
    store = rig.store()
    put(store, Key("checkpoints/by=hour/v1.2_x"), b'{"epoch":3,"v":1}')
    data = hands.config_map()["data"]
    assert json.loads(data["checkpoints.by_-hour.v1_.2__x"])["value"] == {"epoch": 3, "v": 1}


def test_a_holder_says_what_it_does(rig: KubernetesRig, hands: Hands) -> None:
    session = rig.store().open_session(ttl=TTL)
    session.describe("anna leads shop, epoch 3")
    session.renew()
    session.renew()
    assert [lease["spec"]["holderIdentity"] for lease in hands.leases()] == ["anna leads shop, epoch 3"]


# --- servers that go and come back ----------------------------------------------------------------------------------


@pytest.fixture
def held(rig: KubernetesRig) -> Iterator[Callable[[], None]]:
    """A term with a ttl of ten seconds, and a standby that looks on. It is called to see that the term lives."""
    store, standby = rig.store(), rig.store()
    with ExitStack() as stack:
        keeper = stack.enter_context(SessionKeeper(store, ttl=TTL, clock=CLOCK))
        term = lead(store, keeper)
        standby.glance(SCOPE)
        versions: list[Version | None] = [None]

        def lives() -> None:
            written = commit_under(store, term, writes=[Put(A, b"x", versions[-1])], clock=CLOCK)
            versions.append(written.versions[A])
            assert standby.read(SCOPE, Key("leader")) is not None
            assert not term.lost

        lives()
        yield lives


def test_a_term_outlives_a_restart_of_the_server(held: Callable[[], None], kubernetes: KubernetesServer) -> None:
    kubernetes.nodes[0].kill()
    kubernetes.start()
    held()


def test_a_term_outlives_a_server_that_is_paused_for_less_than_its_ttl(
    held: Callable[[], None], kubernetes: KubernetesServer
) -> None:
    kubernetes.nodes[0].pause()
    CLOCK.sleep(4)
    kubernetes.nodes[0].wake()
    held()


def test_a_term_outlives_a_new_certificate(held: Callable[[], None], kubernetes: KubernetesServer) -> None:
    for new_authority in (False, True):
        kubernetes.renew_certificate(new_authority=new_authority)
        held()


def test_a_token_that_is_rotated_is_read_again(rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate) -> None:
    version = put(gated)
    gate.token = rig.new_token()  # the file has it, and the token before it is refused
    put(gated, value=b"second", replaces=version)
    gate.token = "of somebody else"
    with pytest.raises(AccessDenied, match="token"):
        put(gated, value=b"third", replaces=record(rig.store()).version)


def test_a_watch_goes_on_after_what_it_knew_is_compacted(
    rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate, kubernetes: KubernetesServer
) -> None:
    other = rig.store()
    version = put(other)
    listing = gated.list(SCOPE)
    with gated.watch(SCOPE, after=listing.revision) as changes:
        gate.break_lines()
        gate.refuse(r"GET .*watch=true", 410)
        put(other, value=b"second", replaces=version)
        assert until_woken(changes.wait)
    assert gated.glance(SCOPE).records[0].value == b"second"


def until_woken(wait: Callable[..., Any]) -> bool:
    def woken() -> bool:
        try:
            return wait(timeout=NEVER) is not None
        except StoreUnavailable:
            return False

    return wait_until(woken, what="a change")


# --- frugality ------------------------------------------------------------------------------------------------------


def test_a_commit_is_one_request(gated: KubernetesStore, gate: ApiGate) -> None:
    version = put(gated)
    before = gate.requests.copy()
    for number in range(10):
        version = put(gated, value=str(number).encode(), replaces=version)
    assert gate.requests - before == {"PUT configmaps": 10}


def test_a_glance_is_no_request(rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate) -> None:
    other = rig.store()
    version = put(other)
    wait_until(lambda: gated.glance(SCOPE).records and "WATCH configmaps" in gate.requests, what="a watch")
    wait_until(lambda: quiet(gated, gate), what="glances without a request")
    put(other, value=b"second", replaces=version)
    wait_until(lambda: gated.glance(SCOPE).records[0].value == b"second", what="the news")


def quiet(store: KubernetesStore, gate: ApiGate) -> bool:
    before = gate.requests["GET configmaps"]
    for _ in range(100):
        store.glance(SCOPE)
    return gate.requests["GET configmaps"] == before


def test_what_a_member_says_of_itself_never_collides_with_a_batch(
    rig: KubernetesRig, gated: KubernetesStore, gate: ApiGate
) -> None:
    standby = rig.store()
    session = standby.open_session(ttl=TTL)
    standby.commit(SCOPE, guards=[], writes=[Put(B, b"0", None, session.id)])
    version = put(gated)
    for number in range(20):
        session.amend(SCOPE, B, str(number).encode())
        version = put(gated, value=str(number).encode(), replaces=version)
    assert gate.statuses[409] == 0
    wait_until(lambda: record(gated, B).value == b"19", what="the last words of the standby")


def test_refusals_of_the_gate_are_the_tests_own(kubernetes: KubernetesServer) -> None:
    with pytest.raises(HTTPError):
        kubernetes.ask("GET", "/api/v1/namespaces/none/configmaps/none")
