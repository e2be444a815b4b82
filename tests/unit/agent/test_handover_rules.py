"""Who follows a leader that has resigned, by the records alone; and why nobody does."""

from __future__ import annotations

import pytest

from tenure.agent.handover_rules import ALONE, NOT_READY, PAUSED_SCOPE, READY, NoSuccessor, Successor, find_successor
from tenure.coordination.candidates import MEMBERS, PAUSED, Candidate, State
from tenure.coordination.election_rules import Office, encode_office
from tenure.coordination.records import Key, Record, SessionId, Version
from tenure.coordination.term import EPOCH


def record(key: Key, value: bytes) -> Record:
    return Record(key, value, Version("1"), SessionId("s"))


def office(epoch: int, holder: str) -> Record:
    return record(EPOCH, encode_office(Office(epoch, holder, "", None, None, ()), uid="u"))


def member(name: str, state: State = State.READY, *, nofailover: bool = False) -> Record:
    return record(MEMBERS.child(name), Candidate(name, "h", 1, "", state, nofailover=nofailover).encode(uid="u"))


OWN = (office(3, "anna"), member("anna", State.LEADING))
PAUSE = record(PAUSED, b"{}")
DAMAGED = record(MEMBERS.child("dora"), b"{")


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ((), NoSuccessor(ALONE, (), final=True)),
        (OWN, NoSuccessor(ALONE, (), final=True)),
        ((*OWN, PAUSE), NoSuccessor(ALONE, (), final=True)),
        ((*OWN, member("ben", State.WARM)), NoSuccessor(READY, ("ben (warm)",), final=False)),
        ((*OWN, member("ben", State.FAILING)), NoSuccessor(READY, ("ben (failing)",), final=False)),
        ((*OWN, member("ben", State.STARTING)), NoSuccessor(NOT_READY, ("ben (starting)",), final=False)),
        ((*OWN, DAMAGED), NoSuccessor(NOT_READY, ("dora (its record does not decode)",), final=False)),
        ((*OWN, member("ben", nofailover=True)), NoSuccessor(NOT_READY, ("ben (nofailover)",), final=True)),
        (
            (*OWN, member("ben", nofailover=True), member("carl", State.STARTING)),
            NoSuccessor(NOT_READY, ("ben (nofailover)", "carl (starting)"), final=False),
        ),
        (
            (*OWN, member("ben", State.WARM), PAUSE),
            NoSuccessor(PAUSED_SCOPE, ("ben (warm)",), final=True),
        ),
        ((office(4, "ben"), member("ben", State.LEADING)), Successor("ben", 4)),
        ((office(4, "ben"),), Successor("ben", 4)),
        ((office(4, "ben"), PAUSE), Successor("ben", 4)),
    ],
)
def test_the_records_say_who_follows(records: tuple[Record, ...], found: Successor | NoSuccessor) -> None:
    assert find_successor(records, member="anna", epoch=3) == found
