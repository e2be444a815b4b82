"""The Service of the leader: kept while a term lives, withdrawn after it, and never in the way of the member."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tenure.agent import leader_service
from tenure.agent.leader_service import LOOK_S, LeaderService
from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import LEADER, Term
from tenure.errors import AccessDenied, DriverDied, NotPublished, OutcomeUnknown, StoreUnavailable, TenureError
from tenure.events import Event, Events, ServiceNotLed
from tenure.link.lifecycle import Ended
from tenure.retry import fixed_delay
from tenure.testing.clock import ManualClock
from tenure.testing.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import CLOCK, SCOPE, Scene, Scripted, Step, fail, make_scene

AT = ("10.1.2.3", 8008)
AGAIN = timedelta(seconds=1)


class Published:
    """A public name that is made up. It fails with each error of `fails` first."""

    name = "shop"

    def __init__(self, *fails: TenureError) -> None:
        self.fails = list(fails)
        self.said: list[object] = []
        """Each publication: the epoch and the address; each withdrawal: the epoch."""
        self.hangs: threading.Event | None = None  # None: it answers at once
        self.closed = False

    def publish(self, scope: Scope, *, epoch: int, address: str, port: int) -> None:
        self._answer((epoch, f"{address}:{port}"))

    def withdraw(self, scope: Scope, *, epoch: int) -> None:
        self._answer(epoch)

    def close(self) -> None:
        self.closed = True

    def _answer(self, said: object) -> None:
        if self.hangs is not None:
            self.hangs.wait(NEVER_S)
        self.said.append(said)
        if self.fails:
            raise self.fails.pop(0)


PUBLISHED, WITHDRAWN = (3, "10.1.2.3:8008"), 3


class Leading:
    """The service of a term, on a clock that the test moves."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.told: list[Event] = []
        self.published = Published()
        self.liveness = Liveness(clock=self.clock, until_s=float("inf"))
        self.term = Term(SCOPE, 3, "anna", Version("l"), Version("e"), self.liveness)
        self.service = LeaderService(
            self.published,
            at=lambda: AT,
            clock=self.clock,
            events=Events(self.told.append),
            retry=fixed_delay(delay=AGAIN),
        )

    def lead(self, *fails: TenureError) -> None:
        """Lead; the first requests fail."""
        self.published.fails = list(fails)
        self.service.lead(self.term)
        self.clock.wait_until_blocked()

    def advance(self, by: timedelta) -> None:
        """Let time pass, and wait until the thread has acted."""
        before = len(self.published.said)
        self.clock.advance(by)
        wait_until(lambda: len(self.published.said) > before, what="the next request")
        self.clock.wait_until_blocked()

    def reasons(self) -> list[str]:
        assert all(isinstance(event, ServiceNotLed) for event in self.told)
        return [event.why for event in self.told if isinstance(event, ServiceNotLed)]


@pytest.fixture
def leading() -> Iterator[Leading]:
    made = Leading()
    yield made
    made.service.close()
    assert made.published.closed


def test_a_term_has_its_route_until_it_is_given_up(leading: Leading) -> None:
    leading.lead()
    assert leading.published.said == [PUBLISHED]
    leading.service.leave()
    assert leading.published.said == [PUBLISHED, WITHDRAWN]
    leading.service.leave()
    assert leading.published.said == [PUBLISHED, WITHDRAWN]
    assert not leading.told


def test_a_route_that_stands_is_looked_after(leading: Leading) -> None:
    leading.lead()
    leading.advance(timedelta(seconds=LOOK_S))
    leading.service.leave()
    assert leading.published.said == [PUBLISHED, PUBLISHED, WITHDRAWN]


@pytest.mark.parametrize("failed", [StoreUnavailable("away"), OutcomeUnknown("no answer")])
def test_a_server_that_fails_is_asked_again_by_the_policy(leading: Leading, failed: TenureError) -> None:
    leading.lead(failed, failed, failed)
    leading.advance(AGAIN)
    leading.advance(AGAIN)
    assert leading.reasons() == [str(failed)]  # once
    leading.advance(AGAIN)
    leading.published.fails = [failed]
    leading.advance(timedelta(seconds=LOOK_S))
    assert leading.reasons() == [str(failed)] * 2  # it had gone well in between
    leading.service.leave()
    assert leading.published.said == [PUBLISHED] * 5 + [WITHDRAWN]


