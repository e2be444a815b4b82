"""Each right of the Role of members is needed: an account without it is refused at once, in a line that names it, and
not when the first member has died."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

import pytest

from tenure.agent.member import Conduct, Member
from tenure.backends.kubernetes import KubernetesStore, Place
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.records import Scope
from tenure.errors import AccessDenied, UsageError
from tenure.events import Event, Events, TermWon
from tenure.link.driver import Ended
from tenure.operate.orders import Orders
from tenure.scope_context import ScopeContext
from tests.draw import only_if_drawn
from tests.kit.servers import KubernetesServer
from tests.support.kubernetes import RULES, member_account, without
from tests.unit.agent.scene import Scripted

pytestmark = only_if_drawn("kubernetes")


SCOPE: Final = Scope("shop")
NEEDED: Final = [(verb, rule["resources"][0]) for rule in RULES for verb in rule["verbs"]]


def life_of_a_member(server: KubernetesServer, rules: tuple[Mapping[str, Any], ...]) -> list[Event]:
    """The events of a member with a made-up driver, alone."""
    namespace, told = server.new_namespace(), list[Event]()
    user = member_account(server, namespace, rules=rules)
    with closing(KubernetesStore(Place(namespace, "shop", kubeconfig=str(server.kubeconfig(user))))) as store:
        context = ScopeContext(store, SCOPE, "memory://nothing", SystemClock(), Events(told.append))
        member = Member(
            context,
            identity=Identity("anna", "here", 7),
            driver=Scripted(lambda term: Ended.IDLE),
            conduct=Conduct(timedelta(seconds=10)),
        )
        assert member.run(stop=threading.Event()) is Ended.IDLE
    return told


def test_all_rights_together_suffice(kubernetes: KubernetesServer) -> None:
    assert TermWon in map(type, life_of_a_member(kubernetes, RULES))


@pytest.mark.parametrize(("verb", "resource"), NEEDED)
def test_a_member_without_a_right_is_told_which(kubernetes: KubernetesServer, verb: str, resource: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        life_of_a_member(kubernetes, without(verb, resource))
    assert f'cannot {verb} resource "{resource}"' in refused.value.what
    assert refused.value.fix == "give the account this right"


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_a_glance_at_a_scope_that_cannot_be_followed_is_refused(kubernetes: KubernetesServer, verb: str) -> None:
    """It read the scope instead, so a leader heard of each order a second late, and asked every second."""
    namespace = kubernetes.new_namespace()
    user = member_account(kubernetes, namespace, rules=without(verb, "configmaps"))
    place = Place(namespace, "shop", kubeconfig=str(kubernetes.kubeconfig(user)))
    with closing(KubernetesStore(place)) as store, pytest.raises(AccessDenied, match=f"cannot {verb} resource"):
        store.glance(SCOPE)


def test_an_account_that_may_not_list_config_maps_is_told_so_when_it_asks_for_the_scopes(
    kubernetes: KubernetesServer,
) -> None:
    """Members need no such right: a request of theirs to a scope that is not there names no other scopes."""
    namespace = kubernetes.new_namespace()
    user = member_account(kubernetes, namespace, rules=without("list", "configmaps"))
    place = Place(namespace, "shop", kubeconfig=str(kubernetes.kubeconfig(user)))
    with closing(KubernetesStore(place)) as store:
        with pytest.raises(AccessDenied, match='cannot list resource "configmaps"'):
            store.scopes()
        with pytest.raises(UsageError, match="check --scope; only the first member of a new pipeline makes its scope"):
            Orders(store, SCOPE, clock=SystemClock()).pause()
        assert store.list(SCOPE).records == ()
