"""The store on a real API server that is restarted, stopped and woken, with new certificates and tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.kubernetes import KubernetesStore
from tenure.coordination.records import Key, Put, Version
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import commit_under
from tenure.errors import (
    AccessDenied,
    OutcomeUnknown,
    StoreUnavailable,
)
from tests.draw import only_if_drawn
from tests.kit.servers import KubernetesServer
from tests.kit.waiting import NEVER, NEVER_S, wait_until
from tests.support.api_gate import ApiGate
from tests.support.kubernetes_scene import CLOCK, SCOPE, TTL, A, lead, put, record
from tests.support.store_fixtures import KubernetesRig

pytestmark = only_if_drawn("kubernetes")


LONG_TTL = timedelta(seconds=NEVER_S)
"""Nobody knows how long a server takes to start on a busy machine."""

# --- servers that go and come back ------------------------------------------------------------------------------------


@pytest.fixture(params=[TTL])
def held(kube_rig: KubernetesRig, request: pytest.FixtureRequest) -> Iterator[Callable[[], None]]:
    """A term with a ttl, and a standby that looks on. It is called to see that the term lives."""
    store, standby = kube_rig.store(), kube_rig.store()
    with ExitStack() as stack:
        keeper = stack.enter_context(SessionKeeper(store, ttl=request.param, clock=CLOCK))
        term = lead(store, keeper)
        standby.glance(SCOPE)
        versions: list[Version | None] = [None]

        def renewed() -> bool:
            assert keeper._session is not None
            with suppress(StoreUnavailable, OutcomeUnknown):
                keeper._session.renew()
                return True
            return False

        def lives() -> None:
            wait_until(renewed, what="a renewal")
            written = commit_under(store, term, writes=[Put(A, b"x", versions[-1])], clock=CLOCK)
            versions.append(written.versions[A])
            assert standby.read(SCOPE, Key("leader")) is not None
            assert not term.lost

        lives()
        yield lives


@pytest.mark.parametrize("held", [LONG_TTL], indirect=True)
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


def test_a_rotated_token_is_read_again(kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate) -> None:
    version = put(gated)
    api_gate.token = kube_rig.new_token()  # the file has it, and the token before it is refused
    put(gated, value=b"second", replaces=version)
    api_gate.token = "of somebody else"
    with pytest.raises(AccessDenied, match="token"):
        put(gated, value=b"third", replaces=record(kube_rig.store()).version)


def test_a_watch_goes_on_after_what_it_knew_is_compacted(
    kube_rig: KubernetesRig, gated: KubernetesStore, api_gate: ApiGate, kubernetes: KubernetesServer
) -> None:
    other = kube_rig.store()
    version = put(other)
    listing = gated.list(SCOPE)
    with gated.watch(SCOPE, after=listing.revision) as changes:
        wait_until(lambda: api_gate.requests["WATCH configmaps"], what="the first watch")
        gone = api_gate.refuse(r"GET .*/configmaps.*watch=true", 410, times=1_000_000)
        api_gate.before(r"GET .*/configmaps\?fieldSelector=[^&]*$", gone.end)  # only a new list helps
        api_gate.break_lines()
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
