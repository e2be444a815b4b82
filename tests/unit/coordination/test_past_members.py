"""The rows of the members that are gone: what is noted, what stays, and what a person reads."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenure.coordination.candidates import Candidate
from tenure.coordination.past_members import (
    EXITED,
    FINISHED,
    GONE_KEPT,
    MEMBERS_PAST,
    MISSED,
    RETURNS,
    STOPPED,
    PastMember,
    gone_of,
    is_shown,
    past_in,
    put_past,
    roll_call,
    with_word,
)
from tenure.coordination.records import Record, Version

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
ANNA, BEN = Candidate("anna", "here", 7, "t1"), Candidate("ben", "there", 8, "t2")
ANNA_ROW, BEN_ROW = PastMember("anna", "here", 7, "t1"), PastMember("ben", "there", 8, "t2")
SAID = ANNA_ROW.ended(EXITED, at="t5", exit_code=8, line="no\nluck")


def call(known: tuple[PastMember, ...], *present: Candidate, now: str = "t9") -> tuple[PastMember, ...]:
    return roll_call(known, present, now=now, seen={("anna", "t1"): "t8"})


def test_a_member_has_a_row_from_the_first_look_on() -> None:
    assert call((), BEN, ANNA) == (ANNA_ROW, BEN_ROW)
    assert call((ANNA_ROW, BEN_ROW), ANNA, BEN) == (ANNA_ROW, BEN_ROW)


def test_a_member_that_vanished_was_seen_last_and_missed_first() -> None:
    anna, ben = call((ANNA_ROW, BEN_ROW))
    assert (anna.seen, anna.until, anna.how) == ("t8", "t9", MISSED)
    assert (ben.seen, ben.until, ben.last_sign) == ("", "t9", "t2"), "this leader never saw it"


def test_the_own_word_of_a_member_stays_while_it_leaves_and_afterwards() -> None:
    assert call((SAID,), ANNA) == call((SAID,)) == (SAID,)
    assert SAID.line == "no luck"


def test_the_own_word_replaces_what_a_leader_saw() -> None:
    assert with_word(call((ANNA_ROW,)), SAID) == (SAID,)


def test_a_late_word_of_an_earlier_life_is_not_told_of_the_next() -> None:
    again = Candidate("anna", "here", 9, "t6")
    (row,) = call((SAID,), again)
    assert (row.pid, row.joined, row.until) == (9, "t6", "")
    assert with_word((row,), SAID) is None


def test_a_member_that_was_missed_and_is_seen_again_lives() -> None:
    assert call(call((ANNA_ROW,)), ANNA) == (ANNA_ROW,)


def test_the_record_is_bounded_and_forgets_the_oldest() -> None:
    known = tuple(PastMember(f"m{n:02}", "here", n, "t").ended(STOPPED, at=f"t{n:02}") for n in range(GONE_KEPT + 5))
    kept = call((*known, ANNA_ROW), ANNA)
    assert [row.member for row in kept] == ["anna", *(row.member for row in known[5:])]
    bounded = with_word(known, SAID)
    assert bounded is not None
    assert len(bounded) == GONE_KEPT


def test_the_rows_come_back_from_their_record() -> None:
    rows = (SAID, *call((BEN_ROW,)))
    put = put_past(rows, uid="u", replaces=None)
    assert past_in([Record(put.key, put.value, Version("1"), None)]) == rows
    assert past_in([Record(MEMBERS_PAST, b"{", Version("1"), None)]) == past_in([]) == ()


def test_the_last_one_that_went_is_first_among_the_gone() -> None:
    carl = PastMember("carl", "here", 9, "t7")
    assert gone_of((SAID, BEN_ROW, carl), []) == (carl, SAID, BEN_ROW)


def test_a_member_between_two_sessions_is_not_gone_while_another_lives() -> None:
    carl = PastMember("carl", "here", 9, "t7")
    assert gone_of((SAID, BEN_ROW, carl), ["ben"]) == (SAID,)


def test_a_member_is_shown_for_a_day() -> None:
    row = ANNA_ROW.ended(STOPPED, at=(NOW - timedelta(hours=23)).isoformat())
    assert is_shown(row, now=NOW)
    assert not is_shown(row, now=NOW + timedelta(hours=2))


def test_each_way_has_its_words() -> None:
    today, before = "2030-01-01T11:00:00.000+00:00", "2029-12-31T23:00:00.000+00:00"
    row = PastMember("anna", "here", 7, before)
    assert row.shown(now=NOW) == "here:7, not seen since 2029-12-31 23:00:00 UTC, nobody saw it go"
    assert row.ended(EXITED, at=today, exit_code=8).shown(now=NOW) == "here:7, exit code 8 at 11:00:00 UTC"
    assert row.ended(STOPPED, at=today).shown(now=NOW) == "here:7, stopped by a signal at 11:00:00 UTC"
    assert row.ended(FINISHED, at=today).shown(now=NOW) == "here:7, finished at 11:00:00 UTC"
    back = row.ended(RETURNS, at=today)
    assert back.shown(now=NOW) == "here:7, left at 11:00:00 UTC to come back with another driver"
    missed = roll_call((row,), (), now=today, seen={row.life: today})
    assert missed[0].shown(now=NOW) == "here:7, not seen since 11:00:00, gone by 11:00:00 UTC"
