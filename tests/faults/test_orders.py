"""Requests of operators whose reply is lost: each is made once, whatever becomes of it meanwhile.

They were sent again until an answer came. A request that had been obeyed by then, and removed, found its place free: a
member replaced its driver twice, and a scope was paused after it was resumed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.coordination.candidates import PAUSED, RESTARTS, SWITCHOVER
from tenure.coordination.election import observe
from tenure.coordination.records import Delete, Key, Put
from tenure.coordination.term import LEADER, Term
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable, UsageError
from tenure.operate.orders import Orders
from tests.faults.lab import SCOPE, Lab, Member, reply_lost, request_lost
from tests.kit.faulty import Call, FaultyStore, Proceed, commits

RESTART = RESTARTS.child("ben")


class Scene:
    """`anna` leads, `ben` stands by, and an operator whose line breaks."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.anna, self.ben = self._member("anna"), self._member("ben")
        self.term: Term = self.anna.lead()
        self.line = FaultyStore(lab.truth)
        self.orders = Orders(self.line, SCOPE, clock=lab.clock)
        self.other = Orders(lab.truth, SCOPE, clock=lab.clock)

    def _member(self, name: str) -> Member:
        member = self.lab.member(name)
        member.election.join(member.keeper, host="h", pid=1)
        return member

    def has(self, key: Key) -> bool:
        return self.lab.truth.read(SCOPE, key) is not None

    def remove(self, key: Key) -> None:
        """As who obeys does it."""
        record = self.lab.truth.read(SCOPE, key)
        assert record is not None
        self.lab.truth.commit(SCOPE, guards=(), writes=[Delete(key, record.version)])

    def meanwhile(self, act: Callable[[], object]) -> None:
        """The next request reaches the store, its reply is lost, and somebody acts on it before anything else."""

        def fault(call: Call, proceed: Proceed) -> object:
            proceed()
            act()
            raise OutcomeUnknown("the reply was lost")

        self.line.script(fault, when=commits)

    def sent(self) -> int:
        return len([call for call in self.line.calls if commits(call)])


@pytest.fixture
def scene(lab: Lab) -> Scene:
    return Scene(lab)


# --- obeyed before its sender knows that it was made ---------------------------------------------------------------


def test_a_restart_that_was_obeyed_meanwhile_is_not_asked_again(scene: Scene) -> None:
    scene.meanwhile(lambda: scene.remove(RESTART))
    with pytest.raises(OutcomeUnknown, match="not known whether a restart of member 'ben' of scope 'pipeline' was"):
        scene.orders.restart("ben")
    assert not scene.has(RESTART)


def test_a_pause_that_was_ended_meanwhile_is_not_made_again(scene: Scene) -> None:
    scene.meanwhile(scene.other.resume)
    with pytest.raises(OutcomeUnknown, match="a pause of scope 'pipeline' was asked for, and perhaps obeyed"):
        scene.orders.pause()
    assert not scene.has(PAUSED)


def test_a_resumption_does_not_end_a_later_pause(scene: Scene) -> None:
    scene.other.pause()
    scene.meanwhile(scene.other.pause)
    assert scene.orders.resume(), "the pause that it saw has ended"
    assert scene.has(PAUSED)


@pytest.mark.parametrize("same_session", [True, False])
def test_a_switchover_that_was_obeyed_meanwhile_does_not_strike_the_next_leader(
    scene: Scene, same_session: bool
) -> None:
    def obey() -> None:
        scene.anna.election.resign(scene.term)
        scene.remove(SWITCHOVER)
        (scene.anna if same_session else scene.ben).lead()

    scene.meanwhile(obey)
    with pytest.raises(OutcomeUnknown, match="changed meanwhile, perhaps by this request; look with tenure list"):
        scene.orders.switchover(to="ben")
    assert not scene.has(SWITCHOVER)
    assert observe(scene.lab.truth, SCOPE).epoch == 2


def test_a_failover_that_was_followed_meanwhile_does_not_strike_the_next_leader(scene: Scene) -> None:
    scene.meanwhile(scene.ben.lead)
    with pytest.raises(OutcomeUnknown, match="perhaps by this request"):
        scene.orders.failover(to="ben")
    view = observe(scene.lab.truth, SCOPE)
    assert (view.leader, view.epoch, view.switchover) == ("ben", 2, None)


def test_a_withdrawal_takes_nothing_of_a_later_request(scene: Scene) -> None:
    requested = scene.orders.switchover(to="ben")
    scene.meanwhile(lambda: scene.other.switchover(to="ben"))
    assert scene.orders.withdraw(requested)
    assert scene.has(SWITCHOVER), "another operator's"


