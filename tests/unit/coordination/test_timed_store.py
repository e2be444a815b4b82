"""What a store tells of its requests: each once, how long it took, and whether the store was there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from tenure.coordination.records import Absent, Key, Put, Scope
from tenure.coordination.timed_store import TimedStore
from tenure.errors import AccessDenied, CommitRefused, GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable
from tests.kit.clock import ManualClock
from tests.kit.faulty import FaultyStore
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, KEY = Scope("rows"), Key("a")
TTL = timedelta(seconds=10)


class Site:
    """A store that tells, and faults below it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.faulty = FaultyStore(MemoryStore(MemoryServer()))
        self.store = TimedStore(self.faulty, told=self, clock=self.clock)
        self.told: list[tuple[str, float | None, str]] = []

    def request(self, op: str, seconds: float | None, *, error: str) -> None:
        self.told.append((op, seconds, error))


@pytest.fixture
def site() -> Site:
    return Site()


def test_each_request_is_told_once(site: Site) -> None:
    session = site.store.open_session(ttl=TTL)
    site.store.commit(SCOPE, guards=[Absent(KEY)], writes=[Put(KEY, b"1", None, session.id)])
    session.amend(SCOPE, KEY, b"2")
    session.renew()
    assert site.store.scopes() == [SCOPE]
    listing = site.store.list(SCOPE)
    assert (found := site.store.read(SCOPE, KEY)) is not None
    assert (found.value, found.session) == (b"2", session.id)
    site.store.glance(SCOPE)
    with site.store.watch(SCOPE, after=listing.revision) as changes:
        session.close()
        assert changes.wait(timeout=TTL) is not None
    site.store.end_session(session.testament)
    told = [op for op, seconds, error in site.told if seconds == 0 and not error]
    assert told == [
        *("open_session", "commit", "amend", "renew", "scopes", "list", "read", "close_session", "end_session"),
    ]
    assert len(told) == len(site.told), "a glance and a watch are no requests"
    assert site.store.guarantees == site.faulty.guarantees


def test_a_slow_request_is_told_with_its_time_also_when_it_fails(site: Site) -> None:
    site.faulty.script(slow(site.clock), times=2)
    site.store.read(SCOPE, KEY)
    site.faulty.script(refused(StoreUnavailable("no answer")))
    with pytest.raises(StoreUnavailable, match="no answer"):
        site.store.list(SCOPE)
    assert site.told == [("read", 2, ""), ("list", 2, "unavailable")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (StoreUnavailable("x"), "unavailable"),
        (AccessDenied("x"), "denied"),
        (OutcomeUnknown("x"), "unknown"),
        (SessionEnded("x"), ""),
        (CommitRefused("x"), ""),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_error_is_told_by_its_kind_and_an_answer_is_none(site: Site, error: Exception, kind: str) -> None:
    site.faulty.script(refused(error), times=2)
    with pytest.raises(type(error)):
        site.store.commit(SCOPE, guards=[], writes=[])
    with pytest.raises(type(error)):
        site.store.glance(SCOPE)
    assert site.told == [("commit", 0, kind), *([("glance", None, kind)] if kind else [])]


def test_a_guard_that_fails_is_an_answer(site: Site) -> None:
    site.store.commit(SCOPE, guards=[], writes=[Put(KEY, b"1", None)])
    with pytest.raises(GuardFailed):
        site.store.commit(SCOPE, guards=[Absent(KEY)], writes=[])
    assert [error for _, _, error in site.told] == ["", ""]


def slow(clock: ManualClock) -> Callable[..., object]:
    def fault(call: object, proceed: Callable[[], object]) -> object:
        clock.advance(timedelta(seconds=2))
        return proceed()

    return fault


def refused(error: Exception) -> Callable[..., object]:
    def fault(call: object, proceed: Callable[[], object]) -> object:
        raise error

    return fault
