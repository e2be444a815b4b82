"""The output of the command line: tables or JSON on stdout, one line an event on stderr.

Promise: into a pipe or a file, a table is a line of names and a line for each row, separated by tabs; stdout has
nothing else then. JSON is the same at a terminal and elsewhere.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

from rich.console import Console

from tenure.cli.tables import print_table, tabbed
from tenure.clock import Clock
from tenure.events import (
    BatchCommitted,
    BlobLeft,
    CleanupDelayed,
    CleanupEnded,
    DeclarationChanged,
    DriverEnded,
    Event,
    FlagsNotNeeded,
    HandedOver,
    LocalFilesSlow,
    MemberReady,
    MirrorFailed,
    NobodyTookOver,
    PipelineEnded,
    QueryStarted,
    RecordSkipped,
    RecordsSkipped,
    RehearsalFailed,
    RunDirectorySeeded,
    ServiceNotLed,
    SourceAway,
    StandbyWarm,
    StoreAway,
    SuccessorUnknown,
    Swept,
    TableShared,
    TermLost,
    TermWon,
    WriteRefused,
)


class Output(StrEnum):
    """The format of a command's output."""

    TABLE = "table"
    JSON = "json"


def show(
    rows: Sequence[dict[str, Any]], *, output: Output, title: str, columns: Sequence[str], spare: Sequence[str] = ()
) -> None:
    """Print rows as a table with these columns, or all their fields as a JSON list. `spare`: see `print_table`. Where
    stdout is no terminal, the table is text with tabs, and its title goes to stderr."""
    if output is Output.JSON:
        print_json(list(rows))
    elif sys.stdout.isatty():
        print_table(rows, title=title, columns=columns, spare=spare, console=Console())
    else:
        note(title)
        sys.stdout.writelines(f"{line}\n" for line in tabbed(rows, columns=columns))


def note(line: str) -> None:
    """Print a line about a table: with the table at a terminal, else on stderr, so stdout has rows alone."""
    if sys.stdout.isatty():
        sys.stdout.write(f"{line}\n")
    else:
        _say(line)


def show_record(record: Mapping[str, Any], *, output: Output, title: str) -> None:
    """Print the fields of a record as a table, or the record as JSON."""
    if output is Output.JSON:
        print_json(record)
        return
    rows = [{"field": field, "value": value} for field, value in record.items()]
    show(rows, output=output, title=title, columns=("field", "value"))


def print_json(document: object) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def complain(line: str) -> None:
    """Print an error in one line. The lines of a longer message, as of a user's exception, are joined."""
    _say(f"tenure: error: {' '.join(line.split())}")


def warn(line: str) -> None:
    """Print a warning in one line."""
    _say(f"tenure: warning: {' '.join(line.split())}")


def _say(line: str) -> None:
    """Write a line to stderr. A closed terminal or pipe must not stop a member."""
    with suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _batch_line(event: BatchCommitted) -> str:
    again = " (the sink had it already)" if event.repeated else ""
    return f"query {event.query} batch {event.batch} committed in {event.seconds:.2f} s{again}"


def _seeded_line(event: RunDirectorySeeded) -> str:
    seed = f"{event.files} files" + (" and a mirror" if event.mirrored else "")
    return f"query {event.query} goes on at batch {event.batch} ({seed}, {event.seconds:.2f} s)"


def _removed(event: CleanupEnded | Swept) -> str:
    left = f"; {event.left} left, the first: {event.first}" if event.left else ""
    return f"in {event.seconds:.1f} s: {event.removed} removed{left}"


def _ended_line(event: PipelineEnded) -> str:
    how_far = "nothing is left of it" if event.clean else "its remains are cleaned up now"
    return f"the pipeline has {event.ending} for good, epoch {event.epoch}: {how_far}"


def _nobody_line(event: NobodyTookOver) -> str:
    within = f" within {event.waited_s:.2g} s" if event.waited_s else ""
    standbys = f"; standing by: {event.standbys}" if event.standbys else ""
    return f"nobody took over{within}: {event.why}{standbys}"


_LINES: Mapping[type[Event], Callable[[Any], str]] = {
    DriverEnded: lambda e: f"driver of member {e.member} is replaced in {e.again_s:g} s: {e.why}",
    StoreAway: lambda e: f"member {e.member} tries the store again in {e.again_s:g} s: {e.why}",
    RecordSkipped: lambda e: f"{e.why}; it is skipped",
    MemberReady: lambda e: f"member {e.member} is ready, standing by",
    LocalFilesSlow: lambda e: f"member {e.member} starts a process for each local file of Spark: {e.why}",
    StandbyWarm: lambda e: f"member {e.member} is warm after {e.seconds:.0f} s of rehearsals",
    MirrorFailed: lambda e: f"query {e.query} is not mirrored: {e.why}",
    RehearsalFailed: lambda e: f"query {e.query} was not rehearsed: {e.why}",
    FlagsNotNeeded: lambda e: f"{e.flags}: not needed, and would allow the next change as well: leave it out",
    TableShared: lambda e: f"query {e.query} begins in a table with other writers: {e.by}",
    DeclarationChanged: lambda e: f"the pipeline differs from its last leader's: {e.what}",
    TermWon: lambda e: f"member {e.member} leads, epoch {e.epoch}",
    TermLost: lambda e: f"term {e.epoch} is over: {e.why}",
    ServiceNotLed: lambda e: f"Service {e.service} does not follow member {e.member}, epoch {e.epoch}: {e.why}",
    HandedOver: lambda e: f"handed over to {e.to}, epoch {e.epoch}, {e.seconds:.1f} s after resigning",
    NobodyTookOver: _nobody_line,
    SuccessorUnknown: lambda e: f"it is not known whether another member took over: {e.why}",
    RunDirectorySeeded: _seeded_line,
    QueryStarted: lambda e: f"query {e.query} started in {e.run_directory}",
    BatchCommitted: _batch_line,
    RecordsSkipped: lambda e: (
        f"query {e.query} batch {e.batch} lacks {e.offsets} offsets that Kafka has no more: {e.what}"
    ),
    SourceAway: lambda e: f"member {e.member} tries its sources again in {e.again_s:g} s: {e.why}",
    WriteRefused: lambda e: f"refused by the {e.by}: {e.what} (epoch {e.epoch} is over)",
    PipelineEnded: _ended_line,
    Swept: lambda e: f"swept orphans {_removed(e)}",
    CleanupDelayed: lambda e: f"cleanup: {e.left} left, tried again in {e.again_s:g} s; the first: {e.first}",
    CleanupEnded: lambda e: f"cleaned up {_removed(e)}",
    BlobLeft: lambda e: f"blob {e.address} stays for the sweep: {e.why}",
}
"""Kind of event -> its line. Other kinds have none."""


class Narrator:
    """A subscriber that prints each event as a line on stderr. `batches`: committed batches, too."""

    def __init__(self, *, clock: Clock, batches: bool) -> None:
        self._clock = clock
        self._batches = batches

    def __call__(self, event: Event) -> None:
        line = _LINES.get(type(event))
        if line is not None and (self._batches or not isinstance(event, BatchCommitted)):
            _say(f"{self._clock.now():%H:%M:%S} {event.scope}: {line(event)}")
