"""The pure part of the election: what was read -> the next step."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.coordination.candidates import PAUSED, SWITCHOVER, Candidate, State
from tenure.coordination.election_rules import (
    RESTART,
    Emptiness,
    Grant,
    Office,
    Seen,
    TakeOffice,
    Vacate,
    Wait,
    decode_office,
    encode_office,
    next_step,
    resignation,
)
from tenure.coordination.encoding import encode
from tenure.coordination.identity import Birth, put_identity
from tenure.coordination.records import Absent, Delete, Put, Record, SessionId, Version
from tenure.coordination.term import EPOCH, LEADER
from tenure.coordination.terms import TERMS_KEPT, End, TermRecord, decode_term, term_key

MINE, THEIRS = SessionId("mine"), SessionId("theirs")
OFFICE = Office(4, "b", "monday", past=(Grant(3, "a", "sunday"),))
TOLD = TermRecord(4, "b", "monday")


def epoch_record(office: Office = OFFICE) -> Record:
    return Record(EPOCH, encode_office(office, uid="u"), Version("e7"), None)


def leader_record(session: SessionId) -> Record:
    return Record(LEADER, encode({"member": "me", "epoch": 4, "uid": "u"}), Version("l9"), session)


def step(seen: Seen) -> TakeOffice | Vacate | Wait:
    return next_step(seen, member="me", session=MINE, now="today", uid="new")


def test_the_first_term_of_a_scope_is_1_and_needs_both_records_absent() -> None:
    found = step(Seen(None, None))
    assert isinstance(found, TakeOffice)
    leader, epoch, term = found.writes
    assert isinstance(leader, Put)
    assert isinstance(epoch, Put)
    assert (term.key, term.replaces) == (term_key(1), None)
    assert (found.epoch, leader.key, leader.replaces, leader.session) == (1, LEADER, None, MINE)
    assert (epoch.key, epoch.replaces, epoch.session) == (EPOCH, None, None)


def test_the_first_grant_says_which_life_this_is_in_the_very_commit() -> None:
    found = step(Seen(None, None, nameless=True))
    assert isinstance(found, TakeOffice)
    assert found.writes[2:3] == (put_identity(Birth("new", 1), replaces=None),)
    named = step(Seen(None, epoch_record()))
    assert isinstance(named, TakeOffice)
    keys = [write.key for write in named.writes]
    assert keys == [LEADER, EPOCH, term_key(5)], "it has an identity, or checkpoints that would belong to another one"


def test_the_next_term_is_one_more_and_replaces_exactly_the_epoch_that_was_read() -> None:
    found = step(Seen(None, epoch_record()))
    assert isinstance(found, TakeOffice)
    leader, epoch, _ = found.writes
    assert isinstance(leader, Put)
    assert isinstance(epoch, Put)
    assert (found.epoch, leader.replaces, epoch.replaces) == (5, None, Version("e7"))
    office = decode_office(Record(EPOCH, epoch.value, Version("e8"), None))
    assert (office.epoch, office.holder, office.until) == (5, "me", None)
    assert office.past == (*OFFICE.past, Grant(4, "b", "monday"))


def term_record(term: TermRecord = TOLD) -> Record:
    return Record(term.key, term.encode(uid="u"), Version("t3"), None)


def test_a_winner_writes_what_it_saw_of_an_end_that_nobody_told() -> None:
    saw = Emptiness("08:00", "08:01", "07:59")
    found = step(Seen(None, epoch_record(), terms=(term_record(),), emptiness=saw))
    assert isinstance(found, TakeOffice)
    (last,) = [write for write in found.writes if write.key == TOLD.key]
    assert isinstance(last, Put)
    assert last.replaces == Version("t3")
    told = decode_term(Record(last.key, last.value, Version("t4"), None))
    assert (told.led_at, told.found_empty_at, told.last_write, told.until) == ("08:00", "08:01", "07:59", "")


def test_a_resigned_term_keeps_its_own_end() -> None:
    resigned = Record(EPOCH, resignation(epoch_record(), now="noon", why="switchover", uid="u"), Version("e8"), None)
    told = term_record(TOLD.ended(End("switchover"), at="noon"))
    found = step(Seen(None, resigned, terms=(told,), emptiness=Emptiness("08:00", "08:01", "07:59")))
    assert isinstance(found, TakeOffice)
    assert TOLD.key not in [write.key for write in found.writes]


@pytest.mark.parametrize("value", [b"", b"{}", b'{"v":1,"holder":"b"}', encode({"holder": 7, "since": ""})])
def test_a_record_of_a_term_that_does_not_decode_keeps_nobody_from_the_office(value: bytes) -> None:
    damaged = Record(TOLD.key, value, Version("t3"), None)
    found = step(Seen(None, epoch_record(), terms=(damaged,)))
    assert isinstance(found, TakeOffice)
    assert TOLD.key not in [write.key for write in found.writes]


def test_a_damaged_record_in_the_place_of_the_next_term_is_replaced() -> None:
    damaged = Record(term_key(5), b"?", Version("t9"), None)
    found = step(Seen(None, epoch_record(), terms=(damaged,)))
    assert isinstance(found, TakeOffice)
    assert [write.replaces for write in found.writes if write.key == term_key(5)] == [Version("t9")]


def test_the_oldest_records_of_terms_go_with_the_grant() -> None:
    office = replace(OFFICE, epoch=80)
    old = tuple(term_record(replace(TOLD, epoch=epoch)) for epoch in (29, 31, 32, 80))
    found = step(Seen(None, epoch_record(office), terms=old))
    assert isinstance(found, TakeOffice)
    gone = [write.key for write in found.writes if isinstance(write, Delete)]
    assert gone == [term_key(29), term_key(31)], f"the terms 32 to 81 are {TERMS_KEPT}"


def test_the_grant_itself_refuses_a_paused_scope_and_removes_the_request_that_it_obeys() -> None:
    request = Record(SWITCHOVER, encode({"epoch": 4, "to": "me"}), Version("s3"), None)
    found = step(Seen(None, epoch_record(), switchover=request))
    assert isinstance(found, TakeOffice)
    assert found.guards == (Absent(PAUSED),), "it may be paused after it was read"
    assert Delete(SWITCHOVER, Version("s3")) in found.writes


def test_nobody_takes_the_office_of_a_paused_scope() -> None:
    assert step(Seen(None, epoch_record(), paused=True)) == Wait()


def test_a_leader_of_another_session_is_waited_for_even_under_the_own_name() -> None:
    assert step(Seen(leader_record(THEIRS), epoch_record())) == Wait()


def test_a_leader_record_of_the_own_session_is_vacated_exactly() -> None:
    assert step(Seen(leader_record(MINE), epoch_record())) == Vacate(writes=(Delete(LEADER, Version("l9")),))


def known(name: str, state: State = State.READY) -> Candidate:
    return Candidate(name, "here", 7, "today", state)


@pytest.mark.parametrize(
    ("others", "request_", "takes"),
    [
        ([known("ben")], None, False),
        ([known("ben", State.STARTING)], None, True),
        ([], None, True),
        ([known("ben")], 3, False),  # of a term before
        ([known("ben")], 4, True),  # an operator wants it back
    ],
)
def test_who_restarts_hands_over_however_soon_it_is_back(
    others: list[Candidate], request_: int | None, takes: bool
) -> None:
    ended = epoch_record(replace(OFFICE, holder="me", until="noon", why=RESTART))
    request = None
    if request_ is not None:
        request = Record(SWITCHOVER, encode({"epoch": request_, "to": "me"}), Version("s3"), None)
    mine = known("me", State.WARM)
    found = step(Seen(None, ended, switchover=request, members=(mine, *others)))
    assert isinstance(found, TakeOffice) == takes


# --- after a failure --------------------------------------------------------------------------------------------


def ready(*names: str) -> tuple[Candidate, ...]:
    return tuple(Candidate(name, "h", 1, "s", State.WARM) for name in names)


def ended(why: str, *, holder: str = "me") -> Record:
    return epoch_record(replace(OFFICE, holder=holder, until="now", why=why))


@pytest.mark.parametrize("why", ["failed", "sink away", "source away", "storage away"])
def test_after_a_failure_another_member_goes_first(why: str) -> None:
    assert isinstance(step(Seen(None, ended(why), members=ready("me", "b"))), Wait)
    assert isinstance(step(Seen(None, ended(why), members=ready("me"))), TakeOffice), "there is nobody else"
    assert isinstance(step(Seen(None, ended(why, holder="b"), members=ready("me", "b"))), TakeOffice)


def test_a_member_that_holds_off_waits_until_an_operator_asks() -> None:
    seen = Seen(None, ended("failed: ValueError", holder="b"), members=ready("me", "b"), holds_off=True)
    assert isinstance(step(seen), Wait)
    for epoch, expected in ((4, TakeOffice), (3, Wait)):
        value = encode({"epoch": epoch, "to": "me", "at": "now", "uid": "u"})
        asked = replace(seen, switchover=Record(SWITCHOVER, value, Version("s1"), None))
        assert isinstance(step(asked), expected)
