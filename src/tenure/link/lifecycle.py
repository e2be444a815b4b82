"""Pure: how a leadership ended -> the next step of the member. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tenure.coordination.election_rules import RESTART
from tenure.coordination.failing import FAILED


class Ended(Enum):
    """How a driver's leadership ended."""

    LOST = "lost"
    """The term is over; the queries are stopped."""
    IDLE = "idle"
    """All input is in the sinks, and the run was to end then."""
    STOPPED = "stopped"
    """The member was asked to stop; the queries are stopped."""
    FAILED = "failed"
    """A query ended with an error of its own."""
    SWITCHOVER = "switchover"
    """An operator asked for a switchover: the batches are finished, the queries are stopped."""
    RESTART = "restart"
    """An operator asked for a new driver: the batches are finished, the queries are stopped."""
    OVERTAKEN = "overtaken"
    """The leader of an earlier term finished a batch that was being run again. The next takeover starts after it."""
    DIED = "died"
    """The driver ended by itself, or hung and was killed."""
    CLEANED = "cleaned"
    """The pipeline had ended, and all its remains are removed."""
    LEFT = "left"
    """The pipeline had ended. Some of its remains cannot be removed, and the policy has given up."""
    DONE = "done"
    """The pipeline had ended and was cleaned up before."""


@dataclass(frozen=True, slots=True)
class Next:
    """`resign`: the word with which the member gives the term up; None: the term is lost. `again`: stand by again."""

    resign: str | None
    again: bool


AFTER: Mapping[Ended, Next] = {
    Ended.LOST: Next(resign=None, again=True),
    Ended.IDLE: Next(resign="finished", again=False),
    Ended.STOPPED: Next(resign="stopped", again=False),
    Ended.FAILED: Next(resign=FAILED, again=False),
    Ended.SWITCHOVER: Next(resign="switchover", again=True),
    Ended.RESTART: Next(resign=RESTART, again=True),
    Ended.OVERTAKEN: Next(resign="overtaken", again=True),
    Ended.DIED: Next(resign="driver died", again=True),
    Ended.CLEANED: Next(resign="cleaned up", again=False),
    Ended.LEFT: Next(resign="cleanup gave up", again=False),
    Ended.DONE: Next(resign="nothing to do", again=False),
}
