"""A primary and its synchronous standby: the primary is killed, stopped or cut off, the standby is promoted, and the
old primary comes back. No epoch is given twice, no acknowledged write is lost, no write of an old term is committed.
With an asynchronous standby, what is lost is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import OutcomeUnknown, OwnerMismatch, StoreUnavailable, TermLost
from tenure.ownership.owner import Owner
from tests.contract.contenders import CLOCK, LIMITS, SCOPE, TTL, Contenders
from tests.kit.servers import installed
from tests.kit.servers.postgres_pair import PostgresPair
from tests.kit.waiting import wait_until
from tests.support.proxy import TcpProxy


class FailoverScene:
    """A pair, whose primary the members reach through a proxy."""

    def __init__(self, pair: PostgresPair, stack: ExitStack) -> None:
        self.pair = pair
        self.proxy = stack.enter_context(TcpProxy(("127.0.0.1", pair.ports[0])))
        self._stack = stack
        self.contenders = Contenders(pair.hosts(self.proxy.port, pair.ports[1]))

    def store(self, *, schema: str = "tenure", old_alone: bool = False) -> CoordinationStore:
        """A client of both servers, or of the old primary alone."""
        ports = (self.proxy.port,) if old_alone else (self.proxy.port, self.pair.ports[1])
        url = f"{self.pair.hosts(*ports)}?schema={schema}&{LIMITS}"
        return self._stack.enter_context(closing(open_store(url, clock=CLOCK)))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[FailoverScene]:
    with installed(), PostgresPair(tmp_path / "pair") as pair, ExitStack() as stack:
        yield FailoverScene(pair, stack)


def killed(scene: FailoverScene) -> Callable[[], None]:
    old = scene.pair.nodes[0]
    old.kill()
    return old.start


def stopped(scene: FailoverScene) -> Callable[[], None]:
    old = scene.pair.nodes[0]
    old.pause()
    return old.wake


def cut_off(scene: FailoverScene) -> Callable[[], None]:
    """From its clients. Its standby leaves it with the promotion."""
    scene.proxy.hold()
    return scene.proxy.heal


@pytest.mark.parametrize("blow", [killed, stopped, cut_off])
def test_a_failover_loses_no_write_and_gives_no_epoch_twice(
    scene: FailoverScene, blow: Callable[[FailoverScene], Callable[[], None]]
) -> None:
    with scene.contenders.running():
        scene.contenders.wait_for_writes()
        bring_back = blow(scene)
        scene.pair.promote()
        scene.contenders.wait_for_writes()
        bring_back()
        scene.contenders.wait_for_writes()
    with scene.pair.on(1) as promoted:
        scene.contenders.check(promoted)


def test_an_old_primary_commits_and_answers_nothing(scene: FailoverScene) -> None:
    """It is stopped before the promotion, and woken after it; its clients reach it alone."""
    store, stale = scene.store(), scene.store(schema="tenure", old_alone=True)
    first = store.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"1", None)]).versions[Key("a")]
    assert stale.list(SCOPE).records[0].version == first
    old = scene.pair.nodes[0]
    old.pause()
    scene.pair.promote()

    def commits() -> bool:
        try:
            store.commit(SCOPE, guards=[], writes=[Put(Key("b"), b"new", None)])
        except (StoreUnavailable, OutcomeUnknown):
            return False
        return True

    wait_until(commits, what="the promoted server")
    old.wake()
    with pytest.raises((StoreUnavailable, OutcomeUnknown)):
        stale.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"late", first)])
    with pytest.raises(StoreUnavailable):
        stale.read(SCOPE, Key("b"))
    assert {str(record.key): record.value for record in store.list(SCOPE).records} == {"a": b"1", "b": b"new"}


def test_what_an_asynchronous_standby_lacks_is_refused_by_the_marks_in_the_storage(tmp_path: Path) -> None:
    """The promoted server has never heard of a term that has written to the storage. It gives its epoch again."""
    with installed(), PostgresPair(tmp_path / "pair", synchronous=False) as pair, ExitStack() as stack:
        store = stack.enter_context(closing(open_store(f"{pair.hosts()}?{LIMITS}", clock=CLOCK)))
        owner = Owner(store, SCOPE, storage=f"{tmp_path}/storage/{SCOPE}", clock=CLOCK)

        def lead(sessions: ExitStack) -> Term:
            keeper = sessions.enter_context(SessionKeeper(store, ttl=TTL, clock=CLOCK))
            election = Election(store, SCOPE, member="anna", clock=CLOCK)
            return wait_until(lambda: _won(election, keeper), what="a term")[0]

        with ExitStack() as sessions:
            owner.own(lead(sessions))
            pair.wait_until_equal()
            pair.nodes[1].kill()
        lost = lead(stack)
        owner.own(lost)
        pair.nodes[0].kill()
        pair.nodes[1].start()
        pair.promote()
        with pytest.raises(TermLost):
            commit_under(store, lost, writes=[Put(Key("late"), b"", None)], clock=CLOCK)
        again = lead(stack)
        assert again.epoch == lost.epoch
        with pytest.raises(OwnerMismatch, match="epoch"):
            owner.own(again)


def _won(election: Election, keeper: SessionKeeper) -> list[Term]:
    """The term, once the store serves; empty: not yet."""
    with suppress(StoreUnavailable, OutcomeUnknown):
        term = election.campaign(keeper, stop=threading.Event())
        assert term is not None
        return [term]
    return []


def test_a_client_that_has_seen_the_promotion_refuses_the_old_primary(scene: FailoverScene) -> None:
    store = scene.store()
    store.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"1", None)])
    scene.proxy.cut()
    scene.pair.promote()

    def answers(words: str = "") -> bool:
        try:
            store.read(SCOPE, Key("a"))
        except StoreUnavailable as away:
            return bool(words) and words in str(away)
        return not words

    wait_until(answers, what="the promoted server")
    scene.proxy.heal()
    scene.pair.nodes[1].kill()
    wait_until(lambda: answers("old primary"), what="the refusal")
