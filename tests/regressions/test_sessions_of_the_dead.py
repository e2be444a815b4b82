"""Leadership after a death, for a process that waits shorter than the ttl, has the name of the dead member, or finds
its Lease without labels: nobody led, for ever."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import tenure
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put, Scope, SessionId
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tests.kit.servers import KubernetesServer
from tests.kit.waiting import NEVER, wait_until
from tests.stores import new_store
from tests.support.kubernetes_scene import Hands
from tests.support.store_fixtures import KubernetesRig

SCOPE = Scope("shop")
CLOCK = SystemClock()
TTL = timedelta(seconds=4)
SHORT = timedelta(seconds=1)


@contextlib.contextmanager
def killed_leader(store: CoordinationStore, member: str = "anna") -> Iterator[SessionId]:
    """The member leads, and its process is killed: its lines break, and its session is renewed no more."""
    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper:
        election = Election(store, SCOPE, member=member, clock=CLOCK)
        election.join(keeper, host="here", pid=1)
        assert election.campaign(keeper, stop=threading.Event()) is not None
        store.close()
        yield keeper.session_id


def leads(url: str, *, timeout: timedelta, member: str | None = None) -> bool:
    """Whether a service leads within `timeout`."""
    try:
        with tenure.lead(SCOPE, store=url, ttl=f"{TTL.total_seconds():g}s", member=member, timeout=timeout) as term:
            term.check()
    except TimeoutError:
        return False
    return True


@pytest.fixture
def rig(kubernetes: KubernetesServer) -> Iterator[KubernetesRig]:
    made = KubernetesRig(kubernetes)
    yield made
    made.close()


def url_of(rig: KubernetesRig) -> str:
    return f"kubernetes://{rig.place.namespace}/{rig.place.name}?kubeconfig={rig.place.kubeconfig}"


def test_who_waits_shorter_than_the_ttl_again_and_again_sees_a_death(rig: KubernetesRig) -> None:
    """Each call began to observe anew."""
    with killed_leader(rig.client()):
        wait_until(lambda: leads(url_of(rig), timeout=SHORT), what="a leader")


@pytest.mark.parametrize("kind", ["zookeeper", "etcd", "kubernetes"])
def test_a_service_that_is_killed_and_started_again_waits_for_its_own_former_session(
    request: pytest.FixtureRequest, kind: str, tmp_path: Path
) -> None:
    """It ended with UsageError, which tells a supervisor not to start it again; on Kubernetes for ever, since no
    observer lived for long enough."""
    url = new_store(request, kind, tmp_path)
    with killed_leader(open_store(url, clock=CLOCK)):
        wait_until(lambda: leads(url, timeout=SHORT, member="anna"), what="the end of the former session")


def test_a_lease_is_judged_by_the_name_that_a_scope_has(rig: KubernetesRig) -> None:
    """Without its label the watch shows it no more. A ConfigMap without its label gets it back by the next commit."""
    hands = Hands(rig)
    with killed_leader(rig.client()) as session:
        unlabel(rig, lease_path(rig, session))
        unlabel(rig, hands.map_path)
        assert leads(url_of(rig), timeout=NEVER)
    assert hands.config_map()["metadata"]["labels"] == {"tenure.store": "tenure"}


def test_a_living_session_gets_its_label_back(rig: KubernetesRig) -> None:
    session = rig.store().open_session(ttl=TTL)
    unlabel(rig, lease_path(rig, session.id))
    session.renew()
    assert [lease["metadata"]["labels"] for lease in Hands(rig).leases()] == [
        {"tenure.store": "tenure", "tenure.scope": "none"}
    ]


def test_argo_cd_takes_no_object_for_its_own(rig: KubernetesRig) -> None:
    """By its labels it selected them for an application with the name of the store, and removed them."""
    hands, store = Hands(rig), rig.store()
    session = store.open_session(ttl=TTL)
    store.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"", None, session.id)])
    made = [*hands.leases(), hands.config_map()]
    assert [{*one["metadata"]["labels"]} for one in made] == [{"tenure.store", "tenure.scope"}, {"tenure.store"}]
    for one in made:
        notes = one["metadata"]["annotations"]
        assert notes["argocd.argoproj.io/sync-options"] == "Prune=false"
        assert notes["argocd.argoproj.io/compare-options"] == "IgnoreExtraneous"


def lease_path(rig: KubernetesRig, session: SessionId) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{rig.place.namespace}/leases/tenure.{session}"


def unlabel(rig: KubernetesRig, path: str) -> None:
    """Take the labels of the store off an object."""
    rig.server.ask("PATCH", path, {"metadata": {"labels": {"tenure.store": None, "tenure.scope": None}}})
