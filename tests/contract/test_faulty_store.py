"""The shipped faults do what they say: each is checked against the truth in the store within."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tenure.coordination.records import Absent, Commit, Delete, Exact, Key, Put, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable
from tests.kit.clock import ManualClock
from tests.kit.conformance import MemoryRig, StoreConformance
from tests.kit.faulty import Call, FaultyStore, Proceed, commits, operation, writes_under
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S
from tests.support.unfenced import UnfencedStore

SCOPE, A, B = Scope("s"), Key("a"), Key("b")
PUT_A = Put(A, b"x", None)


class FaultlessRig(MemoryRig):
    """Every client behind a FaultyStore without faults."""

    def client(self) -> CoordinationStore:
        return FaultyStore(super().client())


class TestWithoutFaults(StoreConformance):
    @pytest.fixture
    def rig(self) -> FaultlessRig:
        return FaultlessRig()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def truth(clock: ManualClock) -> MemoryStore:
    return MemoryStore(MemoryServer(clock))


@pytest.fixture
def faulty(truth: MemoryStore) -> FaultyStore:
    return FaultyStore(MemoryStore(truth.server))


def test_unavailable_sends_nothing(faulty: FaultyStore, truth: MemoryStore) -> None:
    script = faulty.be_unavailable(when=commits, times=2)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            faulty.commit(SCOPE, guards=[], writes=[PUT_A])
    assert truth.read(SCOPE, A) is None
    faulty.commit(SCOPE, guards=[], writes=[PUT_A])
    assert script.fired == 2
    assert len(faulty.calls) == 3


def test_a_lost_reply_and_a_lost_request_look_the_same(faulty: FaultyStore, truth: MemoryStore) -> None:
    lost_reply = faulty.lose_reply(when=writes_under("a"))
    lost_request = faulty.lose_request(when=writes_under("b"))
    for put in (PUT_A, Put(B, b"x", None)):
        with pytest.raises(OutcomeUnknown):
            faulty.commit(SCOPE, guards=[], writes=[put])
    assert truth.read(SCOPE, A) is not None
    assert truth.read(SCOPE, B) is None
    assert (lost_reply.fired, lost_request.fired) == (1, 1)


def test_the_reply_of_a_refused_commit_can_be_lost_too(faulty: FaultyStore, truth: MemoryStore) -> None:
    faulty.lose_reply()
    with pytest.raises(OutcomeUnknown):
        faulty.commit(
            SCOPE, guards=[Exact(B, truth.commit(SCOPE, guards=[], writes=[PUT_A]).versions[A])], writes=[PUT_A]
        )


def test_a_read_is_never_unknown(faulty: FaultyStore) -> None:
    faulty.lose_reply(when=operation("read", "list", "wait"), times=None)
    with pytest.raises(StoreUnavailable):
        faulty.read(SCOPE, A)
    with pytest.raises(StoreUnavailable):
        faulty.list(SCOPE)
    with faulty.watch(SCOPE, after=faulty._store.list(SCOPE).revision) as changes, pytest.raises(StoreUnavailable):
        changes.wait(timeout=timedelta(0))
    faulty.heal()
    assert faulty.read(SCOPE, A) is None


def test_a_late_request_arrives_when_the_test_says(faulty: FaultyStore, truth: MemoryStore) -> None:
    _, late = faulty.be_late(times=2)
    for key in (A, A):
        with pytest.raises(OutcomeUnknown):
            faulty.commit(SCOPE, guards=[], writes=[Put(key, b"late", None)])
    assert truth.read(SCOPE, A) is None
    first, second = late.deliver()
    assert isinstance(first, Commit)
    assert isinstance(second, GuardFailed)
    record = truth.read(SCOPE, A)
    assert record is not None
    assert record.value == b"late"
    assert late.deliver() == []


def test_a_gate_holds_a_call_before_or_after_the_store(faulty: FaultyStore, truth: MemoryStore) -> None:
    _, before = faulty.pause(when=writes_under("a"), point="before")
    _, after = faulty.pause(when=writes_under("b"), point="after")
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(faulty.commit, SCOPE, guards=[], writes=[PUT_A])
        two = pool.submit(faulty.commit, SCOPE, guards=[], writes=[Put(B, b"x", None)])
        before.wait_arrived()
        after.wait_arrived()
        assert truth.read(SCOPE, A) is None
        assert truth.read(SCOPE, B) is not None
        assert not one.done()
        assert not two.done()
        before.release()
        after.release()
        one.result()
        two.result()
    assert truth.read(SCOPE, A) is not None
    with pytest.raises(TimeoutError):
        before.wait_arrived(real_timeout=timedelta(0))


def test_a_session_expires_just_before_a_call(faulty: FaultyStore, truth: MemoryStore) -> None:
    session = faulty.open_session(ttl=timedelta(seconds=10))
    put = Put(A, b"x", None, session.id)

    def expire_first(call: Call, proceed: Proceed) -> object:
        faulty.expire(session.id)
        return proceed()

    faulty.script(expire_first, when=commits)
    with pytest.raises(SessionEnded):
        faulty.commit(SCOPE, guards=[], writes=[put])
    with pytest.raises(SessionEnded):
        session.renew()
    assert truth.read(SCOPE, A) is None


def test_calls_of_a_session_can_fail(faulty: FaultyStore, clock: ManualClock) -> None:
    faulty.lose_request(when=operation("open_session"))
    with pytest.raises(OutcomeUnknown):
        faulty.open_session(ttl=timedelta(seconds=10))
    session = faulty.open_session(ttl=timedelta(seconds=10))
    clock.advance(timedelta(seconds=9))
    faulty.lose_reply(when=operation("renew"))
    with pytest.raises(OutcomeUnknown):
        session.renew()
    clock.advance(timedelta(seconds=9))
    session.renew()
    faulty.be_unavailable(when=operation("close_session"))
    with pytest.raises(StoreUnavailable):
        session.close()
    session.renew()


def test_faults_nest_in_the_order_of_the_script(faulty: FaultyStore, truth: MemoryStore) -> None:
    _, gate = faulty.pause()
    faulty.lose_reply()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(faulty.commit, SCOPE, guards=[], writes=[PUT_A])
        gate.wait_arrived()
        assert truth.read(SCOPE, A) is None
        gate.release()
        with pytest.raises(OutcomeUnknown):
            running.result(timeout=NEVER_S)
    assert truth.read(SCOPE, A) is not None


def test_the_fence_can_be_switched_off(truth: MemoryStore) -> None:
    version = truth.commit(SCOPE, guards=[], writes=[PUT_A]).versions[A]
    unguarded = UnfencedStore(truth)
    unguarded.commit(SCOPE, guards=[Absent(A)], writes=[Put(B, b"", None)])
    with pytest.raises(GuardFailed):
        unguarded.commit(SCOPE, guards=[], writes=[PUT_A])
    blind = UnfencedStore(truth, blind=True)
    blind.commit(SCOPE, guards=[Absent(A)], writes=[Put(A, b"stale", None)])
    blind.commit(SCOPE, guards=[], writes=[Delete(A, version)])
    assert truth.read(SCOPE, A) is None
    judging = UnfencedStore(truth, drop_guards=False, blind=True)
    with pytest.raises(GuardFailed):
        judging.commit(SCOPE, guards=[Absent(B)], writes=[PUT_A])


def test_the_clock_moves_only_when_told(clock: ManualClock) -> None:
    started = clock.now()
    event = threading.Event()
    with ThreadPoolExecutor(3) as pool:
        sleeping = pool.submit(clock.sleep, 5)
        waiting = pool.submit(clock.wait, event, timeout_s=10)
        woken = pool.submit(clock.wait, event, timeout_s=1000)
        clock.wait_until_blocked(3)
        clock.advance(timedelta(seconds=4.9))
        assert not sleeping.done()
        clock.advance(timedelta(seconds=0.1))
        sleeping.result(timeout=NEVER_S)
        clock.advance(timedelta(seconds=5))
        assert waiting.result(timeout=NEVER_S) is False
        event.set()
        assert woken.result(timeout=NEVER_S) is True
    assert clock.monotonic_s() == 10
    assert clock.now() - started == timedelta(seconds=10)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(timedelta(seconds=-1))
    with pytest.raises(TimeoutError):
        clock.wait_until_blocked(1, real_timeout=timedelta(0))


def test_a_loop_until_a_deadline_ends_in_spite_of_floats() -> None:
    clock = ManualClock(sleeping_advances=True)
    clock.sleep(0.3)
    deadline = clock.monotonic_s() + 0.1
    while (left := deadline - clock.monotonic_s()) > 0:
        assert not clock.wait(threading.Event(), timeout_s=left)
    assert clock.monotonic_s() >= deadline
