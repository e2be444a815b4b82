"""Members that operators ask for something: switchover, failover, pause, resume, restart."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tenure.agent.scope_watch import awaited_in
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.candidates import RESTARTS, SWITCHOVER, State
from tenure.coordination.election import observe
from tenure.coordination.encoding import encode
from tenure.coordination.records import Delete, Put, Record, Version
from tenure.coordination.term import LEADER, Term
from tenure.coordination.terms import terms_in
from tenure.errors import UsageError
from tenure.events import Event, Events, LeadershipAwaited, Once
from tenure.link.driver import Ended
from tenure.operate.history import history
from tenure.operate.orders import Orders
from tenure.operate.snapshot import take_snapshot
from tests.kit.faulty import Call, FaultyStore
from tests.kit.waiting import NEVER_S, Deadline, wait_until
from tests.unit.agent.scene import CLOCK, SCOPE, Scene, Scripted, Step, make_scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


class Two:
    """A leader `anna` and a standby `ben`, each on a thread; both lead until they are asked for something."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.orders = Orders(scene.store, SCOPE, clock=CLOCK)
        self.stop = threading.Event()
        self.drivers: dict[str, Scripted] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, **named: object) -> None:
        driver = self.drivers[name] = Scripted(*[self._until_asked(name)] * 9)
        member = self.scene.member(driver, name=name, **named)  # type: ignore[arg-type] # passed on as they are
        thread = threading.Thread(target=member.run, kwargs={"stop": self.stop})
        thread.start()
        self._threads.append(thread)

    def _until_asked(self, name: str) -> Step:
        def step(term: Term) -> Ended:
            driver = self.drivers[name]
            wait_until(lambda: self.stop.is_set() or driver.finish.is_set() or term.lost, what="a word")
            return Ended.LOST if term.lost else Ended.STOPPED

        return step

    def leads(self, name: str, *, epoch: int) -> None:
        """Wait until this member leads, and everybody else is ready."""

        def settled() -> bool:
            found = take_snapshot(self.scene.store, SCOPE)
            others = [one for one in found.members if one.ready and one.member != name]
            return (found.leader, found.epoch) == (name, epoch) and len(others) == len(self._threads) - 1

        wait_until(settled, what=f"{name} to lead term {epoch}")

    def end(self) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(timeout=NEVER_S)
            assert not thread.is_alive()


@pytest.fixture
def two(scene: Scene) -> Iterator[Two]:
    two = Two(scene)
    try:
        two.start("anna")
        two.leads("anna", epoch=1)
        two.start("ben")
        two.leads("anna", epoch=1)
        yield two
    finally:
        two.end()


def test_a_switchover_goes_to_the_named_member_and_back(two: Two) -> None:
    two.orders.switchover(to="ben")
    two.leads("ben", epoch=2)
    two.orders.switchover(to=None)
    two.leads("anna", epoch=3)
    assert two.scene.words() == ["switchover", "switchover", ""]
    assert [term.detail for term in history(two.scene.store, SCOPE).terms] == ["to ben", "to anna", ""]
    told = terms_in(two.scene.store.list(SCOPE, "").records)
    assert [(one.why, one.detail) for one in told] == [("switchover", "to ben"), ("switchover", ""), ("", "")], (
        "as it was asked for"
    )
    assert take_snapshot(two.scene.store, SCOPE).switchover is None


def test_a_switchover_to_one_that_cannot_is_refused(two: Two) -> None:
    for nobody in ("anna", "carl"):
        with pytest.raises(
            UsageError, match=rf"member '{nobody}' of scope 'rows' could not take over; ready: \['ben'\]"
        ):
            two.orders.switchover(to=nobody)
    two.leads("anna", epoch=1)


def test_a_failover_takes_the_office_away_from_a_leader_that_does_nothing_for_it(two: Two) -> None:
    two.orders.failover(to=None)
    two.leads("ben", epoch=2)
    assert two.scene.words() == ["failover", ""]
    assert history(two.scene.store, SCOPE).terms[0].detail == "to ben"


def asked_before(to: str) -> Put:
    """The request for a switchover of epoch 1 that an operator made just before a pause."""
    return Put(SWITCHOVER, encode({"epoch": 1, "to": to, "uid": "u"}), replaces=None)


