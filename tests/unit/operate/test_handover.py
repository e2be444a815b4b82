"""The line of an operator who waits for a switchover."""

from __future__ import annotations

from dataclasses import replace

from tenure.coordination.candidates import Candidate, Pause, State, Switchover
from tenure.coordination.election import View
from tenure.coordination.records import Revision
from tenure.operate.handover import handover_line

ANNA = Candidate("anna", "here", 7, "t", State.LEADING)
BEN, CARL = Candidate("ben", "here", 8, "t", State.WARM), Candidate("carl", "here", 9, "t", State.READY)
LED = View("anna", 4, None, (ANNA, CARL, BEN), None, None, Switchover(4, None), (), (), Revision(1))
EMPTY = replace(LED, leader=None, epoch=0)


def line(view: View, **batches: int) -> str:
    return handover_line(view, epoch=4, batches=batches)


def test_the_leader_ends_its_batch_and_the_best_standby_waits() -> None:
    assert line(LED, raw=417, totals=9) == "anna ends batch 417 of raw, 9 of totals; ben is warm"
    assert line(LED) == "anna ends its batch; ben is warm"


def test_the_member_that_is_named_counts() -> None:
    assert line(replace(LED, switchover=Switchover(4, "carl")), raw=417) == "anna ends batch 417 of raw; carl is ready"


def test_nobody_leads_any_more() -> None:
    assert line(EMPTY) == "nobody leads, a standby takes over; ben is warm"
    assert line(replace(EMPTY, pause=Pause())) == "nobody leads, and the scope is paused; ben is warm"


def test_no_standby_is_ready() -> None:
    starting = replace(BEN, state=State.STARTING)
    assert line(replace(LED, members=(ANNA, starting))) == "anna ends its batch; no standby is ready"
