"""The session keeper and its liveness: believed in until the deadline, and never again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from tenure.coordination.session import Liveness, SessionKeeper
from tenure.errors import SessionEnded, StoreUnavailable
from tests.kit.clock import ManualClock
from tests.kit.faulty import Call, Fault, FaultyStore, Proceed, operation
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import wait_until

TTL = timedelta(seconds=9)  # renewed every 3 s, believed in for 8.1 s


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Scene:
    """A keeper on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.server = MemoryServer(self.clock)
        self.store = FaultyStore(MemoryStore(self.server))
        self.keeper = SessionKeeper(self.store, ttl=TTL, clock=self.clock)

    def renewals(self) -> int:
        return sum(call.operation == "renew" for call in self.store.calls)

    def step(self, by: float) -> None:
        """Let the keeper's thread reach its wait, then move the clock."""
        self.clock.wait_until_blocked(1)
        self.clock.advance(seconds(by))

    def slow(self, by: float) -> Fault:
        """The answer comes `by` seconds after the store did the work."""

        def fault(call: Call, proceed: Proceed) -> object:
            answer = proceed()
            self.clock.advance(seconds(by))
            return answer

        return fault

    def after_renewal(self, count: int) -> None:
        wait_until(lambda: self.renewals() >= count, what=f"{count} renewals")
        self.clock.wait_until_blocked(1)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("tenure-session")]


def test_the_first_deadline_counts_from_before_the_request_left(scene: Scene) -> None:
    scene.store.script(scene.slow(4), when=operation("open_session"))
    scene.store.be_unavailable(when=operation("renew"), times=None)
    with scene.keeper as keeper:
        assert keeper.liveness.remaining_s() == pytest.approx(8.1 - 4)


def test_a_session_whose_opening_was_quick_is_not_renewed_at_once(scene: Scene) -> None:
    scene.store.script(scene.slow(0.8), when=operation("open_session"))
    with scene.keeper as keeper:
        assert keeper.liveness.remaining_s() == pytest.approx(8.1 - 0.8)
        assert scene.renewals() == 0


@pytest.mark.parametrize("connecting_s", [4.0, 8.2, 60.0])
def test_the_time_to_connect_does_not_count_against_the_first_ttl(scene: Scene, connecting_s: float) -> None:
    """The store looked for a server that answers, for longer than a short ttl: each opening ended at once."""

    def connect(call: Call, proceed: Proceed) -> object:
        scene.clock.advance(seconds(connecting_s))
        return proceed()

    scene.store.script(connect, when=operation("open_session"))
    with scene.keeper as keeper:
        assert keeper.liveness.remaining_s() == pytest.approx(8.1)


def test_a_session_that_opened_too_late_is_over_at_once(scene: Scene) -> None:
    scene.store.script(scene.slow(9.1), when=operation("open_session"))
    with scene.keeper as keeper:
        assert keeper.liveness.over


def test_the_next_renewal_counts_from_when_the_last_left(scene: Scene) -> None:
    """It counted from the answer, so slow answers ended a session of which each renewal succeeded."""
    scene.store.script(scene.slow(2.9), when=operation("renew"), times=None)
    with scene.keeper as keeper:
        scene.step(3)
        scene.after_renewal(1)
        for count in range(2, 6):
            scene.step(0.1)
            scene.after_renewal(count)
            assert keeper.liveness.remaining_s() == pytest.approx(8.1 - 2.9)


def test_a_renewal_counts_from_before_its_request_left(scene: Scene) -> None:
    scene.store.script(scene.slow(2), when=operation("renew"))
    with scene.keeper as keeper:
        scene.step(3)
        scene.after_renewal(1)
        assert keeper.liveness.remaining_s() == pytest.approx(8.1 - 2), "sent at 3, now 5"


def test_it_is_renewed_for_ever(scene: Scene) -> None:
    with scene.keeper as keeper:
        for count in range(1, 12):
            scene.step(3)
            scene.after_renewal(count)
            assert not keeper.liveness.over
        assert scene.server.next_deadline_s() == pytest.approx(33 + 9)


def test_a_store_away_is_tolerated_until_the_deadline_and_no_longer(scene: Scene) -> None:
    with scene.keeper as keeper:
        scene.store.be_unavailable(when=operation("renew"), times=None)
        scene.step(3)
        scene.after_renewal(1)
        scene.clock.advance(seconds(5.09))
        assert not keeper.liveness.over
        scene.clock.advance(seconds(0.02))
        assert keeper.liveness.over
        assert keeper.liveness.why == "the deadline passed without a renewal"
        assert isinstance(keeper.liveness.cause, StoreUnavailable)


def test_a_store_that_came_back_in_time_is_forgotten(scene: Scene) -> None:
    with scene.keeper as keeper:
        scene.store.be_unavailable(when=operation("renew"), times=2)
        scene.step(3)
        scene.after_renewal(1)
        scene.clock.advance(seconds(0.45))
        scene.after_renewal(2)
        scene.clock.advance(seconds(0.45))
        scene.after_renewal(3)
        assert keeper.liveness.remaining_s() == pytest.approx(8.1)
        assert keeper.liveness.cause is None


