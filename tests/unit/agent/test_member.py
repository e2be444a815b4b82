"""A member around a driver that is made up: when it gets a term, when it gives it up, with which word."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import Literal

import pytest

from tenure.coordination.election import Flag
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.errors import (
    AccessDenied,
    BatchMayBeShort,
    CorruptRunDirectory,
    DriverDied,
    QueryFailed,
    SourceUnavailable,
    StoreUnavailable,
    TermLost,
    UsageError,
)
from tenure.link.driver import Ended, ReadRecords
from tenure.operate.history import history
from tenure.operate.snapshot import take_snapshot
from tests.kit.faulty import Call, FaultyStore, Proceed, operation, writes_under
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import SCOPE, Scene, Scripted, Step, fail, make_scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


@pytest.mark.parametrize(("ended", "word"), [(Ended.IDLE, "finished"), (Ended.STOPPED, "stopped")])
def test_a_leadership_that_ends_well_is_given_up_with_its_word(scene: Scene, ended: Ended, word: str) -> None:
    assert scene.member(Scripted(lambda term: ended)).run(stop=threading.Event()) is ended
    assert scene.words() == [word]
    found = take_snapshot(scene.store, SCOPE)
    assert (found.leader, found.members) == (None, ())
    assert [type(event).__name__ for event in scene.told] == ["MemberReady", "TermWon", "TermEnded"]


@pytest.mark.parametrize("error", [QueryFailed("no luck"), ZeroDivisionError()])
def test_a_failure_is_raised_after_the_term_was_given_up(scene: Scene, error: Exception) -> None:
    with pytest.raises(type(error)):
        scene.member(Scripted(fail(error))).run(stop=threading.Event())
    assert scene.words() == ["failed"]
    assert take_snapshot(scene.store, SCOPE).leader is None


def test_the_term_is_held_while_the_driver_leads(scene: Scene) -> None:
    def look(term: Term) -> Ended:
        found = take_snapshot(scene.store, SCOPE)
        assert (found.leader, found.epoch) == ("anna", term.epoch)
        return Ended.IDLE

    scene.member(Scripted(look)).run(stop=threading.Event())


@pytest.mark.parametrize("lost", [lambda term: Ended.LOST, fail(TermLost(scope="rows", epoch=1))])
def test_a_lost_term_is_followed_by_another_one_under_a_new_session(scene: Scene, lost: Step) -> None:
    sessions: list[object] = []

    def note(step: Step) -> Step:
        def noted(term: Term) -> Ended:
            leader = scene.store.read(SCOPE, LEADER)
            assert leader is not None
            sessions.append(leader.session)
            return step(term)

        return noted

    driver = Scripted(note(lost), note(lambda term: Ended.IDLE))
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert driver.epochs == [1, 2]
    assert driver.prepared == 1
    assert len(set(sessions)) == 2
    assert scene.words() == ["session ended", "finished"]


def test_an_error_after_the_term_was_lost_is_none_of_the_member(scene: Scene) -> None:
    """A leader that was paused wakes up, and finds that what it was reading was swept meanwhile."""

    def late(term: Term) -> Ended:
        term.liveness.end("the deadline passed without a renewal")
        raise CorruptRunDirectory("runs/rows/e1-anna/offsets/0 is missing")

    driver = Scripted(late, lambda term: Ended.IDLE)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert driver.epochs == [1, 2]


def test_that_a_batch_may_be_short_is_told_also_after_the_term_was_lost(scene: Scene) -> None:
    def late(term: Term) -> Ended:
        term.liveness.end("the deadline passed without a renewal")
        raise BatchMayBeShort("input files that are planned for batch 0 of query 'rows' are gone")

    driver = Scripted(late)
    with pytest.raises(BatchMayBeShort):
        scene.member(driver).run(stop=threading.Event())
    assert driver.epochs == [1]


def test_a_driver_that_cannot_be_prepared_costs_no_term(scene: Scene) -> None:
    class Unprepared(Scripted):
        def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
            raise UsageError("no such parameter")

    with pytest.raises(UsageError):
        scene.member(Unprepared()).run(stop=threading.Event())
    assert scene.store.list(SCOPE, "").records == ()


def test_a_member_that_was_asked_to_stop_before_never_contends(scene: Scene) -> None:
    stop = threading.Event()
    stop.set()
    assert scene.member(Scripted()).run(stop=stop) is Ended.STOPPED
    assert scene.store.read(SCOPE, EPOCH) is None


def test_a_standby_stops_when_it_is_asked(scene: Scene) -> None:
    stop = threading.Event()
    standing = Scripted()

    def lead(term: Term) -> Ended:
        thread = threading.Thread(target=scene.member(standing, name="ben").run, kwargs={"stop": stop})
        thread.start()
        stop.set()
        thread.join(timeout=NEVER_S)
        assert not thread.is_alive()
        return Ended.IDLE

    scene.member(Scripted(lead)).run(stop=threading.Event())
    assert standing.epochs == []


def test_a_name_that_a_live_member_has_is_refused(scene: Scene) -> None:
    def lead(term: Term) -> Ended:
        with pytest.raises(UsageError, match="a live member of scope 'rows' is named 'anna'; start this one"):
            scene.member(Scripted(), ttl=0.5).run(stop=threading.Event())
        return Ended.IDLE

    assert scene.member(Scripted(lead), ttl=0.5).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["finished"]


def test_a_member_that_waits_for_its_former_session_stops_when_it_is_asked(scene: Scene) -> None:
    def lead(term: Term) -> Ended:
        stop = threading.Event()
        again, faulty = Scripted(), FaultyStore(scene.store)
        tried = faulty.script(lambda call, proceed: proceed(), when=writes_under("members"), times=None)
        ended: list[Ended] = []
        member = scene.member(again, ttl=NEVER_S, store=faulty)
        waiting = threading.Thread(target=lambda: ended.append(member.run(stop=stop)))
        waiting.start()
        wait_until(lambda: tried.fired >= 2)
        stop.set()
        waiting.join(timeout=NEVER_S / 2)
        assert (ended, again.prepared) == ([Ended.STOPPED], 0)
        return Ended.IDLE

    assert scene.member(Scripted(lead)).run(stop=threading.Event()) is Ended.IDLE


def test_a_term_that_cannot_be_given_up_ends_with_its_session_and_says_so(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)

    def lead(term: Term) -> Ended:
        faulty.be_unavailable(when=writes_under("leader"), times=None)
        term.liveness.end("the deadline passed without a renewal")
        return Ended.STOPPED

    assert scene.member(Scripted(lead), store=faulty).run(stop=threading.Event()) is Ended.STOPPED
    assert take_snapshot(scene.store, SCOPE).leader is None
    assert scene.words() == ["session ended"], "nobody leads, and nobody has given the term up"


# --- a driver that dies, a store that goes ----------------------------------------------------------------------


def test_a_driver_that_dies_costs_its_term_at_once_and_is_replaced(scene: Scene) -> None:
    driver = Scripted(lambda term: Ended.IDLE)

    def die(term: Term) -> Ended:
        driver.gone = "signal SIGKILL"
        raise DriverDied("the driver ended by itself: signal SIGKILL")

    driver.steps.insert(0, die)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["driver died", "finished"]
    assert [term.detail for term in history(scene.store, SCOPE).terms] == ["signal SIGKILL", ""]
    assert driver.prepared == 2
    assert [type(event).__name__ for event in scene.told] == [
        "MemberReady", "TermWon", "TermEnded", "DriverEnded", "MemberReady", "TermWon", "TermEnded",
    ]  # fmt: skip


def test_a_source_that_does_not_answer_costs_the_term_and_not_the_driver(scene: Scene) -> None:
    driver = Scripted(fail(SourceUnavailable("query 'copy': a source does not answer")), lambda term: Ended.IDLE)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["source away", "finished"]
    assert driver.prepared == 1
    assert "SourceAway" in [type(event).__name__ for event in scene.told]


def test_a_driver_that_dies_while_it_stands_by_is_replaced_before_it_can_be_elected(scene: Scene) -> None:
    standing = Scripted(lambda term: Ended.IDLE)

    def lead(term: Term) -> Ended:
        thread.start()
        wait_until(lambda: standing.gone is None)
        standing.gone = "signal SIGKILL"
        wait_until(lambda: standing.prepared == 2)
        return Ended.IDLE

    thread = threading.Thread(target=scene.member(standing, name="ben").run, kwargs={"stop": threading.Event()})
    scene.member(Scripted(lead)).run(stop=threading.Event())
    thread.join(timeout=NEVER_S)
    assert not thread.is_alive()
    assert standing.epochs == [2]
    assert scene.words() == ["finished", "finished"]


def test_a_driver_that_dies_before_it_was_ever_ready_is_an_error(scene: Scene) -> None:
    class Stillborn(Scripted):
        def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
            raise DriverDied("the driver ended before it was ready: exit code 1")

    with pytest.raises(DriverDied, match="before it was ready"):
        scene.member(Stillborn()).run(stop=threading.Event())


def test_a_driver_that_must_be_killed_at_an_orderly_stop_leaves_an_orderly_end(scene: Scene) -> None:
    stop = threading.Event()

    def stuck(term: Term) -> Ended:
        stop.set()
        raise DriverDied("queries did not stop in 20 s; the driver was killed")

    assert scene.member(Scripted(stuck)).run(stop=stop) is Ended.STOPPED
    assert scene.words() == ["stopped"]


def is_ready(scene: Scene, name: str) -> bool:
    return any(one.member == name and one.ready for one in take_snapshot(scene.store, SCOPE).members)


class Warm(Scripted):
    """A driver that has rehearsed."""

    warm = True


def test_a_leader_that_is_asked_to_stop_hands_over_to_the_warm_standby_and_never_leads_again(scene: Scene) -> None:
    stop, rest = threading.Event(), threading.Event()

    def stand(term: Term) -> Ended:
        wait_until(rest.is_set)
        return Ended.STOPPED

    ready, warm = Scripted(stand), Warm(stand)
    threads: list[threading.Thread] = []

    def lead(term: Term) -> Ended:
        for driver, name in ((ready, "ben"), (warm, "carl")):
            threads.append(threading.Thread(target=scene.member(driver, name=name).run, kwargs={"stop": rest}))
            threads[-1].start()
            wait_until(partial(is_ready, scene, name))
        stop.set()
        return Ended.STOPPED

    leader = Warm(lead)
    try:
        assert scene.member(leader).run(stop=stop) is Ended.STOPPED
        wait_until(lambda: warm.epochs == [2])
        assert (leader.epochs, ready.epochs) == ([1], [])
    finally:
        rest.set()
        for thread in threads:
            thread.join(timeout=NEVER_S)
    assert [one.holder for one in history(scene.store, SCOPE).terms][:2] == ["anna", "carl"]


def test_a_member_that_loses_the_store_comes_back(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)

    def lose(term: Term) -> Ended:
        faulty.be_unavailable(times=5)
        raise StoreUnavailable("disk is full")

    driver = Scripted(lose, lambda term: Ended.IDLE)
    assert scene.member(driver, store=faulty, ttl=1).run(stop=threading.Event()) is Ended.IDLE
    assert driver.epochs == [1, 2]
    assert driver.prepared == 1
    assert "StoreAway" in [type(event).__name__ for event in scene.told]


def denied(call: Call, proceed: Proceed) -> object:
    raise AccessDenied(f"{call.operation} is not permitted (scripted)", fix="give the account this right")


@pytest.mark.parametrize("what", ["open_session", "commit", "glance"])
def test_a_member_that_may_not_do_its_work_ends_at_once(
    scene: Scene, what: Literal["open_session", "commit", "glance"]
) -> None:
    """It said so, tried again, and then found itself: its first session could not be ended either."""
    faulty = FaultyStore(scene.store)
    faulty.script(denied, when=operation(what), times=5)
    driver = Scripted()
    with pytest.raises(AccessDenied, match=f"{what} is not permitted"):
        scene.member(driver, store=faulty).run(stop=threading.Event())
    assert "StoreAway" not in [type(event).__name__ for event in scene.told]
    assert driver.prepared == (what == "glance")


def test_a_member_that_is_denied_its_rights_later_waits_for_them(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)

    def lose(term: Term) -> Ended:
        faulty.script(denied, when=operation("open_session"), times=2)
        term.liveness.end("lost")
        return Ended.LOST

    driver = Scripted(lose, lambda term: Ended.IDLE)
    assert scene.member(driver, store=faulty, ttl=1).run(stop=threading.Event()) is Ended.IDLE
    assert [type(event).__name__ for event in scene.told].count("StoreAway") == 2


def test_one_read_that_fails_costs_no_term(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)
    fails = itertools.cycle([True, False])
    script = faulty.be_unavailable(when=lambda call: call.operation == "read" and next(fails), times=None)
    driver = Scripted(lambda term: Ended.IDLE)
    assert scene.member(driver, store=faulty).run(stop=threading.Event()) is Ended.IDLE
    assert script.fired > 1
    assert scene.words() == ["finished"]


@pytest.mark.parametrize("what", ["glance", "wait"])
def test_one_look_that_fails_costs_a_standby_neither_its_session_nor_its_mirrors(scene: Scene, what: str) -> None:
    """It opened another session, and its driver began its mirrors anew."""
    faulty = FaultyStore(scene.store)
    standing = Scripted(lambda term: Ended.IDLE)

    def lead(term: Term) -> Ended:
        thread.start()
        wait_until(lambda: ready(scene) == ["ben"])
        script = faulty.be_unavailable(when=lambda call: call.operation == what, times=2)
        wait_until(lambda: script.fired == 2)
        return Ended.IDLE

    thread = threading.Thread(
        target=scene.member(standing, name="ben", store=faulty).run, kwargs={"stop": threading.Event()}
    )
    scene.member(Scripted(lead)).run(stop=threading.Event())
    thread.join(timeout=NEVER_S)
    assert not thread.is_alive()
    assert standing.epochs == [2]
    assert len([call for call in faulty.calls if call.operation == "open_session"]) == 1
    assert "StoreAway" not in [type(event).__name__ for event in scene.told]


def ready(scene: Scene) -> list[str]:
    return [one.member for one in take_snapshot(scene.store, SCOPE).members if one.ready]


def test_a_member_that_shall_stop_when_the_store_is_lost_does_so_at_the_first_failed_renewal(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)

    def until_stopped(term: Term) -> Ended:
        faulty.be_unavailable(when=operation("renew"), times=1)  # whoever else asks would use it up
        wait_until(stops[0].is_set)
        assert not term.lost
        return Ended.STOPPED

    stops: list[Flag] = []

    class Listening(Scripted):
        def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
            stops.append(stop)
            return super().lead(term, stop=stop, finish=finish)

    with pytest.raises(StoreUnavailable, match="on_store_loss says stop: "):
        scene.member(Listening(until_stopped), store=faulty, ttl=3, hold=False).run(stop=threading.Event())
    assert scene.words() == ["stopped"]
