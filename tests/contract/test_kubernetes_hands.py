"""The store on a real API server whose objects others edit, remove and add to."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from tenure.coordination.records import Key, Put
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import commit_under
from tenure.errors import (
    CommitRefused,
    CorruptRecord,
    GuardFailed,
    SessionEnded,
    TermLost,
)
from tests.draw import only_if_drawn
from tests.kit.waiting import NEVER, wait_until
from tests.support.kubernetes_scene import CLOCK, SCOPE, TTL, A, B, Hands, lead, put
from tests.support.store_fixtures import KubernetesRig

pytestmark = only_if_drawn("kubernetes")


# --- hands that edit --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "text"),
    [("a", "nonsense"), ("_tenure", None), ("_tenure", '{"v": 9}'), ("un_known", "{}"), ("a", '{"version":"1"}')],
)
def test_nonsense_in_a_config_map_is_named(kube_rig: KubernetesRig, hands: Hands, entry: str, text: str | None) -> None:
    store = kube_rig.store()
    put(store)
    hands.edit(entry, text)
    for ask in (lambda: store.list(SCOPE), lambda: put(store, B)):
        with pytest.raises((CorruptRecord, GuardFailed)) as told:
            ask()
        assert isinstance(told.value, CorruptRecord)
        assert f"{kube_rig.place.namespace}/tenure.shop" in str(told.value)


def test_a_config_map_that_is_deleted_ends_the_term(kube_rig: KubernetesRig, hands: Hands) -> None:
    store = kube_rig.store()
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper:
        term = lead(store, keeper)
        hands.delete_map()
        with pytest.raises(TermLost):
            commit_under(store, term, writes=[Put(A, b"", None)], clock=CLOCK)


def test_a_version_from_before_a_deletion_names_nothing_later(kube_rig: KubernetesRig, hands: Hands) -> None:
    store = kube_rig.store()
    version = put(store)
    hands.delete_map()
    assert put(store) != version
    with pytest.raises(GuardFailed):
        put(store, value=b"second", replaces=version)


def test_a_config_map_that_is_deleted_and_made_anew_is_news(kube_rig: KubernetesRig, hands: Hands) -> None:
    """Its revisions begin anew, so they are smaller than those that a waiter knows."""
    store = kube_rig.store()
    put(store, value=b"second", replaces=put(store))
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes:
        hands.delete_map()
        assert changes.wait(timeout=NEVER) is not None
        put(kube_rig.store(), value=b"anew")
        assert changes.wait(timeout=NEVER) is not None
        assert [record.value for record in store.glance(SCOPE).records] == [b"anew"]


def test_a_lease_that_is_deleted_ends_its_session(kube_rig: KubernetesRig, hands: Hands) -> None:
    store, other = kube_rig.store(), kube_rig.store()
    session = store.open_session(ttl=TTL)
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    other.list(SCOPE)
    hands.delete_lease(f"tenure.{session.id}")
    with pytest.raises(SessionEnded):
        session.renew()
    wait_until(lambda: other.read(SCOPE, A) is None, what="the removal of its records")


def test_a_lease_that_was_ended_is_never_renewed(kube_rig: KubernetesRig, hands: Hands) -> None:
    session = kube_rig.store().open_session(ttl=TTL)
    hands.end_lease(f"tenure.{session.id}")
    with pytest.raises(SessionEnded):
        session.renew()


def test_a_lease_that_was_deleted_while_nobody_looked_is_missed(kube_rig: KubernetesRig, hands: Hands) -> None:
    store = kube_rig.store()
    session = store.open_session(ttl=TTL)
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    kube_rig.kill(store)
    hands.delete_lease(f"tenure.{session.id}")
    other = kube_rig.store()
    other.glance(SCOPE)
    wait_until(lambda: other.glance(SCOPE).records == (), what="the removal of its records")


def test_objects_of_others_are_left_alone(kube_rig: KubernetesRig, hands: Hands) -> None:
    """They have similar names and even our label, and nobody renews them."""
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 1}
    hands.add("Lease", "tenure.theirs", spec=spec)
    hands.add("Lease", "tenure2.theirs", spec=spec, metadata={"labels": {"tenure.store": "tenure2"}})
    hands.add("Lease", "other.theirs", spec=spec, metadata={"labels": {"tenure.store": "tenure"}})
    hands.add("ConfigMap", "tenure", data={"a": "theirs"})
    hands.add("ConfigMap", "tenure.shop2", data={"a": "theirs"})
    before = hands.all()
    store, other = kube_rig.store(), kube_rig.store()
    doomed = store.open_session(ttl=timedelta(seconds=1))
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, doomed.id)])
    wait_until(lambda: other.read(SCOPE, A) is None, what="the end of a session that nobody renews")
    after = hands.all()
    assert {name: after.get(name) for name in before} == before


def test_labels_and_owners_that_others_add_are_kept(kube_rig: KubernetesRig, hands: Hands) -> None:
    store = kube_rig.store()
    version = put(store)
    kube_rig.server.ask("PATCH", hands.map_path, {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    put(store, value=b"second", replaces=version)
    metadata = hands.config_map()["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("x", "y")


def test_a_scope_that_grows_too_large_is_refused_before_the_server_does(kube_rig: KubernetesRig) -> None:
    store = kube_rig.store()
    large = b"x" * store.guarantees.max_record_bytes
    for number in range(6):
        put(store, Key(f"large/{number}"), large)
    with pytest.raises(CommitRefused, match="900000"):
        put(store, Key("large/last"), large)
    assert len(store.list(SCOPE).records) == 6


def test_records_are_readable(kube_rig: KubernetesRig, hands: Hands) -> None:
    store = kube_rig.store()
    put(store, Key("checkpoints/by=hour/v1.2_x"), b'{"epoch":3,"v":1}')
    data = hands.config_map()["data"]
    assert json.loads(data["checkpoints.by_-hour.v1_.2__x"])["value"] == {"epoch": 3, "v": 1}


def test_a_holder_says_what_it_does(kube_rig: KubernetesRig, hands: Hands) -> None:
    session = kube_rig.store().open_session(ttl=TTL, purpose="member anna of scope shop")
    session.renew()
    assert [lease["spec"]["holderIdentity"] for lease in hands.leases()] == ["member anna of scope shop"]
