"""Pure: how a leadership ended -> what the member does next. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tenure.coordination.election_rules import RESTART


class Ended(Enum):
    """How a driver's leadership ended."""

    LOST = "lost"
    """The term is over; the queries are stopped."""
    IDLE = "idle"
    """Everything that the sources had is in the sinks, and the run was to end then."""
    STOPPED = "stopped"
    """The member was asked to stop; the queries are stopped."""
    FAILED = "failed"
    """A query ended with an error of its own."""
    SWITCHOVER = "switchover"
    """An operator asked for it: the batch was finished, the queries are stopped."""
    RESTART = "restart"
    """The same, and the driver is to be replaced."""
    OVERTAKEN = "overtaken"
    """A leader of an earlier term has finished a batch that was being run again: the next takeover goes on after it."""
    DIED = "died"
    """The driver ended by itself, or hung and was killed."""
    CLEANED = "cleaned"
    """The pipeline had ended, and nothing is left of it."""
    LEFT = "left"
    """The pipeline had ended; something that it left cannot be removed, and the policy has given up."""
    DONE = "done"
    """The pipeline had ended and was cleaned up before: there is nothing to do."""


@dataclass(frozen=True, slots=True)
class Next:
    """`resign`: give the term up with this word, None: there is nothing to give up. `again`: stand by again."""

    resign: str | None
    again: bool


AFTER: Mapping[Ended, Next] = {
    Ended.LOST: Next(resign=None, again=True),
    Ended.IDLE: Next(resign="finished", again=False),
    Ended.STOPPED: Next(resign="stopped", again=False),
    Ended.FAILED: Next(resign="failed", again=False),
    Ended.SWITCHOVER: Next(resign="switchover", again=True),
    Ended.RESTART: Next(resign=RESTART, again=True),
    Ended.OVERTAKEN: Next(resign="overtaken", again=True),
    Ended.DIED: Next(resign="driver died", again=True),
    Ended.CLEANED: Next(resign="cleaned up", again=False),
    Ended.LEFT: Next(resign="cleanup gave up", again=False),
    Ended.DONE: Next(resign="nothing to do", again=False),
}