def test_a_withdrawal_leaves_another_operator_s_request(scene: Scene) -> None:
    requested = scene.orders.switchover(to="ben")
    scene.other.switchover(to="ben")
    assert not scene.orders.withdraw(requested)
    assert scene.has(SWITCHOVER)


# --- neither obeyed nor removed ---------------------------------------------------------------------------------


def test_a_request_whose_reply_was_lost_was_made(scene: Scene) -> None:
    scene.line.lose_reply(times=None)
    assert scene.orders.pause()
    assert scene.has(PAUSED)
    assert scene.orders.resume()
    assert not scene.has(PAUSED)
    scene.orders.restart("ben")
    assert scene.has(RESTART)
    assert scene.sent() == 3


def test_a_leadership_s_request_is_settled(scene: Scene) -> None:
    """It may be sent again: what it presents moves when it is obeyed."""
    for fault in (reply_lost, request_lost):
        scene.line.script(fault, when=commits, times=2)
        requested = scene.orders.switchover(to="ben")
        assert observe(scene.lab.truth, SCOPE).switchover is not None
        assert scene.orders.withdraw(requested)
        assert not scene.has(SWITCHOVER)
    scene.line.lose_reply()
    scene.orders.failover(to="ben")
    assert not scene.has(LEADER)


@pytest.mark.parametrize("word", ["pause", "resume", "restart", "withdraw"])
def test_a_request_that_is_not_seen_is_not_known(scene: Scene, word: str) -> None:
    requested = scene.orders.switchover(to="ben")
    if word == "resume":
        scene.other.pause()
    before = scene.sent()
    scene.line.lose_request(times=None)
    calls: dict[str, Callable[[], object]] = {
        "pause": scene.orders.pause,
        "resume": scene.orders.resume,
        "restart": lambda: scene.orders.restart("ben"),
        "withdraw": lambda: scene.orders.withdraw(requested),
    }
    with pytest.raises(OutcomeUnknown, match=r"; look with tenure list before asking again$") as unknown:
        calls[word]()
    assert unknown.value.exit_code == 4
    assert scene.sent() == before + 1


def test_a_request_that_arrives_late_is_waited_for(scene: Scene) -> None:
    _, late = scene.line.be_late()
    looks: list[Call] = []

    def deliver(call: Call, proceed: Proceed) -> object:
        looks.append(call)
        if len(looks) == 3:
            late.deliver()
        return proceed()

    scene.line.script(deliver, when=lambda call: call.operation == "read", times=None)
    assert scene.orders.pause()
    assert scene.has(PAUSED)


def test_what_was_not_sent_is_tried_again_unless_it_is_not_allowed(scene: Scene) -> None:
    scene.line.be_unavailable(when=commits, times=3)
    assert scene.orders.pause()
    before = scene.sent()

    def denied(call: Call, proceed: Proceed) -> object:
        raise AccessDenied("no right to do that")

    scene.line.script(denied, when=commits, times=None)
    with pytest.raises(AccessDenied):
        scene.orders.resume()
    assert scene.sent() == before + 1


def test_a_store_that_is_away_is_not_waited_for_without_end(scene: Scene) -> None:
    scene.line.be_unavailable(when=commits, times=None)
    with pytest.raises(StoreUnavailable):
        scene.orders.pause()
    assert not scene.has(PAUSED)


def test_a_leadership_that_changed_before_anything_was_sent_is_an_answer(scene: Scene) -> None:
    def fault(call: Call, proceed: Proceed) -> object:
        scene.anna.election.resign(scene.term)
        return proceed()

    scene.line.script(fault, when=commits)
    with pytest.raises(UsageError, match="changed meanwhile; look with tenure list, and try again"):
        scene.orders.switchover(to="ben")


def test_a_standby_that_was_elected_meanwhile_is_not_asked_to_begin_anew(scene: Scene) -> None:
    scene.line.script(lambda call, proceed: (scene.other.failover(to="ben"), proceed())[1], when=commits)
    with pytest.raises(UsageError, match="records of scope 'pipeline' changed meanwhile; try again"):
        scene.orders.reinit("ben")
    assert not scene.has(RESTART)


def test_one_request_beside_another_is_refused(scene: Scene) -> None:
    put = Put(RESTART, b"another operator's", replaces=None)
    scene.line.script(
        lambda call, proceed: (scene.lab.truth.commit(SCOPE, guards=(), writes=[put]), proceed())[1], when=commits
    )
    scene.orders.restart("ben")
    record = scene.lab.truth.read(SCOPE, RESTART)
    assert record is not None
    assert record.value == put.value
