"""Whose turn it is to take an empty office: every member reads the same, and exactly one group may."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.coordination.candidates import (
    MEMBERS,
    RESTARTS,
    SWITCHOVER,
    Candidate,
    Lag,
    State,
    Switchover,
    candidates_in,
    decode_candidate,
    may_take_office,
    members_in,
    read_restart,
    read_switchover,
    ready_beside,
    unread_in,
)
from tenure.coordination.encoding import encode
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptRecord


def member(name: str, **fields: object) -> Candidate:
    return replace(Candidate(name, "here", 7, "today"), **fields)  # type: ignore[arg-type] # fields of the test's own


ANNA, BEN, CARL = member("anna"), member("ben"), member("carl")
members = st.lists(
    st.builds(
        Candidate,
        member=st.sampled_from(["anna", "ben", "carl", "dora"]),
        host=st.just("here"),
        pid=st.just(7),
        since=st.just("today"),
        state=st.sampled_from(State),
        priority=st.integers(-1, 1),
        nofailover=st.booleans(),
        lag=st.none() | st.builds(Lag, batches=st.integers(0, 9), bytes=st.integers(0, 1 << 50)),
        file=st.sampled_from(["", "0123456789ab"]),
        trouble=st.sampled_from(["", "query 'copy' was not rehearsed"]),
    ),
    unique_by=lambda one: one.member,
)
requests = st.none() | st.builds(Switchover, st.integers(3, 4), st.none() | st.sampled_from(["anna", "ben", "zoe"]))


def elected(*known: Candidate, request: Switchover | None = None, outgoing: tuple[int, str] | None = None) -> list[str]:
    return [one.member for one in known if may_take_office(one.member, known, request=request, outgoing=outgoing)]


@pytest.mark.parametrize(
    ("known", "turn"),
    [
        ([ANNA, BEN], ["anna", "ben"]),
        ([ANNA, member("ben", state=State.WARM)], ["ben"]),
        ([member("anna", priority=1), member("ben", state=State.WARM)], ["anna"]),
        ([member("anna", state=State.STARTING, priority=9), BEN], ["ben"]),
        ([member("anna", state=State.FAILING, priority=9), BEN], ["ben"]),
        ([member("anna", state=State.FAILING, priority=9), member("ben", state=State.FAILING)], ["anna"]),
        ([member("anna", state=State.FAILING), member("ben", state=State.STARTING)], ["anna"]),
        ([member("anna", nofailover=True, priority=9), BEN], ["ben"]),
        ([member("anna", nofailover=True)], []),
        ([member("anna", state=State.LEADING), BEN], ["ben"]),
    ],
)
def test_the_best_of_those_that_are_ready(known: list[Candidate], turn: list[str]) -> None:
    assert elected(*known) == turn


@pytest.mark.parametrize(
    ("request_", "turn"),
    [
        (Switchover(4, "ben"), ["ben"]),
        (Switchover(4, "anna"), ["anna"]),
        (Switchover(4, None), ["ben"]),
        (Switchover(3, "anna"), ["ben", "carl"]),
        (Switchover(4, "zoe"), ["carl"]),
    ],
)
def test_a_request_names_its_member_for_one_epoch(request_: Switchover, turn: list[str]) -> None:
    known = [ANNA, BEN, replace(CARL, priority=-1)] if request_.to != "zoe" else [ANNA, CARL]
    if request_.epoch == 3:
        known = [replace(ANNA, priority=-1), BEN, CARL]
    assert elected(*known, request=request_, outgoing=(4, "anna")) == turn


def test_who_leaves_is_not_elected_again_unless_nobody_else_is_there() -> None:
    assert elected(ANNA, request=Switchover(4, None), outgoing=(4, "anna")) == ["anna"]


def test_one_that_contends_without_a_record_counts_as_ready() -> None:
    assert may_take_office("anna", [], request=None, outgoing=None)
    assert not may_take_office("anna", [member("ben", priority=1)], request=None, outgoing=None)


@given(known=members, request=requests)
def test_whenever_somebody_is_ready_somebody_may(known: list[Candidate], request: Switchover | None) -> None:
    turn = elected(*known, request=request, outgoing=(4, "anna"))
    assert bool(turn) == any(one.ready for one in known)
    assert all(one.ready for one in known if one.member in turn)


@given(known=members)
def test_a_member_is_what_its_record_says(known: list[Candidate]) -> None:
    for one in known:
        record = Record(MEMBERS.child(one.member), one.encode(uid="u"), Version("1"), None)
        assert decode_candidate(record) == one


def test_a_state_that_a_newer_version_has_is_not_elected() -> None:
    value = ANNA.encode(uid="u").replace(b'"ready"', b'"dancing"')
    found = decode_candidate(Record(MEMBERS.child("anna"), value, Version("1"), None))
    assert not found.ready


def test_a_lag_that_is_not_understood_keeps_nobody_from_the_election() -> None:
    value = replace(ANNA, lag=Lag(1, 2)).encode(uid="u").replace(b'"bytes":2', b'"octets":"many"')
    assert decode_candidate(Record(MEMBERS.child("anna"), value, Version("1"), None)) == ANNA


def test_a_damaged_record_is_named() -> None:
    with pytest.raises(CorruptRecord, match="members/anna"):
        decode_candidate(Record(MEMBERS.child("anna"), b"{", Version("1"), None))


# --- records that do not decode are skipped -----------------------------------------------------------------------


def at(key: Key, value: bytes) -> Record:
    return Record(key, value, Version("1"), None)


def test_what_does_not_decode_is_skipped_and_named() -> None:
    good = at(MEMBERS.child("anna"), ANNA.encode(uid="u"))
    others = [
        at(Key("checkpoints"), b"{"),  # none of ours
        at(MEMBERS.child("ben"), b"\xff"),
        at(RESTARTS.child("anna"), encode({"uid": "u"})),
        at(RESTARTS.child("ben"), b"[]"),
        at(SWITCHOVER, b'{"v":2}'),
    ]
    assert candidates_in([good, *others]) == [ANNA]
    assert members_in([good, *others]) == ["anna", "ben"]
    unread = unread_in([good, *others])
    assert [one.key for one in unread] == ["members/ben", "restarts/ben", "switchover"]
    assert all(f"record {one.key!r} " in one.why for one in unread)
    assert read_switchover(others[-1]) is None
    assert [read_restart(record) is not None for record in others[2:4]] == [True, False]


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
_FIELDS = {"host": "h", "pid": 7, "since": "s", "state": "ready", "priority": 1, "nofailover": False, "lag": None}


@given(
    fields=st.fixed_dictionaries({}, optional={name: st.just(good) | anything for name, good in _FIELDS.items()}).map(
        encode
    )
    | st.binary(max_size=40),
    request=st.fixed_dictionaries({}, optional={"epoch": anything, "to": anything, "uid": anything}).map(encode)
    | st.binary(max_size=9),
)
def test_whatever_one_record_says_the_others_are_elected(fields: bytes, request: bytes) -> None:
    records = [at(MEMBERS.child("anna"), ANNA.encode(uid="u")), at(MEMBERS.child("ben"), fields)]
    known = candidates_in(records)
    assert known[0] == ANNA
    assert len(known) + len(unread_in(records)) == 2
    asked = read_switchover(at(SWITCHOVER, request))
    turn = elected(*known, request=asked, outgoing=(4, "carl"))
    assert turn, "anna is ready"


def test_who_could_take_over() -> None:
    known = [ANNA, BEN, member("carl", state=State.STARTING), member("dora", nofailover=True)]
    assert [one.member for one in ready_beside(known, "anna")] == ["ben"]
