"""The election with real threads, and every way in which it could lose its leader or count an epoch twice."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tenure.clock import SystemClock
from tenure.coordination.election import Election, observe
from tenure.coordination.election_rules import decode_office
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.records import Key, Put, Record
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import EPOCH, LEADER, Term, commit_under
from tenure.coordination.terms import TERMS_KEPT, End, terms_in
from tenure.errors import CorruptRecord, GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable, TermLost
from tests.faults.lab import SCOPE, Lab
from tests.kit.faulty import FaultyStore, operation
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

CONTENDERS = 6
TERMS = 40
LONG = timedelta(seconds=60)


def test_one_leader_among_many_and_epochs_go_up_by_one() -> None:
    """Real threads contend; each leader writes its epoch under its term, then resigns or loses its session."""
    server = MemoryServer(SystemClock())
    done = threading.Event()
    lock = threading.Lock()
    inside: list[str] = []
    overlaps: list[list[str]] = []
    errors: list[BaseException] = []

    def contend(name: str) -> None:
        store = MemoryStore(server)
        clock = SystemClock()
        try:
            while not done.is_set():
                with SessionKeeper(store, ttl=LONG, clock=clock) as keeper:
                    election = Election(store, SCOPE, member=name, clock=clock)
                    term = election.campaign(keeper, stop=done)
                    if term is None:
                        return
                    with lock:
                        inside.append(name)
                        overlaps.extend([list(inside)] if len(inside) > 1 else [])
                    lead(store, election, term, clock)
                    with lock:
                        inside.remove(name)
                    if term.epoch % 3:
                        election.resign(term)
                    if term.epoch >= TERMS:
                        done.set()
        except BaseException as error:
            errors.append(error)
            done.set()
            raise

    def lead(store: MemoryStore, election: Election, term: Term, clock: SystemClock) -> None:
        put = Put(Key(f"mark/{term.epoch:04d}"), encode({"epoch": term.epoch}), replaces=None)
        commit_under(store, term, writes=[put], clock=clock)

    threads = [threading.Thread(target=contend, args=(f"m{n}",)) for n in range(CONTENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert overlaps == []
    truth = MemoryStore(server)
    marks = [int(record.key.name) for record in truth.list(SCOPE, "mark").records]
    assert marks == list(range(1, len(marks) + 1))
    assert len(marks) >= TERMS
    epoch = truth.read(SCOPE, EPOCH)
    assert epoch is not None
    office = decode_office(epoch)
    past = [term.epoch for term in office.past]
    assert past == list(range(office.epoch - len(past), office.epoch))
    told = terms_in(truth.list(SCOPE, "").records)
    assert [term.epoch for term in told] == list(range(max(1, office.epoch - TERMS_KEPT + 1), office.epoch + 1))
    assert all(bool(term.until) == bool(term.epoch % 3) for term in told[:-1]), "nobody told the end of every third"


def test_the_history_is_bounded(lab: Lab) -> None:
    member = lab.member("a")
    for _ in range(TERMS_KEPT + 10):
        member.election.resign(member.lead())
    view = observe(lab.truth, SCOPE)
    assert view.office is not None
    assert view.office.epoch == TERMS_KEPT + 10
    assert len(view.office.past) == TERMS_KEPT
    assert [term.epoch for term in view.terms] == list(range(11, TERMS_KEPT + 11))
    assert (view.leader, view.epoch) == (None, 0)


def test_resign_then_campaign_again(lab: Lab) -> None:
    member = lab.member("a")
    first = member.lead()
    member.election.resign(first, End("switchover"))
    assert first.lost
    second = member.lead()
    assert (second.epoch, second.lost) == (2, False)
    with pytest.raises(TermLost):
        member.election.resign(first)
    view = observe(lab.truth, SCOPE)
    assert (view.leader, view.epoch) == ("a", 2)
    assert view.office is not None
    assert [(t.epoch, t.holder, t.why) for t in view.terms] == [(1, "a", "switchover"), (2, "a", "")]


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", "be_late", "be_unavailable"])
def test_a_resignation_of_unknown_outcome_never_leaves_a_scope_that_nobody_can_lead(fault: str, lab: Lab) -> None:
    member = lab.member("a")
    term = member.lead()
    getattr(member.store, fault)(when=operation("commit"), times=1)
    try:
        member.election.resign(term)
    except TermLost:
        assert term.lost
    term.liveness.end("resigned")
    again = member.lead()
    assert again.epoch == 2
    assert member.handles.add(again, "x", b"works").epoch == 2


@pytest.mark.parametrize("applied", [True, False])
def test_a_grant_of_unknown_outcome_is_vacated_by_its_own_session(applied: bool, lab: Lab) -> None:
    """The member gave up on its campaign before it learnt the outcome; its session goes on."""
    member = lab.member("a")

    def fault(call: object, proceed: object) -> object:
        if applied:
            assert callable(proceed)
            proceed()
        raise KeyboardInterrupt

    member.store.script(fault)  # the first call is the listing
    with pytest.raises(KeyboardInterrupt):
        member.lead()
    member.store.script(fault, when=operation("commit"))
    with pytest.raises(KeyboardInterrupt):
        member.lead()
    assert (lab.truth.read(SCOPE, LEADER) is not None) == applied
    term = member.lead()
    assert term.epoch == (2 if applied else 1)


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request", "be_late", "be_unavailable"])
def test_a_vacating_step_of_unknown_outcome_is_taken_again(fault: str, lab: Lab) -> None:
    member = lab.member("a")
    member.lead()  # and forgets it
    script = getattr(member.store, fault)(when=operation("commit"), times=2)
    term = member.lead()
    assert (script[0] if isinstance(script, tuple) else script).fired == 2
    assert term.epoch == 2


def test_a_leader_record_of_another_session_is_never_vacated(lab: Lab) -> None:
    lab.member("a").lead()
    before = lab.truth.list(SCOPE).records
    namesake = lab.member("a")
    namesake.keeper.liveness.end("test")
    with pytest.raises(SessionEnded):
        namesake.lead()
    assert lab.truth.list(SCOPE).records == before


def test_a_campaign_under_an_ended_session_says_so(lab: Lab) -> None:
    member = lab.member("a")
    member.dies()
    with pytest.raises(SessionEnded):
        member.lead()
    assert lab.truth.read(SCOPE, EPOCH) is None


def test_a_store_that_is_away_ends_the_campaign_loudly(lab: Lab) -> None:
    member = lab.member("a")
    member.store.be_unavailable(times=None)
    with pytest.raises(StoreUnavailable):
        member.lead()


class Waiting:
    """A leader, and a standby that campaigns in a thread on the machine's clock."""

    def __init__(self) -> None:
        clock = SystemClock()
        self.server = MemoryServer(clock)
        self.store = FaultyStore(MemoryStore(self.server))
        self.leader = SessionKeeper(MemoryStore(self.server), ttl=LONG, clock=clock)
        self.standby = SessionKeeper(self.store, ttl=LONG, clock=clock)
        self.stop = threading.Event()
        self.answers: list[Term | None] = []
        self.leading = Election(MemoryStore(self.server), SCOPE, member="leader", clock=clock)
        self.thread = threading.Thread(target=self._campaign, args=(clock,))

    def _campaign(self, clock: SystemClock) -> None:
        election = Election(self.store, SCOPE, member="standby", clock=clock)
        self.answers.append(election.campaign(self.standby, stop=self.stop))