@pytest.mark.parametrize("refused", [NotPublished("another's"), AccessDenied("not permitted")])
def test_a_refusal_is_asked_about_seldom_and_nothing_is_withdrawn(leading: Leading, refused: TenureError) -> None:
    leading.lead(refused, refused)
    leading.advance(timedelta(seconds=LOOK_S))
    leading.service.leave()
    assert leading.published.said == [PUBLISHED] * 2
    assert leading.reasons() == [str(refused)]


def test_a_route_stands_once_the_refusal_is_mended(leading: Leading) -> None:
    leading.lead(NotPublished("another's"), NotPublished("it has a higher epoch"))
    leading.advance(timedelta(seconds=LOOK_S))
    leading.advance(timedelta(seconds=LOOK_S))
    leading.service.leave()
    assert leading.published.said == [PUBLISHED] * 3 + [WITHDRAWN]
    assert leading.reasons() == ["another's", "it has a higher epoch"]


def test_a_withdrawal_that_fails_is_an_event(leading: Leading) -> None:
    leading.lead()
    leading.published.fails = [StoreUnavailable("away")]
    leading.service.leave()
    assert leading.reasons() == ["away"]


def test_a_term_that_is_lost_is_not_published_again(leading: Leading) -> None:
    leading.lead(StoreUnavailable("away"))
    leading.liveness.end("the office was taken away")
    leading.clock.advance(AGAIN)
    wait_until(lambda: WITHDRAWN in leading.published.said, what="the withdrawal")
    assert leading.published.said == [PUBLISHED, WITHDRAWN]


def test_a_server_that_hangs_is_left_behind(leading: Leading, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader_service, "_WAIT_S", 0.05)
    leading.published.hangs = answers = threading.Event()
    leading.service.lead(leading.term)
    leading.service.leave()  # returns although nothing was answered
    assert leading.published.said == []
    answers.set()
    wait_until(lambda: leading.published.said == [PUBLISHED, WITHDRAWN], what="the late withdrawal")


# --- members --------------------------------------------------------------------------------------------------------


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


def serving(scene: Scene, published: Published) -> LeaderService:
    return LeaderService(published, at=lambda: AT, clock=CLOCK, events=Events(scene.told.append))


def once(published: Published, step: Step) -> Step:
    """The step of a driver, once the route stands."""

    def waits(term: Term) -> Ended:
        wait_until(lambda: (term.epoch, "10.1.2.3:8008") in published.said, what="the route")
        return step(term)

    return waits


def test_each_term_of_a_member_has_its_route(scene: Scene) -> None:
    published = Published()
    steps = [lambda term: Ended.LOST, fail(DriverDied("it was killed")), lambda term: Ended.IDLE]
    driver = Scripted(*(once(published, step) for step in steps))
    member = scene.member(driver, service=serving(scene, published))
    assert member.run(stop=threading.Event()) is Ended.IDLE
    assert published.said == [said for epoch in (1, 2, 3) for said in ((epoch, "10.1.2.3:8008"), epoch)]


def test_a_member_resigns_before_it_withdraws(scene: Scene) -> None:
    leaders: list[object] = []

    class Noting(Published):
        def withdraw(self, scope: Scope, *, epoch: int) -> None:
            leaders.append(scene.store.read(SCOPE, LEADER))

    published = Noting()
    driver = Scripted(once(published, lambda term: Ended.IDLE))
    scene.member(driver, service=serving(scene, published)).run(stop=threading.Event())
    assert leaders == [None]


@pytest.mark.parametrize("error", [NotPublished("another's"), AccessDenied("no right"), StoreUnavailable("away")])
def test_a_pipeline_goes_on_without_a_route(scene: Scene, error: TenureError) -> None:
    def goes_on(term: Term) -> Ended:
        wait_until(lambda: any(isinstance(event, ServiceNotLed) for event in scene.told), what="the event")
        assert not term.lost
        return Ended.IDLE

    member = scene.member(Scripted(goes_on), service=serving(scene, Published(*[error] * 99)))
    assert member.run(stop=threading.Event()) is Ended.IDLE
    (told,) = {event for event in scene.told if isinstance(event, ServiceNotLed)}
    assert told == ServiceNotLed(SCOPE, member="anna", epoch=1, service="shop", why=str(error))
    assert scene.words() == ["finished"]
