"""Records of the election that do not decode: they are skipped, and their members are who they said that they are."""

from __future__ import annotations

import threading

import pytest

from tenure.coordination.candidates import MEMBERS, SWITCHOVER
from tenure.coordination.election import observe
from tenure.coordination.records import Put
from tests.faults.lab import SCOPE, Lab
from tests.kit.faulty import operation


@pytest.mark.parametrize("nofailover", [False, True])
def test_a_member_whose_own_record_does_not_decode_is_who_it_said_that_it_is(lab: Lab, nofailover: bool) -> None:
    """It was taken for one without a record, which counts as ready: `nofailover` was forgotten."""
    member, stop = lab.member("a"), threading.Event()
    member.election.join(member.keeper, host="h", pid=1, nofailover=nofailover)
    own = MEMBERS.child("a")
    record = lab.truth.read(SCOPE, own)
    assert record is not None
    damaged = Put(own, b"{", replaces=record.version, session=record.session)
    member.store.script(lambda call, proceed: stop.set(), when=operation("wait"))  # it would have to wait
    owner = member.store  # a server may let a record be bound by the client alone that opened the session
    owner.commit(SCOPE, guards=(), writes=[damaged])
    term = member.election.campaign(member.keeper, stop=stop)
    assert (term is None) is nofailover
    assert observe(lab.truth, SCOPE).members == ()
    assert [one.key for one in observe(lab.truth, SCOPE).unread] == [own]


def test_a_request_that_does_not_decode_goes_with_the_next_grant(lab: Lab) -> None:
    lab.truth.commit(SCOPE, guards=(), writes=[Put(SWITCHOVER, b"{", replaces=None)])
    assert [one.key for one in observe(lab.truth, SCOPE).unread] == [SWITCHOVER]
    lab.member("a").lead()
    assert lab.truth.read(SCOPE, SWITCHOVER) is None
