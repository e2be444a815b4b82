"""Settling an unknown outcome: by a second commit, never by reading alone."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, lists, sampled_from

from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.records import Absent, Commit, Delete, Exact, Key, Put, Scope, Version
from tenure.coordination.settle import UNAVAILABLE_ATTEMPTS, commit_settled
from tenure.errors import AccessDenied, GuardFailed, OutcomeUnknown, StoreUnavailable, TenureError
from tests.faults.lab import in_turn, reply_lost, request_lost, unavailable
from tests.kit.clock import ManualClock
from tests.kit.faulty import Call, FaultyStore, Proceed, operation
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE = Scope("s")
KEY = Key("k")
FAULTS = {"reply lost": reply_lost, "request lost": request_lost, "unavailable": unavailable}


def denied(call: Call, proceed: Proceed) -> object:
    """The store does not let this user write."""
    raise AccessDenied("no")


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock(sleeping_advances=True)
        self.truth = MemoryStore(MemoryServer(self.clock))
        self.store = FaultyStore(self.truth)

    def put(self, value: bytes, replaces: Version | None = None) -> Version:
        return self.truth.commit(SCOPE, guards=(), writes=[Put(KEY, value, replaces)]).versions[KEY]

    def settle(self, put: Put | Delete, *, guards: tuple[Absent | Exact, ...] = (), for_s: float = 60) -> Commit:
        return commit_settled(
            self.store,
            SCOPE,
            guards=guards,
            writes=(put,),
            go_on=lambda: self.clock.monotonic_s() < for_s,
            clock=self.clock,
        )


@pytest.fixture
def scene() -> Scene:
    return Scene()


def mine() -> bytes:
    return encode({"uid": new_uid()})


@given(lists(sampled_from(sorted(FAULTS)), max_size=6), booleans())
def test_whatever_is_lost_the_write_is_applied_once_and_the_answer_names_it(faults: list[str], replace: bool) -> None:
    scene = Scene()
    before = scene.put(b"old") if replace else None
    revision = scene.truth.list(SCOPE).revision
    in_turn(scene.store, *[FAULTS[name] for name in faults], lambda call, proceed: proceed())
    put = Put(KEY, mine(), replaces=before)
    commit = scene.settle(put)
    record = scene.truth.read(SCOPE, KEY)
    assert record is not None
    assert record.value == put.value
    assert commit.versions == {KEY: record.version}
    assert scene.truth.list(SCOPE).revision == revision + 1


def test_reading_alone_is_no_proof(scene: Scene) -> None:
    """The late request has not arrived when the settlement looks; the second commit shuts the door on it."""
    _, late = scene.store.be_late()
    scene.settle(Put(KEY, mine(), replaces=None))
    commits = [call for call in scene.store.calls if call.operation == "commit"]
    assert len(commits) == 2
    assert all(isinstance(answer, TenureError) for answer in late.deliver())


def test_a_write_of_somebody_else_is_not_taken_for_ones_own(scene: Scene) -> None:
    def other_wins(call: object, proceed: object) -> object:
        scene.put(mine())
        raise OutcomeUnknown("lost")

    scene.store.script(other_wins)
    with pytest.raises(GuardFailed) as refused:
        scene.settle(Put(KEY, mine(), replaces=None))
    assert refused.value.earlier_request_may_apply


def test_a_refusal_without_doubt_is_without_doubt(scene: Scene) -> None:
    scene.put(b"there")
    with pytest.raises(GuardFailed) as refused:
        scene.settle(Put(KEY, mine(), replaces=None))
    assert not refused.value.earlier_request_may_apply


def test_a_guard_of_the_caller_that_fails_after_a_loss_stays_in_doubt(scene: Scene) -> None:
    guard = Exact(Key("g"), scene.truth.commit(SCOPE, guards=(), writes=[Put(Key("g"), b"", None)]).versions[Key("g")])

    def lost(call: object, proceed: object) -> object:
        assert callable(proceed)
        proceed()
        scene.truth.commit(SCOPE, guards=(), writes=[Delete(Key("g"), guard.version)])
        raise OutcomeUnknown("lost")

    scene.store.script(lost)
    with pytest.raises(GuardFailed) as refused:
        scene.settle(Put(KEY, mine(), replaces=None), guards=(guard,))
    assert refused.value.earlier_request_may_apply
    assert scene.truth.read(SCOPE, KEY) is not None


def test_a_delete_of_which_the_reply_was_lost_is_done(scene: Scene) -> None:
    version = scene.put(b"old")
    scene.store.lose_reply()
    assert scene.settle(Delete(KEY, version)).versions == {}
    assert scene.truth.read(SCOPE, KEY) is None


def test_it_is_sent_once_even_when_there_is_no_time(scene: Scene) -> None:
    scene.settle(Put(KEY, mine(), replaces=None), for_s=-1)
    assert scene.truth.read(SCOPE, KEY) is not None


@pytest.mark.parametrize("fault", [reply_lost, request_lost])
def test_when_time_is_over_the_outcome_stays_unknown(fault: object, scene: Scene) -> None:
    assert callable(fault)
    in_turn(scene.store, fault, unavailable)
    with pytest.raises(OutcomeUnknown):
        scene.settle(Put(KEY, mine(), replaces=None), for_s=5)
    assert 5 <= scene.clock.monotonic_s() <= 7


def test_nothing_was_sent_is_definite(scene: Scene) -> None:
    in_turn(scene.store, unavailable)
    with pytest.raises(StoreUnavailable):
        scene.settle(Put(KEY, mine(), replaces=None), for_s=5)


def test_a_store_that_refuses_service_is_given_up_after_so_many_attempts(scene: Scene) -> None:
    script = in_turn(scene.store, unavailable)
    with pytest.raises(StoreUnavailable):
        scene.settle(Put(KEY, mine(), replaces=None), for_s=1e9)
    assert script.fired == UNAVAILABLE_ATTEMPTS
    assert timedelta(seconds=10) < timedelta(seconds=scene.clock.monotonic_s()) < timedelta(seconds=20)


def test_a_denial_is_told_at_once(scene: Scene) -> None:
    script = in_turn(scene.store, denied)
    with pytest.raises(AccessDenied):
        scene.settle(Put(KEY, mine(), replaces=None), for_s=1e9)
    assert script.fired == 1


def test_a_doubt_is_not_given_up_for_a_denial(scene: Scene) -> None:
    in_turn(scene.store, reply_lost, denied, denied, lambda call, proceed: proceed())
    scene.settle(Put(KEY, mine(), replaces=None), for_s=1e9)


def test_a_doubt_is_never_given_up_for_a_store_that_is_away(scene: Scene) -> None:
    """While the outcome is unknown, only the deadline ends the attempts."""
    away = [unavailable] * (3 * UNAVAILABLE_ATTEMPTS)
    in_turn(scene.store, reply_lost, *away, lambda call, proceed: proceed())
    scene.settle(Put(KEY, mine(), replaces=None), for_s=1e9)


def test_reads_that_fail_are_repeated_and_then_unknown(scene: Scene) -> None:
    scene.store.lose_reply()
    scene.store.be_unavailable(when=operation("read"), times=None)
    with pytest.raises(OutcomeUnknown, match="cannot be settled"):
        scene.settle(Put(KEY, mine(), replaces=None), for_s=5)