def test_stop_wakes_the_campaign() -> None:
    scene = Waiting()
    with scene.leader, scene.standby:
        assert scene.leading.campaign(scene.leader, stop=scene.stop) is not None
        scene.thread.start()
        scene.stop.set()
        scene.thread.join(NEVER_S)
        assert scene.answers == [None]


@pytest.mark.parametrize("how", ["resigns", "dies"])
def test_a_waiting_contender_is_elected_when_the_leader_goes(how: str) -> None:
    scene = Waiting()
    with scene.leader, scene.standby:
        term = scene.leading.campaign(scene.leader, stop=scene.stop)
        assert term is not None
        _, gate = scene.store.pause(when=operation("wait"))
        scene.thread.start()
        gate.wait_arrived()
        if how == "resigns":
            scene.leading.resign(term)
        else:
            scene.server.end(scene.leader.session_id)
        gate.release()
        scene.thread.join(NEVER_S)
        assert [term.epoch for term in scene.answers if term is not None] == [2]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"v":2,"epoch":1}',
        b'{"v":1,"epoch":"7","holder":"a"}',
        b'{"v":1,"epoch":true,"holder":"a","since":"","past":[]}',
    ],
)
def test_an_epoch_record_that_does_not_decode_is_loud(value: bytes, lab: Lab) -> None:
    lab.truth.commit(SCOPE, guards=(), writes=[Put(EPOCH, value, replaces=None)])
    with pytest.raises(CorruptRecord, match="'epoch'"):
        lab.member("a").lead()
    with pytest.raises(CorruptRecord, match="'epoch'"):
        observe(lab.truth, SCOPE)
    assert lab.truth.read(SCOPE, LEADER) is None


