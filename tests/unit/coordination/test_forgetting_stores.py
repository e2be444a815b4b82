"""A store that has forgotten what a member saw in it: the member takes no office there, and writes nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from tenure.coordination.identity import birth_in
from tenure.coordination.records import Record
from tenure.coordination.term import EPOCH
from tenure.errors import OwnerMismatch
from tenure.ownership.owner import renew_identity
from tests.faults.lab import SCOPE, Lab, Member
from tests.kit.waiting import wait_until
from tests.lives import bring_back, copy_of, empty


def test_the_first_grant_gives_the_scope_its_identity_and_no_later_one_changes_it(lab: Lab) -> None:
    a, b = lab.member("a"), lab.member("b")
    a.election.resign(a.lead())
    first = birth_in(lab.truth.list(SCOPE, "").records)
    assert first is not None
    b.election.resign(b.lead())
    assert birth_in(lab.truth.list(SCOPE, "").records) == first


@pytest.mark.parametrize("has_led", [True, False], ids=["who led", "who stood by"])
def test_a_member_takes_no_office_in_a_store_that_was_emptied(lab: Lab, has_led: bool) -> None:
    """Else it would be epoch 1 again, and everything would be read again."""
    a, b = lab.member("a"), lab.member("b")
    term = a.lead()
    with pytest.raises(InterruptedError):
        b.election.campaign(b.keeper, stop=threading.Event(), on_look=interrupt)
    one = a if has_led else b
    copy = copy_of(lab.truth, SCOPE)
    empty(lab.truth, SCOPE)
    hears_of_it(lab, one)
    with pytest.raises(OwnerMismatch, match=r"was in epoch 1, and has nothing now: .*; restore the store"):
        one.lead()
    assert lab.truth.read(SCOPE, EPOCH) is None, "nothing was written"
    bring_back(lab.truth, SCOPE, copy)
    hears_of_it(lab, one)
    assert one.lead().epoch == term.epoch + 1


def test_a_member_takes_no_office_in_an_older_copy_or_in_another_store(lab: Lab) -> None:
    a, b = lab.member("a"), lab.member("b")
    a.election.resign(a.lead())
    copy = copy_of(lab.truth, SCOPE)
    b.election.resign(b.lead())
    bring_back(lab.truth, SCOPE, copy)
    hears_of_it(lab, b)
    with pytest.raises(OwnerMismatch, match="was in epoch 2, and has epoch 1 now"):
        b.lead()
    empty(lab.truth, SCOPE)
    for name in ("c", "d"):
        other = lab.member(name)
        other.election.resign(other.lead())
    hears_of_it(lab, b)
    with pytest.raises(OwnerMismatch, match=r"was that of owner \w{8}, and names owner \w{8} now"):
        b.lead()


def test_a_standby_that_outlives_what_is_forgotten_stands_by_in_the_next_life(lab: Lab) -> None:
    """It was stopped, or its driver was replaced, while the pipeline ended and an operator had that forgotten."""
    a, b, operator = lab.member("a"), lab.member("b"), lab.member("operator")
    a.election.resign(a.lead())
    with pytest.raises(InterruptedError):
        b.election.campaign(b.keeper, stop=threading.Event(), on_look=interrupt)
    before = copy_of(lab.truth, SCOPE)
    for _ in range(2):
        term = operator.lead()
        renew_identity(operator.store, term, clock=lab.clock)
        operator.election.resign(term)
    assert b.lead().epoch == 4
    bring_back(lab.truth, SCOPE, before)
    hears_of_it(lab, b)
    with pytest.raises(OwnerMismatch, match="was in epoch 4, and has epoch 1 now"):
        b.lead()


def hears_of_it(lab: Lab, member: Member) -> None:
    """A contender glances: where glances come by a watch, wait until it shows the last of several commits."""
    wait_until(lambda: member.store.glance(SCOPE).records == lab.truth.list(SCOPE).records, what="the news")


def interrupt(records: Sequence[Record]) -> None:
    """It has looked, and would wait now."""
    raise InterruptedError
