"""The look for a successor, on a clock that the test moves; and members that are asked to stop while they lead."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tenure.agent.handover import Handover, patience_for
from tenure.coordination.candidates import State
from tenure.coordination.election import Election
from tenure.coordination.orders import Orders
from tenure.coordination.records import Listing, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.errors import DriverDied
from tenure.events import Event, HandedOver, NobodyTookOver, SuccessorUnknown
from tenure.link.lifecycle import Ended
from tenure.status.snapshot import take_snapshot, terms
from tests.kit.clock import ManualClock
from tests.kit.faulty import FaultyStore, operation
from tests.kit.memory import MemoryStore
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import SCOPE, Scene, Scripted, Step, make_scene

LONG = timedelta(hours=1)


class Looking:
    """`anna` has resigned epoch 1 in a store in memory. She looks for her successor on a thread."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.hurry = threading.Event()
        self.outcomes: list[Event | None] = []
        self._thread: threading.Thread | None = None
        with self.member("anna") as campaign:
            campaign()

    @contextmanager
    def member(self, name: str, state: State = State.WARM, *, nofailover: bool = False) -> Iterator[Callable[[], None]]:
        """A member for as long as the block lasts. Yields a call that takes office, and resigns at once."""
        election = Election(self.store, SCOPE, member=name, clock=self.clock)
        with SessionKeeper(self.store, ttl=LONG, clock=self.clock) as keeper:
            election.join(keeper, host="here", pid=7, state=state, nofailover=nofailover)

            def campaign() -> None:
                term = election.campaign(keeper, stop=threading.Event())
                assert term is not None
                election.resign(term, why="stopped")

            yield campaign

    def start(self, store: CoordinationStore | None = None) -> None:
        """Look on a thread, 5 s at most."""
        handover = Handover(store or self.store, SCOPE, member="anna", at_most=timedelta(seconds=5), clock=self.clock)
        handover.resigned(1)
        self._thread = threading.Thread(
            target=lambda: self.outcomes.append(handover.outcome(hurry=self.hurry)), daemon=True
        )
        self._thread.start()

    def outcome(self) -> Event | None:
        """The event of the look, once it has ended."""
        assert self._thread is not None
        self._thread.join(timeout=NEVER_S)
        (outcome,) = self.outcomes
        return outcome

    def wait_until_looking(self, others: int = 0) -> None:
        """Wait until the look waits for a change: two threads, beside those that keep `others` sessions."""
        self.clock.wait_until_blocked(others + 2)


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_a_lone_leader_does_not_wait(looking: Looking) -> None:
    looking.start()
    assert looking.outcome() == NobodyTookOver(SCOPE, 1, "there is no other member", "", 0.0)
    assert looking.clock.monotonic_s() == 0.0


def test_a_member_that_took_office_before_the_look_is_found_at_once(looking: Looking) -> None:
    with looking.member("ben") as campaign:
        campaign()
        looking.start()
        assert looking.outcome() == HandedOver(SCOPE, "ben", 2, 0.0)


def test_a_member_that_takes_office_during_the_look_is_found_at_that_moment(looking: Looking) -> None:
    with looking.member("ben") as campaign:
        looking.start()
        looking.wait_until_looking(others=1)
        looking.clock.advance(timedelta(seconds=0.1))
        campaign()
        assert looking.outcome() == HandedOver(SCOPE, "ben", 2, 0.1)


@pytest.mark.parametrize(
    ("state", "why", "standbys"),
    [
        (State.STARTING, "no member is ready", "ben (starting)"),
        (State.WARM, "a member is ready, and has not taken office", "ben (warm)"),
    ],
)
def test_a_member_that_does_not_take_office_is_waited_for_until_the_limit(
    looking: Looking, state: State, why: str, standbys: str
) -> None:
    with looking.member("ben", state):
        looking.start()
        looking.wait_until_looking(others=1)
        looking.clock.advance(timedelta(seconds=5))
        assert looking.outcome() == NobodyTookOver(SCOPE, 1, why, standbys, 5.0)


def test_nobody_waits_for_members_that_never_lead(looking: Looking) -> None:
    with looking.member("ben", nofailover=True):
        looking.start()
        assert looking.outcome() == NobodyTookOver(SCOPE, 1, "no member is ready", "ben (nofailover)", 0.0)


def test_nobody_waits_while_the_scope_is_paused(looking: Looking) -> None:
    with looking.member("ben"):
        Orders(looking.store, SCOPE, clock=looking.clock).pause()
        looking.start()
        assert looking.outcome() == NobodyTookOver(SCOPE, 1, "the scope is paused", "ben (warm)", 0.0)


def test_a_second_signal_ends_the_look(looking: Looking) -> None:
    with looking.member("ben"):
        looking.start()
        looking.wait_until_looking(others=1)
        looking.hurry.set()
        looking.clock.advance(timedelta(seconds=1))
        why = "a second signal ended the look"
        assert looking.outcome() == NobodyTookOver(SCOPE, 1, why, "ben (warm)", 1.0)


