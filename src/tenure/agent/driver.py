"""What a member asks of that which runs the queries of its pipeline."""

from __future__ import annotations

import threading
from typing import Protocol

from tenure.coordination.candidates import Lag
from tenure.coordination.election import Flag
from tenure.coordination.term import Term
from tenure.link.lifecycle import Ended


class Driver(Protocol):
    """What runs the queries of a pipeline. Used by one thread."""

    def prepare(self, *, scope: str, stop: threading.Event) -> bool:
        """Make it able to lead in a session that has just begun; return whether anything had to be started for that
        (False also when `stop` was set meanwhile). What it made ready in an earlier session is not used any more.

        Raises TenureError: what is wrong with the pipeline; DriverDied.
        """
        ...

    @property
    def gone(self) -> str | None:
        """Why it must be prepared again before it can lead: how it ended, or that it answers no more. None: it can."""
        ...

    @property
    def warm(self) -> bool:
        """Whether its first batch as a leader would be fast."""
        ...

    @property
    def lag(self) -> Lag | None:
        """How far its mirrors are behind; None: it mirrors nothing."""
        ...

    @property
    def trouble(self) -> str:
        """Why its rehearsals do not succeed; empty: they do, or there are none."""
        ...

    @property
    def file(self) -> str:
        """The fingerprint of the pipeline file that it has loaded; empty: none yet."""
        ...

    def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        """Run the queries until the term is lost, `stop` is set, or they end; they are stopped on return. Once
        `finish` is set, each one ends its batch and begins no other.

        Raises the error of a query that failed, TermLost when the store said so, DriverDied.
        """
        ...

    def clean(self, term: Term, *, stop: Flag) -> Ended:
        """Run nothing; remove what the pipeline left. It must be prepared again after that.

        CLEANED: nothing is left; LEFT: the policy has given up; STOPPED, LOST. Raises DriverDied, and what it raises.
        """
        ...

    def close(self) -> None:
        """Release everything."""
        ...
