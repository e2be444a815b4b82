"""The contract of a driver on both sides of the link: `MemberDriver` in the agent, `Work` in the process of Spark.

Promise: `Driver` is the part of both sides: what the member asks of its `MemberDriver`, the words of the link carry,
and `Work` does. `AFTER` has the next step of the member for each end of a leadership.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol, TypeVar

from tenure.coordination.candidates import Lag
from tenure.coordination.election import Flag
from tenure.coordination.election_rules import RESTART
from tenure.coordination.failing import FAILED
from tenure.coordination.records import Record
from tenure.coordination.term import Term
from tenure.link.words import Pulse


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


BY_ITSELF: Final = "the driver ended by itself: "
"""Begins the line about a driver's end; its exit code or its signal follows."""

ReadRecords = Callable[[], Sequence[Record]]
"""Reads the records of the scope. Raises StoreUnavailable."""

F_contra = TypeVar("F_contra", bound=Flag, contravariant=True)


class Driver(Protocol[F_contra]):
    """Runs the queries of a pipeline under a term. Used by one thread."""

    def elected(self) -> None:
        """The member was elected: `lead` or `clean` follows soon. Returns at once. May be called twice; in `Work` by
        another thread."""

    def lead(self, term: Term, *, stop: F_contra, finish: F_contra) -> Ended:
        """Run the queries until the term is lost, `stop` is set, or they end. Once `finish` is set, each query ends its
        batch, however long that takes, and begins no other. All queries are stopped on return.

        Raises the error of a query that failed; TermLost: the store refused the term; DriverDied: the driver ended by
        itself, hung, or did not stop in time and was killed; DriverStuck.
        """

    def clean(self, term: Term, *, stop: F_contra) -> Ended:
        """Run no query; remove the remains of a pipeline that has ended. The driver must be prepared again after that.

        Return CLEANED: all remains are gone; LEFT: the policy has given up; STOPPED; LOST. Raises as `lead` does.
        """

    def close(self) -> None:
        """Release everything."""


class MemberDriver(Driver[Flag], Protocol):
    """The driver as its member uses it."""

    def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
        """Make the driver able to lead in a new session. Preparations of earlier sessions are not used any more.
        `records`: reads the records of the scope, which the driver asks for. Return whether a process was started;
        False also when `stop` was set meanwhile.

        Raises DriverDied; a TenureError for an error in the pipeline; the errors of `records`.
        """

    def hear(self, records: Sequence[Record]) -> None:
        """The records of the scope now, for the preparations of a standby. Does not wait for the driver."""

    @property
    def gone(self) -> str | None:
        """Why the driver must be prepared again: how it ended, or that it no longer answers. None: it can lead."""

    @property
    def warm(self) -> bool:
        """Whether the driver's first batch as a leader would be fast: it has rehearsed, or led before."""

    @property
    def lag(self) -> Lag | None:
        """How far the driver's mirrors are behind, a second ago; None: the driver mirrors nothing."""

    @property
    def behind(self) -> Mapping[str, int]:
        """Query of the leadership -> the offsets of Kafka that it is behind, where that is known, a second ago."""

    @property
    def silent_s(self) -> float:
        """For how long the prepared driver has given no sign of life, in seconds; 0: it is not prepared."""

    @property
    def trouble(self) -> str:
        """Why the driver's rehearsals fail, a second ago; empty: they succeed, or there are none."""

    @property
    def file(self) -> str:
        """The fingerprint of the pipeline file that the driver has loaded; empty: none yet."""

    @property
    def spark(self) -> str:
        """The version of the driver's Spark; empty: it is not known yet."""


class Work(Driver[threading.Event], Protocol):
    """The driver in its own process. A second thread calls `pulse`."""

    def prepare(self) -> Mapping[str, float]:
        """Do all that a leadership needs and that needs no term. Return query -> its stall timeout in seconds, where
        the query declares one. Raises TenureError."""

    def stand_by(self) -> None:
        """Start over for a new session: nothing that was prepared for a takeover in an earlier session is used any
        more. Called before each leadership, except perhaps the first."""

    def pulse(self) -> Pulse:
        """Wait for a sign of life of the JVM, without a limit. Raises DriverDied: the JVM is gone."""

    def begun(self) -> Sequence[int | None]:
        """How many batches each running query has begun; None: a batch is being written. For a second thread."""
