"""Work that is done only where the storage is that of the store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.driver.owned_work import OwnedWork
from tenure.errors import OwnerMismatch, StorageError
from tenure.link.driver import Ended
from tests.kit.clock import ManualClock
from tests.kit.waiting import wait_until

EVERY = timedelta(seconds=10)
FOREIGN = OwnerMismatch("it is not ours")


class Scene:
    """An owner and a work that say in which order they are called."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.owns: Callable[[], None] = lambda: None
        self.checks: Callable[[], None] = lambda: None
        self.leads: Callable[[threading.Event], Ended] = lambda stop: Ended.IDLE
        self.liveness = Liveness(clock=ManualClock(), until_s=float("inf"))
        self.term = Term(Scope("rows"), 3, "anna", Version("1"), Version("1"), self.liveness)
        self.stop = threading.Event()
        self.begun: list[int | None] = [0]
        self.asked = 0
        """How often it was asked how many batches have begun."""
        self.clock = ManualClock()
        work = cast(Any, _Work(self))
        self.owned = OwnedWork(cast(Any, self), around=lambda look: work, every=EVERY, clock=self.clock)

    def own(self, term: Term) -> None:
        self.calls.append(f"own {term.epoch}")
        self.owns()

    def check(self) -> None:
        self.calls.append("check")
        self.checks()

    def check_marks(self) -> None:
        self.calls.append("check marks")
        self.checks()

    def lead(self) -> Ended:
        return self.owned.lead(self.term, stop=self.stop, finish=threading.Event())


class _Work:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def lead(self, term: Term, *, stop: threading.Event, finish: threading.Event) -> Ended:
        self._scene.calls.append("lead")
        return self._scene.leads(stop)

    def clean(self, term: Term, *, stop: threading.Event) -> Ended:
        self._scene.calls.append("clean")
        return Ended.CLEANED

    def prepare(self) -> dict[str, float]:
        return {"rows": 1.0}

    def stand_by(self) -> None:
        self._scene.calls.append("stand by")

    def pulse(self) -> str:
        return "beats"

    def begun(self) -> list[int | None]:
        self._scene.asked += 1
        return list(self._scene.begun)

    def close(self) -> None:
        self._scene.calls.append("close")


@pytest.fixture
def scene() -> Scene:
    return Scene()


def refuse(error: Exception = FOREIGN) -> None:
    raise error


def test_the_storage_is_owned_before_anything_is_done_under_the_term(scene: Scene) -> None:
    assert scene.lead() is Ended.IDLE
    assert scene.owned.clean(scene.term, stop=scene.stop) is Ended.CLEANED
    assert scene.calls == ["own 3", "lead", "check", "clean"]


def test_everything_else_is_passed_on(scene: Scene) -> None:
    assert (scene.owned.prepare(), cast(Any, scene.owned.pulse())) == ({"rows": 1.0}, "beats")
    scene.owned.stand_by()
    scene.owned.close()
    assert scene.calls == ["stand by", "close"]


def test_a_storage_of_somebody_else_is_not_led_in_and_not_cleaned_up(scene: Scene) -> None:
    scene.owns = scene.checks = refuse
    with pytest.raises(OwnerMismatch):
        scene.lead()
    with pytest.raises(OwnerMismatch):
        scene.owned.clean(scene.term, stop=scene.stop)
    assert scene.calls == ["own 3", "check"]


def sweep(scene: Scene, stop: threading.Event) -> Ended:
    """A leadership that sweeps once, and ends when it is told to."""
    with pytest.raises(Exception, match="not"):
        scene.owned.look()
    return Ended.STOPPED if stop.is_set() else Ended.IDLE


def test_a_leadership_whose_sweep_finds_another_owner_ends_with_that(scene: Scene) -> None:
    scene.checks = refuse
    scene.leads = lambda stop: sweep(scene, stop)
    with pytest.raises(OwnerMismatch):
        scene.lead()
    assert scene.stop.is_set()


@pytest.mark.parametrize("ended", [Ended.LOST, Ended.STOPPED])
def test_one_whose_term_is_over_ends_as_that(scene: Scene, ended: Ended) -> None:
    """Its successor looks by itself. With STOPPED, the member ended with exit code 0 although nobody had stopped it."""
    scene.checks = refuse

    def lost(stop: threading.Event) -> Ended:
        sweep(scene, stop)
        scene.liveness.end("a write was refused")
        return ended

    scene.leads = lost
    assert scene.lead() is Ended.LOST


def test_a_storage_that_cannot_be_looked_at_ends_nothing(scene: Scene) -> None:
    scene.checks = lambda: refuse(StorageError("it does not answer"))
    scene.leads = lambda stop: sweep(scene, stop)
    assert scene.lead() is Ended.IDLE


def test_what_was_refused_once_is_not_held_against_the_next_leadership(scene: Scene) -> None:
    scene.checks = refuse
    scene.leads = lambda stop: sweep(scene, stop)
    with pytest.raises(OwnerMismatch):
        scene.lead()
    with pytest.raises(OwnerMismatch):
        scene.owned.look()  # by a thread that came too late
    scene.stop, scene.leads = threading.Event(), lambda stop: Ended.IDLE
    assert scene.lead() is Ended.IDLE
    assert not scene.stop.is_set()


def in_time(scene: Scene, condition: Callable[[], bool]) -> None:
    """Let time pass until the condition holds."""

    def holds() -> bool:
        scene.clock.advance(EVERY / 4)
        return condition()

    wait_until(holds)


def test_while_batches_run_the_marks_are_compared_once_a_ttl(scene: Scene) -> None:
    def leads(stop: threading.Event) -> Ended:
        def looks(count: int) -> None:
            in_time(scene, lambda: scene.calls.count("check marks") >= count)

        looks(1)
        scene.begun = [1]
        looks(2)
        scene.begun = [None]  # in a batch that takes long
        looks(4)
        scene.checks = refuse
        in_time(scene, stop.is_set)
        return Ended.STOPPED

    scene.leads = leads
    with pytest.raises(OwnerMismatch):
        scene.lead()


def test_an_idle_leader_asks_nobody(scene: Scene) -> None:
    def leads(stop: threading.Event) -> Ended:
        in_time(scene, lambda: scene.asked >= 6)
        assert scene.calls.count("check marks") == 1
        return Ended.IDLE

    scene.leads = leads
    assert scene.lead() is Ended.IDLE
    assert scene.calls.count("check marks") == 1
