"""What the members of a run have told in their event logs, in one list, as it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.plan import Moment

_OF_A_MOMENT = {
    "grant": "TermWon",
    "seeded": "RunDirectorySeeded",
    "started": "QueryStarted",
    "batch": "BatchStarted",
    "planned": "CheckpointSaved",
    "in sink": "BatchCommitted",
}


@dataclass(frozen=True, slots=True)
class Told:
    """One event of one member."""

    member: str
    kind: str
    fields: dict[str, Any]


class Journal:
    """Events in the order in which they were read; of one member, that is the order in which they happened. Used by one
    thread."""

    def __init__(self) -> None:
        self._logs: dict[Path, tuple[str, int]] = {}  # log -> whose it is, and how many bytes were read
        self.events: list[Told] = []

    def follow(self, member: str, log: Path) -> None:
        """Read this log from now on."""
        self._logs[log] = (member, 0)

    def read(self) -> None:
        """Read what is new. A line that is being written is left for the next time."""
        for log, (member, offset) in self._logs.items():
            if not log.exists() or log.stat().st_size == offset:
                continue
            with log.open("rb") as file:
                file.seek(offset)
                data = file.read()
            whole = data.rpartition(b"\n")[0]
            for line in whole.split(b"\n"):
                if line:
                    fields = json.loads(line)
                    self.events.append(Told(member, fields["event"], fields))
            if whole:
                self._logs[log] = (member, offset + len(whole) + 1)

    def last(self, *kinds: str, since: int = 0, member: str | None = None) -> tuple[int, Told] | None:
        """The newest event of these kinds, with its position; None: there is none from `since` on."""
        for position in range(len(self.events) - 1, since - 1, -1):
            event = self.events[position]
            if event.kind in kinds and member in (None, event.member):
                return position, event
        return None

    def newest_epoch(self) -> int:
        """The newest epoch that was won; 0: none was."""
        return max((event.fields["epoch"] for event in self.events if event.kind == "TermWon"), default=0)

    def run_directory(self, query: str) -> str | None:
        """Where the query was started last; None: nowhere yet."""
        started = [event for event in self.events if event.kind == "QueryStarted" and event.fields["query"] == query]
        return max(started, key=lambda event: int(event.fields["epoch"])).fields["run_directory"] if started else None


def happens(moment: Moment, event: Told, *, query: str) -> bool:
    """Whether this event is what the moment waits for. `query`: the name of the one that it means."""
    return event.kind == _OF_A_MOMENT.get(moment.after) and event.fields.get("query", query) == query
