"""What the command line prints: tables or JSON on stdout, one line a happening on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.table import Table

from tenure.clock import Clock
from tenure.events import (
    BatchCommitted,
    BlobLeft,
    Event,
    MemberReady,
    QueryStarted,
    RehearsalFailed,
    RunDirectorySeeded,
    StandbyWarm,
    TermLost,
    TermWon,
    WriteRefused,
)


class Output(StrEnum):
    """How a command prints what it found."""

    TABLE = "table"
    JSON = "json"


def show(rows: Sequence[dict[str, Any]], *, output: Output, title: str, columns: Sequence[str]) -> None:
    """Print rows as a table with these columns, or all their fields as a JSON list."""
    if output is Output.JSON:
        print_json(list(rows))
        return
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*("" if row[column] is None else str(row[column]) for column in columns))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def print_json(found: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def complain(line: str) -> None:
    """Print one line about an error; a message of several lines (a user's exception) becomes one."""
    _say(f"tenure: error: {' '.join(line.split())}")


def _say(line: str) -> None:
    """One line on stderr. A terminal that was closed or a pipe that nobody reads must not stop a member."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class Narrator:
    """A subscriber that tells each event in one line on stderr."""

    def __init__(self, *, clock: Clock, batches: bool) -> None:
        self._clock = clock
        self._batches = batches

    def __call__(self, event: Event) -> None:
        line = self._line(event)
        if line is not None:
            _say(f"{self._clock.now():%H:%M:%S} {event.scope}: {line}")

    def _line(self, event: Event) -> str | None:
        match event:
            case MemberReady():
                return f"member {event.member} is ready, standing by"
            case StandbyWarm():
                return f"member {event.member} is warm after {event.seconds:.0f} s of rehearsals"
            case RehearsalFailed():
                return f"query {event.query} was not rehearsed: {event.why}"
            case TermWon():
                return f"member {event.member} leads, epoch {event.epoch}"
            case TermLost():
                return f"term {event.epoch} is over: {event.why}"
            case RunDirectorySeeded():
                return (
                    f"query {event.query} goes on at batch {event.batch} ({event.files} files, {event.seconds:.2f} s)"
                )
            case QueryStarted():
                return f"query {event.query} started in {event.run_directory}"
            case BatchCommitted() if self._batches:
                again = " (the sink had it already)" if event.repeated else ""
                return f"query {event.query} batch {event.batch} committed in {event.seconds:.2f} s{again}"
            case WriteRefused():
                return f"refused by the {event.by}: {event.what} (epoch {event.epoch} is over)"
            case BlobLeft():
                return f"blob {event.address} stays for the sweep: {event.why}"
            case _:
                return None
