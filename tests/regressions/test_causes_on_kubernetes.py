"""What forbids a request to the API server, other than a missing right: the error names that cause and its fix. It told
the operator to give the account a right that the account had, or it told nobody at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.error import HTTPError

import pytest

import tenure
from tenure.agent.member import Conduct, Member
from tenure.coordination.candidates import Identity
from tenure.coordination.encoding import new_uid
from tenure.coordination.term import Term
from tenure.errors import AccessDenied
from tenure.events import Event, Events, LeadershipAwaited, StoreAway, TermEnded
from tenure.link.driver import Ended
from tenure.scope_context import ScopeContext
from tests.kit.servers import KubernetesServer
from tests.kit.waiting import NEVER, NEVER_S, wait_until
from tests.support.kubernetes_scene import CLOCK, SCOPE, TTL, Hands
from tests.support.store_fixtures import KubernetesRig
from tests.unit.agent.scene import Scripted


@pytest.fixture
def rig(kubernetes: KubernetesServer) -> Iterator[KubernetesRig]:
    made = KubernetesRig(kubernetes)
    yield made
    made.close()


def url_of(rig: KubernetesRig) -> str:
    return f"kubernetes://{rig.place.namespace}/{rig.place.name}?kubeconfig={rig.place.kubeconfig}"


def refusal(rig: KubernetesRig) -> AccessDenied:
    """The error of a service that wants to lead."""
    with pytest.raises(AccessDenied) as refused, tenure.lead(SCOPE, store=url_of(rig), timeout=NEVER):
        pass
    assert "\n" not in str(refused.value)
    return refused.value


def test_a_namespace_that_is_being_deleted(rig: KubernetesRig) -> None:
    rig.server.ask("DELETE", f"/api/v1/namespaces/{rig.place.namespace}")
    told = refusal(rig)
    assert f"new content in namespace {rig.place.namespace} because it is being terminated" in told.what
    assert told.fix == "name another namespace, or create this one again when it is gone"


def test_a_quota(rig: KubernetesRig) -> None:
    hard = {"count/leases.coordination.k8s.io": "0"}
    path = f"/api/v1/namespaces/{rig.place.namespace}/resourcequotas"
    rig.server.ask("POST", path, {"metadata": {"name": "few"}, "spec": {"hard": hard}})
    rig.server.ask("PATCH", f"{path}/few/status", {"status": {"hard": hard, "used": hard}})
    told = refusal(rig)
    assert "exceeded quota: few" in told.what
    assert told.fix == "raise the ResourceQuota of the namespace, or delete objects that it counts"


def test_an_admission_policy(rig: KubernetesRig) -> None:
    name = forbid_leases(rig)
    told = refusal(rig)
    assert f"ValidatingAdmissionPolicy '{name}'" in told.what
    assert told.fix == "exempt the objects with the label tenure.store from that rule of the cluster"


def forbid_leases(rig: KubernetesRig) -> str:
    """A policy that refuses each Lease of the namespace, once it has effect."""
    name, namespace = f"no-leases-{new_uid()[:12]}", rig.place.namespace
    version, folder = "admissionregistration.k8s.io/v1", "/apis/admissionregistration.k8s.io/v1"
    what = {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    only = {"resourceRules": [{**what, "resources": ["leases"]}], "namespaceSelector": where}
    policy = {"matchConstraints": only, "validations": [{"expression": "false", "message": "no Leases here"}]}
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        plural = f"{kind[:-1]}ies" if kind.endswith("Policy") else f"{kind}s"
        given = {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        rig.server.ask("POST", f"{folder}/{plural.lower()}", given)
    lease = {"metadata": {"name": "tried"}, "spec": {"holderIdentity": "test"}}
    tried = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?dryRun=All"

    def has_effect() -> bool:
        try:
            rig.server.ask("POST", tried, lease)
        except HTTPError:
            return True
        return False

    wait_until(has_effect, what="the effect of the policy")
    return name


def test_a_config_map_that_was_made_immutable(rig: KubernetesRig) -> None:
    """The leader could not resign, and said so to nobody; the standby waited for it without a word."""
    hands, told, stop = Hands(rig), list[Event](), threading.Event()

    def member(name: str, driver: Scripted) -> Member:
        context = ScopeContext(rig.store(), SCOPE, "memory://nothing", CLOCK, Events(told.append))
        return Member(context, identity=Identity(name, "here", 7), driver=driver, conduct=Conduct(TTL))

    standby = threading.Thread(target=lambda: member("bert", Scripted()).run(stop=stop))

    def lead(term: Term) -> Ended:
        standby.start()
        wait_until(lambda: any(isinstance(event, LeadershipAwaited) for event in told), what="a standby")
        rig.server.ask("PATCH", hands.map_path, {"immutable": True})
        return Ended.IDLE

    member("anna", Scripted(lead)).run(stop=threading.Event())
    (over,) = [event for event in told if isinstance(event, TermEnded)]
    assert "not resigned, it ends with the session: the API server does not" in over.why
    wait_until(lambda: any(isinstance(event, StoreAway) for event in told), what="a word of the standby")
    stop.set()
    standby.join(NEVER_S)
    away = next(event for event in told if isinstance(event, StoreAway))
    for words in (over.why, away.why):
        assert "field is immutable when `immutable` is set" in words
        assert "create the ConfigMap anew, with its data and without `immutable`" in words


def test_a_service_that_cannot_give_its_term_up_says_why(rig: KubernetesRig, caplog: pytest.LogCaptureFixture) -> None:
    with tenure.lead(SCOPE, store=url_of(rig), timeout=NEVER):
        rig.server.ask("PATCH", Hands(rig).map_path, {"immutable": True})
    assert "term 1 of scope 'shop' is not given up, it ends with the session: the API server does not" in caplog.text
    assert "field is immutable" in caplog.text
