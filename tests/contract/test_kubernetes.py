"""The store on a real API server: answers that are lost, refusals, commits that meet, requests that are spared."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from urllib.error import HTTPError

import pytest

from tenure.backends.kubernetes import KubernetesStore
from tenure.coordination.election import Election
from tenure.coordination.records import Delete, Exact, Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.settle import commit_settled
from tenure.coordination.term import commit_under
from tenure.errors import (
    AccessDenied,
    GuardFailed,
    OutcomeUnknown,
    SessionEnded,
    StoreUnavailable,
)
from tests.kit.servers import KubernetesServer
from tests.kit.waiting import wait_until
from tests.support.api_gate import ApiGate
from tests.support.kubernetes_scene import CLOCK, SCOPE, TTL, A, B, Hands, lead, put, record
from tests.support.store_fixtures import KubernetesRig

COMMIT = r"PUT .*/configmaps/"


# --- answers that are lost --------------------------------------------------------------------------------------------


def test_a_replace_whose_answer_is_lost_is_settled(gated: KubernetesStore, api_gate: ApiGate) -> None:
    version = put(gated)
    writes = [Put(A, b"second", version)]
    api_gate.lose_answer(COMMIT)
    with pytest.raises(OutcomeUnknown):
        gated.commit(SCOPE, guards=[], writes=writes)
    api_gate.lose_answer(COMMIT)
    version = record(gated).version
    settled = commit_settled(
        gated, SCOPE, guards=[], writes=[Put(A, b"third", version)], go_on=lambda: True, clock=CLOCK
    )
    assert settled.versions[A] == record(gated).version
    assert record(gated).value == b"third"


def test_a_creation_whose_answer_is_lost_is_settled(gated: KubernetesStore, api_gate: ApiGate) -> None:
    lost = api_gate.lose_answer(r"POST .*/configmaps")
    settled = commit_settled(gated, SCOPE, guards=[], writes=[Put(A, b"x", None)], go_on=lambda: True, clock=CLOCK)
    assert lost.used.is_set()
    assert settled.versions[A] == record(gated).version


def test_a_renewal_whose_answer_is_lost_counts_by_the_next(gated: KubernetesStore, api_gate: ApiGate) -> None:
    session = gated.open_session(ttl=TTL)
    api_gate.lose_answer(r"PUT .*/leases/")
    with pytest.raises(OutcomeUnknown):
        session.renew()
    session.renew()


def test_a_session_whose_first_record_got_no_answer_joins_once(gated: KubernetesStore, api_gate: ApiGate) -> None:
    session = gated.open_session(ttl=TTL)
    api_gate.lose_answer(r"PUT .*/leases/")  # the Lease names the scope before the record is written
    with pytest.raises(StoreUnavailable):
        gated.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    gated.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    assert record(gated).session == session.id


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 504])
def test_a_server_that_fails_leaves_a_commit_unknown_and_a_read_not_made(
    gated: KubernetesStore, api_gate: ApiGate, status: int
) -> None:
    version = put(gated)
    api_gate.refuse(COMMIT, status)
    with pytest.raises(OutcomeUnknown):
        put(gated, value=b"second", replaces=version)
    api_gate.refuse(r"GET .*/configmaps/", status)
    with pytest.raises(StoreUnavailable):
        gated.read(SCOPE, A)
    put(gated, value=b"second", replaces=version)


def test_a_server_that_is_busy_is_asked_again_when_it_says(gated: KubernetesStore, api_gate: ApiGate) -> None:
    version = put(gated)
    busy = api_gate.refuse(COMMIT, 429, headers={"Retry-After": "1"}, times=2)
    put(gated, value=b"second", replaces=version)
    assert busy.used.is_set()
    api_gate.refuse(COMMIT, 429, headers={"Retry-After": "1"}, times=1000)
    with pytest.raises(StoreUnavailable):
        put(gated, value=b"third", replaces=record(gated).version)
    assert record(gated).value == b"second"


def test_a_term_outlives_refusals_that_are_shorter_than_its_ttl(gated: KubernetesStore, api_gate: ApiGate) -> None:
    with SessionKeeper(gated, ttl=TTL, clock=CLOCK) as keeper:
        term = lead(gated, keeper)
        failing = api_gate.refuse(r"(PUT|GET) ", 500, times=10)
        commit_under(gated, term, writes=[Put(A, b"", None)], clock=CLOCK)
        assert failing.used.is_set()
        assert not term.lost


def test_a_right_that_was_granted_before_is_missed_for_a_moment_only(gated: KubernetesStore, api_gate: ApiGate) -> None:
    version = put(gated, value=b"second", replaces=put(gated))
    api_gate.refuse(COMMIT, 403, times=3)
    put(gated, value=b"third", replaces=version)


def test_who_has_no_rights_is_told_at_once(kube_rig: KubernetesRig) -> None:
    with closing(kube_rig.as_user("nobody")) as store, pytest.raises(AccessDenied, match="configmaps"):
        store.list(SCOPE)


def test_a_namespace_that_is_not_there_is_named(kube_rig: KubernetesRig) -> None:
    with closing(kube_rig.in_namespace("no-such-namespace")) as store, pytest.raises(StoreUnavailable, match="no-such"):
        put(store)


# --- conflicts and fencing --------------------------------------------------------------------------------------------


def test_a_commit_that_others_overtake_is_evaluated_again(
    kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate
) -> None:
    other = kube_rig.store()
    version = put(gated)
    api_gate.before(COMMIT, lambda: put(other, B))
    put(gated, value=b"second", replaces=version)
    assert (record(gated).value, record(gated, B).value) == (b"second", b"first")
    now = record(gated).version
    api_gate.before(COMMIT, lambda: put(other, value=b"theirs", replaces=now))
    with pytest.raises(GuardFailed) as refused:
        put(gated, value=b"mine", replaces=now)
    assert refused.value.guard == Exact(A, now)
    assert record(gated).value == b"theirs"


def test_a_refusal_is_judged_on_the_state_of_now(kube_rig: KubernetesRig) -> None:
    store, other = kube_rig.store(), kube_rig.store()
    version = put(other, value=b"second", replaces=put(store))
    put(store, value=b"third", replaces=version)  # it has never read this version
    assert record(other).value == b"third"


def test_an_owner_that_renews_while_it_is_ended_wins(kube_rig: KubernetesRig, api_gate: ApiGate) -> None:
    owner, observer = kube_rig.through(api_gate), kube_rig.through(api_gate)
    session = owner.open_session(ttl=timedelta(seconds=2))
    owner.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    turn, renewed = threading.Lock(), threading.Event()

    def renew_once() -> None:
        with turn:
            if not renewed.is_set():
                session.renew()
                renewed.set()

    # The clients of a process share what they saw, so the owner's own client ends it at the same moment.
    ended = r'"holderIdentity": ?""'
    ends = api_gate.before(rf"PUT .*/leases/tenure.{session.id}", renew_once, body=ended, times=2)
    observer.list(SCOPE)  # from now on it looks, as the owner's own client does
    wait_until(ends.used.is_set, what="the end of the session")
    wait_until(lambda: api_gate.statuses[409], what="the conflict")
    assert record(observer).session == session.id
    session.renew()


def test_a_write_of_an_earlier_term_of_the_same_member_is_refused(kube_rig: KubernetesRig) -> None:
    store, other = kube_rig.store(), kube_rig.store()
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


def test_a_removal_that_comes_late_spares_a_record_made_anew(kube_rig: KubernetesRig, api_gate: ApiGate) -> None:
    """The observer's second step is on its way, while the same member opens a session and joins again."""
    observer, store, doomed = kube_rig.through(api_gate), kube_rig.store(), kube_rig.store()
    session = doomed.open_session(ttl=timedelta(seconds=1))
    doomed.commit(SCOPE, guards=[], writes=[Put(A, b"old", None, session.id)])
    kube_rig.kill(doomed)
    anew: list[str] = []

    def remade() -> None:
        fresh = store.open_session(ttl=TTL)
        stale = store.read(SCOPE, A)
        writes: list[Put | Delete] = [Put(A, b"new", None if stale is None else stale.version, fresh.id)]
        store.commit(SCOPE, guards=[], writes=writes)
        anew.append(fresh.id)

    late = api_gate.before(COMMIT, remade)
    observer.list(SCOPE)  # from now on it looks
    wait_until(late.used.is_set, what="the removal")
    wait_until(lambda: session.id not in json.loads(about(kube_rig))["sessions"], what="the end of the session")
    assert record(store).session == anew[0]
    assert record(store).value == b"new"