def test_nobody_is_elected_during_a_pause(two: Two) -> None:
    assert two.orders.pause()
    assert not two.orders.pause()
    leader = two.scene.store.read(SCOPE, LEADER)
    assert leader is not None
    two.scene.store.commit(SCOPE, guards=(), writes=[Delete(LEADER, leader.version), asked_before("ben")])
    wait_until(lambda: take_snapshot(two.scene.store, SCOPE).leader is None)
    found = take_snapshot(two.scene.store, SCOPE)
    assert found.paused
    wait_until(lambda: len(take_snapshot(two.scene.store, SCOPE).members) == 2)
    assert take_snapshot(two.scene.store, SCOPE).leader is None
    assert two.orders.resume()
    assert not two.orders.resume()
    two.leads("ben", epoch=2)


def test_a_restart_of_the_leader_hands_over_and_of_a_standby_does_not(two: Two) -> None:
    two.orders.restart("ben")
    wait_until(lambda: two.drivers["ben"].prepared == 2)
    two.leads("anna", epoch=1)
    two.orders.restart("anna")
    wait_until(lambda: two.drivers["anna"].prepared == 2)
    two.leads("ben", epoch=2)
    assert two.scene.words() == ["restart", ""]
    assert two.scene.store.list(SCOPE, "restarts").records == ()
    with pytest.raises(UsageError, match="no live member of scope 'rows' is named 'carl'"):
        two.orders.restart("carl")


@pytest.mark.parametrize("lost", ["request", "reply", "nothing was sent"])
def test_a_restart_is_obeyed_once_also_when_its_record_could_not_be_removed(two: Two, scene: Scene, lost: str) -> None:
    """The member came back with a new session, saw the request, and replaced its driver once more."""
    line = FaultyStore(scene.store)

    def removes(call: Call) -> bool:
        return any(isinstance(write, Delete) and write.key == RESTARTS.child("carl") for write in call.writes)

    fault = {"request": line.lose_request, "reply": line.lose_reply, "nothing was sent": line.be_unavailable}[lost]
    script = fault(when=removes)
    two.start("carl", store=line)
    two.leads("anna", epoch=1)
    two.orders.restart("carl")
    carl = two.drivers["carl"]
    wait_until(lambda: script.fired and scene.store.read(SCOPE, RESTARTS.child("carl")) is None)
    wait_until(lambda: carl.prepared >= 2)  # until then its earlier session may still be there, and ready
    two.leads("anna", epoch=1)
    assert carl.prepared == 2
    two.orders.restart("carl")
    wait_until(lambda: carl.prepared >= 3)
    two.leads("anna", epoch=1)
    assert carl.prepared == 3


def test_a_switchover_whose_target_dies_goes_to_another(two: Two, scene: Scene) -> None:
    two.orders.pause()
    two.start("carl")
    two.leads("anna", epoch=1)
    scene.store.commit(SCOPE, guards=(), writes=[asked_before("ben")])
    wait_until(lambda: take_snapshot(scene.store, SCOPE).leader is None)
    two.drivers["ben"].gone = "signal SIGKILL"
    two.drivers["ben"].prepare = lambda **named: wait_until(two.stop.is_set)  # type: ignore[method-assign] # hangs
    wait_until(
        lambda: (
            [one.member for one in take_snapshot(scene.store, SCOPE).members if one.state is State.STARTING] == ["ben"]
        ),
    )
    assert history(scene.store, SCOPE).terms[0].detail == "to ben"
    two.orders.resume()
    wait_until(lambda: take_snapshot(scene.store, SCOPE).leader == "carl")
    asked, led = history(scene.store, SCOPE).terms
    assert (asked.why, asked.detail, led.holder) == ("switchover", "to ben", "carl"), "as it was asked for"


def test_a_request_that_does_not_decode_costs_the_leader_nothing(scene: Scene) -> None:
    two, store = Two(scene), scene.store
    two.start("anna")
    two.leads("anna", epoch=1)
    version = store.commit(SCOPE, guards=(), writes=[Put(SWITCHOVER, b"{", replaces=None)]).versions[SWITCHOVER]
    deadline = Deadline(timedelta(seconds=2))
    while not deadline.over:
        assert store.read(SCOPE, LEADER) is not None
        deadline.pause(timedelta(milliseconds=50))
    store.commit(SCOPE, guards=(), writes=[Delete(SWITCHOVER, version)])
    two.start("ben")
    two.leads("anna", epoch=1)
    two.orders.switchover(to="ben")
    two.leads("ben", epoch=2)
    two.end()


