"""Each right of the Role of members is needed: an account without it is refused at once, in a line that names it, and
not when the first member has died."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any, Final

import pytest

from tenure.backends.kubernetes import KubernetesStore, Place
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import AccessDenied
from tenure.testing.servers import KubernetesServer
from tenure.testing.waiting import wait_until
from tests.support.kubernetes import RULES, member_account, without

SCOPE: Final = Scope("shop")
NEEDED: Final = [(verb, rule["resources"][0]) for rule in RULES for verb in rule["verbs"]]


def life_of_a_member(server: KubernetesServer, rules: tuple[Mapping[str, Any], ...]) -> None:
    """What a member asks of the store in its life, while an operator writes once."""
    namespace, key, order = server.new_namespace(), Key("leader"), Key("order")
    user = member_account(server, namespace, rules=rules)
    with (
        closing(KubernetesStore(Place(namespace, "shop", kubeconfig=str(server.kubeconfig(user))))) as store,
        closing(KubernetesStore(Place(namespace, "shop", kubeconfig=str(server.kubeconfig())))) as operator,
    ):
        session = store.open_session(ttl=timedelta(seconds=10))
        made = store.commit(SCOPE, guards=(), writes=(Put(key, b"1", None, session.id),))
        with closing(store.watch(SCOPE, after=made.revision)) as changes:
            operator.commit(SCOPE, guards=(), writes=(Put(order, b"pause", None),))
            wait_until(lambda: changes.wait(timeout=timedelta(seconds=1)) is not None, what="the order")
        assert store.read(SCOPE, order) is not None
        session.renew()
        session.close()


def test_all_rights_together_suffice(kubernetes: KubernetesServer) -> None:
    life_of_a_member(kubernetes, RULES)


@pytest.mark.parametrize(("verb", "resource"), NEEDED)
def test_a_member_without_a_right_is_told_which(kubernetes: KubernetesServer, verb: str, resource: str) -> None:
    with pytest.raises(AccessDenied) as refused:
        life_of_a_member(kubernetes, without(verb, resource))
    assert f'cannot {verb} resource "{resource}"' in refused.value.what
    assert refused.value.fix == "give the account this right"