def about(kube_rig: KubernetesRig) -> str:
    return str(Hands(kube_rig).config_map()["data"]["_tenure"])


def test_a_session_that_an_observer_ends_before_its_first_record_writes_none(
    kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate
) -> None:
    """The owner has proved that it lives, and is stopped before it writes."""
    put(kube_rig.store())
    session = gated.open_session(ttl=timedelta(seconds=1))
    observer = kube_rig.store()
    observer.open_session(ttl=TTL)  # it follows the Leases

    def ends() -> None:
        wait_until(lambda: session.id not in observer_leases(kube_rig), what="the end of the session")

    api_gate.before(COMMIT, ends)
    with pytest.raises(SessionEnded):
        gated.commit(SCOPE, guards=[], writes=[Put(B, b"late", None, session.id)])
    assert kube_rig.store().read(SCOPE, B) is None


def observer_leases(kube_rig: KubernetesRig) -> set[str]:
    return {lease["metadata"]["name"].partition(".")[2] for lease in Hands(kube_rig).leases()}


# --- frugality --------------------------------------------------------------------------------------------------------


def test_a_commit_is_one_request(gated: KubernetesStore, api_gate: ApiGate) -> None:
    version = put(gated)
    before = api_gate.requests.copy()
    for number in range(10):
        version = put(gated, value=str(number).encode(), replaces=version)
    assert api_gate.requests - before == {"PUT configmaps": 10}