@pytest.mark.parametrize("lose", [FaultyStore.lose_reply, FaultyStore.lose_request])
def test_a_renewal_of_unknown_outcome_proves_nothing(lose: Callable[..., object], scene: Scene) -> None:
    with scene.keeper as keeper:
        lose(scene.store, when=operation("renew"), times=None)
        scene.step(3)
        scene.after_renewal(1)
        assert keeper.liveness.remaining_s() == pytest.approx(5.1)


def test_a_session_that_ended_in_the_store_ends_at_the_next_renewal(scene: Scene) -> None:
    with scene.keeper as keeper:
        scene.store.expire(keeper.session_id)
        assert not keeper.liveness.over
        scene.step(3)
        wait_until(lambda: keeper.liveness.over, what="the end")
        assert "has ended" in (keeper.liveness.why or "")
    assert threads() == []


def test_a_hanging_renewal_does_not_keep_the_liveness_alive(scene: Scene) -> None:
    with scene.keeper as keeper:
        _, gate = scene.store.pause(when=operation("renew"))
        child = keeper.liveness.child()
        scene.step(3)
        gate.wait_arrived()
        scene.clock.advance(seconds(5.0))
        assert not child.over
        scene.clock.advance(seconds(0.11))
        assert keeper.liveness.over
        assert child.over
        gate.release()
    assert threads() == []


def test_a_late_renewal_never_revives(scene: Scene) -> None:
    """The renewal was sent and applied in time; its reply comes after the deadline."""
    with scene.keeper as keeper:
        _, gate = scene.store.pause(when=operation("renew"), point="after")
        scene.step(3)
        gate.wait_arrived()
        scene.clock.advance(seconds(5.2))
        assert keeper.liveness.over
        gate.release()
        wait_until(lambda: not threads(), what="the end of the thread")
        assert keeper.liveness.over
        assert keeper.liveness.why == "the deadline passed without a renewal"


def test_closing_ends_the_session_and_the_thread(scene: Scene) -> None:
    with scene.keeper as keeper:
        session = keeper.session_id
        assert threads() == ["tenure-session"]
    assert threads() == []
    assert keeper.liveness.over
    assert keeper.liveness.why == "closed"
    with pytest.raises(SessionEnded):
        scene.server.renew(session, TTL)


def test_the_liveness_is_over_before_the_session_is_closed(scene: Scene) -> None:
    seen: list[bool] = []

    def look(call: Call, proceed: Proceed) -> object:
        seen.append(scene.keeper.liveness.over)
        return proceed()

    scene.store.script(look, when=operation("close_session"))
    with scene.keeper:
        pass
    assert seen == [True]


def test_a_session_that_cannot_be_closed_ends_by_itself(scene: Scene) -> None:
    scene.store.be_unavailable(when=operation("close_session"))
    with scene.keeper as keeper:
        pass
    assert keeper.liveness.over
    assert threads() == []


def test_a_session_that_cannot_be_opened_leaves_no_thread(scene: Scene) -> None:
    scene.store.be_unavailable(when=operation("open_session"))
    with pytest.raises(StoreUnavailable), scene.keeper:
        pass
    assert threads() == []


def test_an_error_in_the_block_closes_too(scene: Scene) -> None:
    with pytest.raises(KeyError), scene.keeper:
        raise KeyError("user code")
    assert threads() == []
    assert scene.server.next_deadline_s() == float("inf")


# --- liveness alone ---------------------------------------------------------------------------------------------


def test_children_end_with_their_parent_and_not_the_other_way() -> None:
    clock = ManualClock()
    parent = Liveness(clock=clock, until_s=10)
    first, second = parent.child(), parent.child()
    grandchild = first.child()
    first.end("resigned")
    assert first.over
    assert grandchild.over
    assert not parent.over
    assert not second.over
    parent.end("closed")
    assert second.over
    assert second.why == "closed"
    assert first.why == "resigned", "the first reason stays"


def test_a_child_of_an_ended_parent_is_over_from_the_start() -> None:
    clock = ManualClock()
    parent = Liveness(clock=clock, until_s=10)
    parent.end("closed")
    assert parent.child().over


def test_over_is_latched() -> None:
    clock = ManualClock()
    liveness = Liveness(clock=clock, until_s=5)
    clock.advance(seconds(5))
    assert liveness.over
    liveness.extend(100)
    assert liveness.over
    assert liveness.remaining_s() <= 0


def test_what_was_ended_by_word_has_no_time_left() -> None:
    liveness = Liveness(clock=ManualClock(), until_s=5)
    child = liveness.child()
    liveness.end("closed")
    assert liveness.remaining_s() <= 0
    assert child.remaining_s() <= 0


def test_the_deadline_never_moves_back() -> None:
    liveness = Liveness(clock=ManualClock(), until_s=5)
    liveness.extend(3)
    assert liveness.remaining_s() == 5


def test_a_child_lives_on_when_its_parent_is_extended() -> None:
    clock = ManualClock()
    parent = Liveness(clock=clock, until_s=5)
    child = parent.child()
    clock.advance(seconds(4))
    parent.extend(20)
    clock.advance(seconds(4))
    assert not child.over
    assert child.remaining_s() == pytest.approx(12)