def test_a_store_that_is_away_says_nothing_about_a_successor(looking: Looking) -> None:
    faulty = FaultyStore(looking.store)
    faulty.be_unavailable(when=operation("list"), times=None)
    looking.start(faulty)
    looking.wait_until_looking()
    looking.clock.advance(timedelta(seconds=5))
    assert isinstance(looking.outcome(), SuccessorUnknown)


@pytest.mark.parametrize("answers", [0, 1])
def test_a_store_that_hangs_is_not_waited_for(looking: Looking, answers: int) -> None:
    """Also after it has answered once: by now, another member may lead."""
    hangs, released = threading.Event(), threading.Event()
    left = [None] * answers

    class Hanging(FaultyStore):
        def list(self, scope: Scope, prefix: str = "") -> Listing:
            if left:
                left.pop()
                return super().list(scope, prefix)
            hangs.set()
            released.wait(NEVER_S)
            return super().list(scope, prefix)

    with looking.member("ben"):
        looking.start(Hanging(looking.store))
        if answers:
            looking.wait_until_looking(others=1)
            looking.clock.advance(timedelta(seconds=0.2))
        assert hangs.wait(NEVER_S)
        looking.clock.advance(timedelta(seconds=5))
        assert looking.outcome() == SuccessorUnknown(SCOPE, 1, "the store does not answer")
        released.set()


def test_who_resigned_nothing_has_nothing_to_look_for(looking: Looking) -> None:
    handover = Handover(looking.store, SCOPE, member="anna", at_most=timedelta(seconds=5), clock=looking.clock)
    assert handover.outcome(hurry=threading.Event()) is None


@pytest.mark.parametrize(("stop", "look"), [(0, 0), (8, 2), (20, 5), (600, 5)])
def test_the_look_is_a_share_of_the_patience(stop: float, look: float) -> None:
    assert patience_for(timedelta(seconds=stop)) == timedelta(seconds=look)


# --- members ----------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


class Warm(Scripted):
    """A driver that has rehearsed."""

    warm = True


def standing_by(scene: Scene, driver: Scripted, name: str, stop: threading.Event) -> threading.Thread:
    """A member on a thread, once it is ready."""
    thread = threading.Thread(target=scene.member(driver, name=name).run, kwargs={"stop": stop})
    thread.start()
    wait_until(lambda: [one for one in take_snapshot(scene.store, SCOPE).members if one.member == name and one.ready])
    return thread


def lead_until(stop: threading.Event) -> Step:
    def step(term: Term) -> Ended:
        wait_until(stop.is_set)
        return Ended.STOPPED

    return step


def test_a_leader_that_is_asked_to_stop_hands_over_to_the_warm_standby_and_never_leads_again(scene: Scene) -> None:
    stop, rest = threading.Event(), threading.Event()
    ready, warm = Scripted(lead_until(rest)), Warm(lead_until(rest))
    threads: list[threading.Thread] = []

    def lead(term: Term) -> Ended:
        threads.append(standing_by(scene, ready, "ben", rest))
        threads.append(standing_by(scene, warm, "carl", rest))
        stop.set()
        return Ended.STOPPED

    leader = Warm(lead)
    try:
        assert scene.member(leader).run(stop=stop) is Ended.STOPPED
        (handed_over,) = [event for event in scene.told if isinstance(event, HandedOver)]
        assert (handed_over.to, handed_over.epoch) == ("carl", 2)
        wait_until(lambda: warm.epochs == [2])
        assert (leader.epochs, ready.epochs) == ([1], [])
    finally:
        rest.set()
    for thread in threads:
        thread.join(timeout=NEVER_S)
    assert [one.holder for one in terms(scene.store, SCOPE)][:2] == ["anna", "carl"]


def test_a_lone_leader_says_last_that_nobody_took_over(scene: Scene) -> None:
    stop = threading.Event()

    def lead(term: Term) -> Ended:
        stop.set()
        return Ended.STOPPED

    assert scene.member(Scripted(lead)).run(stop=stop) is Ended.STOPPED
    assert scene.told[-1] == NobodyTookOver(SCOPE, 1, "there is no other member", "", 0.0)


def test_a_driver_that_had_to_be_killed_changes_nothing_of_that(scene: Scene) -> None:
    stop = threading.Event()

    def stuck(term: Term) -> Ended:
        stop.set()
        raise DriverDied("queries did not stop in 20 s; the driver was killed")

    assert scene.member(Scripted(stuck)).run(stop=stop) is Ended.STOPPED
    assert isinstance(scene.told[-1], NobodyTookOver)


def test_a_standby_that_is_asked_to_stop_looks_for_nobody(scene: Scene) -> None:
    stop, rest = threading.Event(), threading.Event()
    driver = Scripted()

    def lead(term: Term) -> Ended:
        thread = standing_by(scene, driver, "ben", stop)
        stop.set()
        thread.join(timeout=NEVER_S)
        assert not thread.is_alive()
        return Ended.IDLE

    scene.member(Scripted(lead)).run(stop=rest)
    assert not [event for event in scene.told if isinstance(event, HandedOver | NobodyTookOver | SuccessorUnknown)]