def test_threads_of_one_client_do_not_overtake_each_other(gated: KubernetesStore, api_gate: ApiGate) -> None:
    def write(key: Key) -> None:
        version = put(gated, key)
        for number in range(20):
            version = put(gated, key, str(number).encode(), version)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, (A, B, Key("c"))))
    assert api_gate.statuses[409] == 0


def test_a_glance_is_no_request(kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate) -> None:
    other = kube_rig.store()
    version = put(other)
    wait_until(lambda: gated.glance(SCOPE).records and "WATCH configmaps" in api_gate.requests, what="a watch")
    wait_until(lambda: quiet(gated, api_gate), what="glances without a request")
    put(other, value=b"second", replaces=version)
    wait_until(lambda: gated.glance(SCOPE).records[0].value == b"second", what="the news")


def quiet(store: KubernetesStore, api_gate: ApiGate) -> bool:
    before = api_gate.requests["GET configmaps"]
    for _ in range(100):
        store.glance(SCOPE)
    return api_gate.requests["GET configmaps"] == before


def test_what_a_member_says_of_itself_never_collides_with_a_batch(
    kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate
) -> None:
    standby = kube_rig.store()
    session = standby.open_session(ttl=TTL)
    standby.commit(SCOPE, guards=[], writes=[Put(B, b"0", None, session.id)])
    version = put(gated)
    for number in range(20):
        session.amend(SCOPE, B, str(number).encode())
        version = put(gated, value=str(number).encode(), replaces=version)
    assert api_gate.statuses[409] == 0
    wait_until(lambda: record(gated, B).value == b"19", what="the last words of the standby")


def test_refusals_of_the_gate_are_the_tests_own(kubernetes: KubernetesServer) -> None:
    with pytest.raises(HTTPError):
        kubernetes.ask("GET", "/api/v1/namespaces/none/configmaps/none")


def test_a_client_follows_the_sessions_of_its_own_scopes(kube_rig: KubernetesRig) -> None:
    """Else each renewal of each pipeline would be an event for every member of every pipeline."""
    here, elsewhere, store = kube_rig.store(), kube_rig.store(), kube_rig.store()
    sessions = {}
    for client, scope in ((here, SCOPE), (elsewhere, Scope("elsewhere"))):
        session = client.open_session(ttl=timedelta(seconds=60))
        client.commit(scope, guards=[], writes=[Put(A, b"", None, session.id)])
        sessions[scope] = session.id
    assert [record.session for record in store.glance(SCOPE).records] == [sessions[SCOPE]]
    wait_until(lambda: sessions[SCOPE] in store._observer._leases, what="the session of the scope")
    assert sessions[Scope("elsewhere")] not in store._observer._leases
    store.list(Scope("elsewhere"))
    wait_until(lambda: set(sessions.values()) <= set(store._observer._leases), what="the sessions of both scopes")
