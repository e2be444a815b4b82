"""A member whose pipeline ends for good, around a driver that is made up: the result first, then the cleanup (I7)."""

from __future__ import annotations

import threading

import pytest

from tenure.coordination.term import LEADER, Term
from tenure.errors import CleanupIncomplete, DriverDied, QueryFailed, StoreUnavailable, TermLost
from tenure.events import PipelineEnded
from tenure.link.driver import Ended
from tenure.results.result import Result, Stage
from tenure.results.store import result_in
from tests.kit.faulty import FaultyStore, writes_under
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import SCOPE, Scene, Scripted, fail, make_scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


def result(scene: Scene) -> Result | None:
    return result_in(scene.store.list(SCOPE, "").records)


def stage(scene: Scene) -> Stage | None:
    found = result(scene)
    return None if found is None else found.stage


def idle(term: Term) -> Ended:
    return Ended.IDLE


def ended(scene: Scene) -> list[bool]:
    """What was told of the end: whether it was clean."""
    return [event.clean for event in scene.told if isinstance(event, PipelineEnded)]


def test_a_pipeline_that_ended_is_cleaned_up_between_dirty_and_clean(scene: Scene) -> None:
    def look(term: Term) -> Ended:
        assert stage(scene) is Stage.DIRTY
        assert scene.store.read(SCOPE, LEADER) is not None
        return Ended.CLEANED

    driver = Scripted(idle, cleans=(look,))
    assert scene.member(driver, final=True).run(stop=threading.Event()) is Ended.CLEANED
    found = result(scene)
    assert found is not None
    assert (found.stage, found.epoch, found.member) == (Stage.CLEAN, 1, "anna")
    assert scene.words() == ["cleaned up"]
    assert ended(scene) == [False, True]


@pytest.mark.parametrize("end", [Ended.IDLE, Ended.STOPPED])
def test_what_is_not_final_has_no_result(scene: Scene, end: Ended) -> None:
    assert scene.member(Scripted(lambda term: end)).run(stop=threading.Event()) is end
    assert result(scene) is None


def test_an_end_that_is_not_for_good_has_no_result(scene: Scene) -> None:
    member = scene.member(Scripted(lambda term: Ended.STOPPED), final=True)
    assert member.run(stop=threading.Event()) is Ended.STOPPED
    assert result(scene) is None


@pytest.mark.parametrize("final", [True, False])
def test_a_failure_without_a_reason_is_an_error_all_the_same(scene: Scene, final: bool) -> None:
    with pytest.raises(QueryFailed, match="the driver does not say why"):
        scene.member(Scripted(lambda term: Ended.FAILED), final=final).run(stop=threading.Event())
    assert result(scene) is None
    assert scene.words() == ["failed"]


def test_a_query_that_failed_is_not_an_end_for_good(scene: Scene) -> None:
    with pytest.raises(QueryFailed):
        scene.member(Scripted(fail(QueryFailed("no luck"))), final=True).run(stop=threading.Event())
    assert result(scene) is None


def test_what_has_ended_and_is_clean_is_not_even_prepared(scene: Scene) -> None:
    scene.member(Scripted(idle, cleans=(lambda term: Ended.CLEANED,)), final=True).run(stop=threading.Event())
    again = Scripted()
    assert scene.member(again, name="ben").run(stop=threading.Event()) is Ended.DONE
    assert again.prepared == 0
    assert scene.words() == ["cleaned up"]
    assert ended(scene) == [False, True, True]


@pytest.mark.parametrize("final", [True, False])
def test_a_dirty_result_is_cleaned_up_and_nothing_is_run(scene: Scene, final: bool) -> None:
    stop = threading.Event()

    def interrupted(term: Term) -> Ended:
        stop.set()
        return Ended.STOPPED

    first = Scripted(idle, cleans=(interrupted,))
    assert scene.member(first, final=True).run(stop=stop) is Ended.STOPPED
    assert stage(scene) is Stage.DIRTY
    second = Scripted(cleans=(lambda term: Ended.CLEANED,))
    assert scene.member(second, name="ben", final=final).run(stop=threading.Event()) is Ended.CLEANED
    assert second.epochs == [2]
    found = result(scene)
    assert found is not None
    assert (found.stage, found.epoch, found.member) == (Stage.CLEAN, 1, "anna")
    assert scene.words() == ["stopped", "cleaned up"]


