"""The events of a member, one line each on stderr.

Promise: as `output.py` says of its lines.
"""

from __future__ import annotations

from typing import Final

from tenure.cli.output import Json, replaces, say, say_waiting
from tenure.clock import Clock
from tenure.events import Away, BatchCommitted, Event, event_to_data
from tenure.progress import LongWork

_LONG_WORK_S: Final = 10.0


class Narrator:
    """A subscriber that prints each event as a line on stderr. `quiet`: but for batches and for waiting. A member that
    tries its store, a source, a sink or its storage again for the same reason prints that once, and at a terminal
    renews the line."""

    def __init__(self, *, clock: Clock, quiet: bool) -> None:
        self._clock = clock
        self._quiet = quiet
        self._away: tuple[type[Event], str] | None = None
        """The last line, if it was about something that does not answer."""
        self._due_s: dict[str, float] = {}
        """Long work -> when its next line is due, where no line is replaced."""

    def wait(self, what: str) -> None:
        """Show at a terminal for what the run waits."""
        if not self._quiet:
            say_waiting(f"{self._clock.now():%H:%M:%S} {what}")

    def __call__(self, event: Event) -> None:
        line = event.line()
        if not line or (self._quiet and (event.waits or isinstance(event, BatchCommitted))):
            return
        told = f"{self._clock.now():%H:%M:%S} {event.scope}: {line}"
        fields = event_to_data(event)
        as_json: Json = (event.level, fields.pop("event"), {"message": line, **fields})
        away = (type(event), event.why) if isinstance(event, Away) else None
        if away is not None and away == self._away:
            if not self._quiet:
                say_waiting(told)
        elif event.waits and replaces():
            say_waiting(told)
        elif not isinstance(event, LongWork) or self._is_due(event):
            say(told, as_json=as_json)
        self._away = away

    def _is_due(self, event: LongWork) -> bool:
        """Whether the last line about this work is old enough."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s.get(event.key, now_s):
            return False
        self._due_s[event.key] = now_s + _LONG_WORK_S
        return True
