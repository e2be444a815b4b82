"""Pure: the records of a scope -> the successor of a member that has resigned, or why there is none. No I/O, no clock.

A term with a higher epoch than the resigned term is the successor's. The reasons are for people; they decide only
whether it is of use to look again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.coordination.candidates import PAUSED, Candidate, candidates_in, members_in
from tenure.coordination.election_rules import office_in
from tenure.coordination.records import Record

ALONE: Final = "there is no other member"
PAUSED_SCOPE: Final = "the scope is paused"
NOT_READY: Final = "no member is ready"
READY: Final = "a member is ready, and has not taken office"


@dataclass(frozen=True, slots=True)
class Successor:
    """Another member has taken office."""

    member: str
    epoch: int


@dataclass(frozen=True, slots=True)
class NoSuccessor:
    """No other member has taken office yet."""

    why: str
    standbys: tuple[str, ...]
    """Every other member with its state: `bert (starting)`."""
    final: bool
    """Nobody takes over unless an operator acts or a member starts: there is no use in looking again."""


def find_successor(records: Sequence[Record], *, member: str, epoch: int) -> Successor | NoSuccessor:
    """The successor of `member`, which has resigned the term `epoch`. Raises CorruptRecord: the epoch record."""
    office = office_in(records)
    if office is not None and office.epoch > epoch:
        return Successor(office.holder, office.epoch)
    read = {one.member: one for one in candidates_in(records)}
    others = [name for name in members_in(records) if name != member]
    standbys = tuple(f"{name} ({_state(read.get(name))})" for name in others)
    if not others:
        return NoSuccessor(ALONE, standbys, final=True)
    if any(record.key == PAUSED for record in records):
        return NoSuccessor(PAUSED_SCOPE, standbys, final=True)
    if any(name in read and read[name].ready for name in others):
        return NoSuccessor(READY, standbys, final=False)
    return NoSuccessor(NOT_READY, standbys, final=all(name in read and read[name].nofailover for name in others))


def _state(candidate: Candidate | None) -> str:
    if candidate is None:
        return "its record does not decode"
    return "nofailover" if candidate.nofailover else candidate.state.value