# --- what a member says of itself -------------------------------------------------------------------------------


def test_the_condition_follows_what_the_member_does(scene: Scene) -> None:
    stop = threading.Event()
    driver = Scripted()
    member = scene.member(driver)
    seen: list[tuple[State, int | None, bool]] = []

    def note() -> None:
        found = member.condition
        seen.append((found.state, found.epoch, found.ready))

    def lead(term: Term) -> Ended:
        note()
        term.liveness.end("refused")
        note()
        return Ended.IDLE

    driver.steps.append(lead)
    note()
    assert member.run(stop=stop) is Ended.IDLE
    note()
    nothing = (State.STARTING, None, False)
    assert seen == [nothing, (State.LEADING, 1, True), nothing, nothing]


@pytest.mark.parametrize(("cold", "rehearsable", "warm", "ready"), [
    (False, False, False, True),
    (False, True, False, False),
    (True, True, False, True),
    (False, True, True, True),
])  # fmt: skip
def test_a_standby_is_ready_when_it_is_warm_or_need_not_be(
    scene: Scene, cold: bool, rehearsable: bool, warm: bool, ready: bool
) -> None:
    two = Two(scene)
    two.start("anna")
    two.leads("anna", epoch=1)
    if rehearsable:
        scene.store.commit(SCOPE, guards=(), writes=[Put(CHECKPOINTS.child("copy").child("1"), b"", replaces=None)])
    driver = Scripted()
    driver.warm = warm
    member = scene.member(driver, name="ben", cold=cold)
    thread = threading.Thread(target=member.run, kwargs={"stop": two.stop})
    thread.start()
    try:
        wait_until(lambda: member.condition.state in (State.READY, State.WARM))
        assert member.condition.ready == ready
        driver.gone = "signal SIGKILL"
        assert member.condition.state is State.STARTING
    finally:
        two.end()
        thread.join(timeout=NEVER_S)


def test_a_standby_whose_rehearsals_fail_says_so_and_which_file_it_runs(scene: Scene) -> None:
    two = Two(scene)
    two.start("anna")
    two.leads("anna", epoch=1)
    driver = Scripted()
    driver.trouble = "query 'copy' was not rehearsed: no luck"
    member = scene.member(driver, name="ben", cold=True)
    thread = threading.Thread(target=member.run, kwargs={"stop": two.stop})
    thread.start()

    def said() -> tuple[State, str, str, bool]:
        (ben,) = [one for one in observe(scene.store, SCOPE).members if one.member == "ben"]
        return ben.state, ben.trouble, ben.file, ben.ready

    try:
        wait_until(lambda: member.condition.state is State.FAILING)
        assert not member.condition.ready
        wait_until(lambda: said() == (State.FAILING, driver.trouble, driver.file, True))
        driver.trouble = ""
        wait_until(lambda: said() == (State.READY, "", driver.file, True))
        (anna,) = [one for one in observe(scene.store, SCOPE).members if one.member == "anna"]
        assert anna.file == driver.file
    finally:
        two.end()
        thread.join(timeout=NEVER_S)


# --- for whom a standby waits -------------------------------------------------------------------------------------


def test_a_standby_says_once_for_whom_it_waits(two: Two) -> None:
    def awaited() -> list[tuple[str, str, int, bool]]:
        told = [event for event in two.scene.told if isinstance(event, LeadershipAwaited)]
        return [(event.member, event.leader, event.epoch, event.paused) for event in told]

    wait_until(lambda: awaited() == [("ben", "anna", 1, False)])
    two.orders.pause()
    wait_until(lambda: awaited()[1:] == [("ben", "anna", 1, True)])
    two.orders.resume()
    wait_until(lambda: awaited()[2:] == [("ben", "anna", 1, False)])
    two.orders.switchover(to="ben")
    two.leads("ben", epoch=2)
    wait_until(lambda: awaited()[3:] == [("anna", "ben", 2, False)])


def test_a_leader_whose_record_does_not_decode_is_waited_for_without_a_name() -> None:
    told: list[Event] = []
    ahead = Once(Events(told.append))
    for value in (b"{", encode({"member": "anna", "epoch": 3}), b"{"):
        ahead.look(*awaited_in([Record(LEADER, value, Version("1"), None)], SCOPE, member="ben"))
    assert told == [LeadershipAwaited(SCOPE, member="ben", leader="anna", epoch=3, paused=False)]
