"""The driver as a member uses it: the contract between a member and the process that runs its queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from tenure.coordination.candidates import Lag
from tenure.coordination.election import Flag
from tenure.coordination.records import Record
from tenure.coordination.term import Term
from tenure.link.lifecycle import Ended

BY_ITSELF: Final = "the driver ended by itself: "
"""Begins the line about a driver's end; its exit code or its signal follows."""

ReadRecords = Callable[[], Sequence[Record]]
"""Reads the records of the scope. Raises StoreUnavailable."""


class Driver(Protocol):
    """Runs the queries of a pipeline. Used by one thread."""

    def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
        """Make the driver able to lead in a new session. Preparations of earlier sessions are not used any more.
        `records`: reads the records of the scope, which the driver asks for. Return whether a process was started;
        False also when `stop` was set meanwhile.

        Raises DriverDied; a TenureError for an error in the pipeline; the errors of `records`.
        """

    def hear(self, records: Sequence[Record]) -> None:
        """The records of the scope now, for the preparations of a standby. Does not wait for the driver."""

    def elected(self) -> None:
        """The member was elected: `lead` or `clean` follows soon."""

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
    def trouble(self) -> str:
        """Why the driver's rehearsals fail, a second ago; empty: they succeed, or there are none."""

    @property
    def file(self) -> str:
        """The fingerprint of the pipeline file that the driver has loaded; empty: none yet."""

    def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        """Run the queries until the term is lost, `stop` is set, or they end. Once `finish` is set, each query ends its
        batch, however long that takes, and begins no other. All queries are stopped on return.

        Raises the error of a query that failed; TermLost: the store refused the term; DriverDied: the driver ended by
        itself, hung, or did not stop in time and was killed.
        """

    def clean(self, term: Term, *, stop: Flag) -> Ended:
        """Run no query; remove the remains of a pipeline that has ended. The driver must be prepared again after that.

        Return CLEANED: all remains are gone; LEFT: the policy has given up; STOPPED; LOST. Raises as `lead` does.
        """

    def close(self) -> None:
        """Release everything."""