@pytest.mark.parametrize("past", [[1], [[1, "a"]], [[1, "a", "b", "c", "d", "e"]], ["abcde"], [{"epoch": 1}]])
def test_a_history_that_does_not_decode_is_loud(past: list[object], lab: Lab) -> None:
    value = encode({"epoch": 3, "holder": "a", "since": "now", "uid": new_uid(), "past": past})
    lab.truth.commit(SCOPE, guards=(), writes=[Put(EPOCH, value, replaces=None)])
    with pytest.raises(CorruptRecord, match="'epoch'"):
        lab.member("a").lead()


def test_a_leader_record_without_epoch_is_loud(lab: Lab) -> None:
    lab.member("a").lead()
    epoch = lab.truth.read(SCOPE, EPOCH)
    assert epoch is not None
    remove(lab, epoch)
    with pytest.raises(CorruptRecord, match="stands without record 'epoch'"):
        lab.member("b").lead()
    with pytest.raises(CorruptRecord, match="stands without record 'epoch'"):
        observe(lab.truth, SCOPE)


def test_a_resignation_that_cannot_be_sent_leaves_the_term(lab: Lab) -> None:
    member = lab.member("a")
    term = member.lead()
    member.keeper.liveness.extend(1e6)
    script = member.store.be_unavailable(times=None)
    with pytest.raises(StoreUnavailable):
        member.election.resign(term)
    assert not term.lost
    script.times = 0
    member.election.resign(term)
    assert lab.truth.read(SCOPE, LEADER) is None


def remove(lab: Lab, record: Record) -> None:
    from tenure.coordination.records import Delete

    lab.truth.commit(SCOPE, guards=(), writes=[Delete(record.key, record.version)])


def test_a_member_joins_once_and_leaves_with_its_session(lab: Lab) -> None:
    member = lab.member("a")
    member.store.lose_reply()
    member.election.join(member.keeper, host="h", pid=1)
    namesake = lab.member("a")
    with pytest.raises(GuardFailed):
        namesake.election.join(namesake.keeper, host="h", pid=2)
    assert [(m.member, m.pid) for m in observe(lab.truth, SCOPE).members] == [("a", 1)]
    member.dies()
    namesake.election.join(namesake.keeper, host="h", pid=2)
    assert [(m.member, m.pid) for m in observe(lab.truth, SCOPE).members] == [("a", 2)]


def test_a_member_that_cannot_join_learns_it_at_the_deadline(lab: Lab) -> None:
    member = lab.member("a")
    member.store.lose_request(times=None)
    with pytest.raises(OutcomeUnknown):
        member.election.join(member.keeper, host="h", pid=1)
    assert member.keeper.liveness.over