def test_what_cannot_be_removed_ends_with_an_error_and_stays_dirty(scene: Scene) -> None:
    driver = Scripted(idle, cleans=(lambda term: Ended.LEFT,))
    with pytest.raises(CleanupIncomplete, match="cleanup is incomplete; remove the causes in tenure cleanup status"):
        scene.member(driver, final=True).run(stop=threading.Event())
    assert stage(scene) is Stage.DIRTY
    assert scene.words() == ["cleanup gave up"]


def test_a_driver_that_dies_in_the_cleanup_is_replaced_and_goes_on(scene: Scene) -> None:
    driver = Scripted(idle)

    def die(term: Term) -> Ended:
        driver.gone = "signal SIGKILL"
        raise DriverDied("signal SIGKILL")

    driver.cleans = [die, lambda term: Ended.CLEANED]
    assert scene.member(driver, final=True).run(stop=threading.Event()) is Ended.CLEANED
    assert driver.epochs == [1, 1, 2]
    assert stage(scene) is Stage.CLEAN
    assert scene.words() == ["driver died", "cleaned up"]


@pytest.mark.parametrize("lost", [lambda term: Ended.LOST, fail(TermLost(scope="rows", epoch=1))])
def test_a_term_that_is_lost_in_the_cleanup_is_followed_by_another_one(scene: Scene, lost: object) -> None:
    driver = Scripted(idle, cleans=(lost, lambda term: Ended.CLEANED))  # type: ignore[arg-type] # both are steps
    assert scene.member(driver, final=True).run(stop=threading.Event()) is Ended.CLEANED
    assert driver.epochs == [1, 1, 2]
    assert stage(scene) is Stage.CLEAN


def test_nothing_is_cleaned_up_while_the_result_is_not_durable(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)
    driver = Scripted(idle)

    def cut(term: Term) -> Ended:
        faulty.be_unavailable(when=writes_under("results"), times=None)
        return Ended.IDLE

    driver.steps = [cut]
    with pytest.raises(StoreUnavailable):
        scene.member(driver, final=True, store=faulty, hold=False).run(stop=threading.Event())
    assert result(scene) is None
    assert driver.cleaned == 0


def test_a_successor_of_a_leader_that_died_before_its_result_runs_the_pipeline(scene: Scene) -> None:
    def lose(term: Term) -> Ended:
        term.liveness.end("it was paused")
        return Ended.LOST

    driver = Scripted(lose, idle, cleans=(lambda term: Ended.CLEANED,))
    assert scene.member(driver, final=True).run(stop=threading.Event()) is Ended.CLEANED
    assert driver.epochs == [1, 2, 2]


def test_a_standby_ends_when_the_leader_has_cleaned_up(scene: Scene) -> None:
    standing = Scripted()
    ends: list[Ended] = []
    thread = threading.Thread(
        target=lambda: ends.append(scene.member(standing, name="ben", final=True).run(stop=threading.Event()))
    )

    def lead(term: Term) -> Ended:
        thread.start()
        wait_until(lambda: standing.prepared == 1)
        return Ended.IDLE

    scene.member(Scripted(lead, cleans=(lambda term: Ended.CLEANED,)), final=True).run(stop=threading.Event())
    thread.join(timeout=NEVER_S)
    assert ends == [Ended.DONE]
    assert standing.epochs == []


def test_a_standby_that_is_faster_than_the_word_finds_it_under_its_term(scene: Scene) -> None:
    """It is elected after the result was written clean, before it has looked."""
    scene.member(Scripted(idle, cleans=(lambda term: Ended.CLEANED,)), final=True).run(stop=threading.Event())
    late = scene.member(Scripted(), name="ben")
    reads = iter([None])
    read = late._results.read
    late._results.read = lambda term=None: next(reads, None) or read(term)  # type: ignore[method-assign] # the first look is too early
    assert late.run(stop=threading.Event()) is Ended.DONE
