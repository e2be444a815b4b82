"""The output of the command line: tables, JSON or YAML on stdout, one line an event on stderr.

Promise: at a terminal, a table is as wide as the terminal and no wider, and no cell is cut off. Into a pipe or a
file, a table is a line of names and a line for each row, separated by tabs; stdout has nothing else then. JSON and YAML
are the same at a terminal and elsewhere, and each is the same document.

A line on stderr is written whole, also where threads write at once; a closed terminal or pipe does not stop a member.
At a terminal, the next line replaces a waiting line; elsewhere nothing is ever replaced. With `--log-format json` each
line is one JSON object with `time`, `level` and `event`. Not promised: a line of its own for the output of a pipeline's
code, which may come while a waiting line stands.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from importlib.util import find_spec
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tenure.clock import Clock, timestamp
from tenure.errors import UsageError
from tenure.events import Away, BatchCommitted, Event, event_to_data
from tenure.progress import LongWork
from tenure.wording import how_to_install, masked

_ANY_WIDTH: Final = 10_000

_LONG_WORK_S: Final = 10.0

_BLANK: Final = (None, "", ())

_BREAKS: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""A tab, and the characters that end a line for some program."""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+\+00:00\Z")


class Output(StrEnum):
    """The format of a command's output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        """Whether it is a document for programs."""
        return self is not Output.TABLE


def check_output(output: Output) -> Output:
    """The format, which can be printed. Raises UsageError: its package is not installed."""
    if output is Output.YAML and find_spec("yaml") is None:
        raise UsageError("-o yaml needs the Python package 'yaml', which is not installed", fix=how_to_install("yaml"))
    return output


def show(
    rows: Sequence[dict[str, Any]], *, output: Output, title: str, columns: Sequence[str], spare: Sequence[str] = ()
) -> None:
    """Print rows as a table with these columns, or all their fields as a document. `spare`: see `print_table`.
    Where stdout is no terminal, the table is text with tabs, and its title goes to stderr."""
    if output.is_data:
        print_document(list(rows), output=output)
    elif sys.stdout.isatty():
        print_table(rows, title=title, columns=columns, spare=spare, console=Console())
    else:
        note(title)
        sys.stdout.writelines(f"{line}\n" for line in tabbed(rows, columns=columns))


def print_table(
    rows: Sequence[Mapping[str, Any]], *, title: str, columns: Sequence[str], spare: Sequence[str], console: Console
) -> None:
    """Print the columns that are not blank. Where a row would take more than a line, `spare` columns are left out, the
    first of them first, and a line below the table names them. The first column has names, which people copy: it is
    folded last."""
    filled = [column for column in columns if not rows or any(row[column] not in _BLANK for row in rows)]
    shown, more = [*filled], [column for column in spare if column in filled]
    at_any_width = console.options.update(width=_ANY_WIDTH)
    while more and Measurement.get(console, at_any_width, _table(rows, shown)).maximum > console.width:
        shown.remove(more.pop(0))
    if title:
        console.print(Text(title, style="italic"), soft_wrap=True)
    console.print(_table(rows, shown))
    if hidden := [_heading(column) for column in filled if column not in shown]:
        named = f"left out at {console.width} columns: {', '.join(hidden)}"
        console.print(Text(named, style="dim"), soft_wrap=True)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        table.add_column(Text(_heading(column)), overflow="fold", no_wrap=len(columns) > 1 and column == columns[0])
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    return table


def _heading(column: str) -> str:
    return column.replace("_", " ")


def _cell(value: object) -> str:
    """The text of a cell. Times are without their fractions: 2026-03-01 12:00:00Z."""
    return "" if value in _BLANK else _TIME.sub(r"\1 \2Z", str(value))


def tabbed(rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str]) -> Iterator[str]:
    """The rows for other programs: the names of all columns, then each row, separated by tabs. A tab or the end of a
    line inside a value is a blank."""
    yield "\t".join(columns)
    for row in rows:
        yield "\t".join(_BREAKS.sub(" ", "" if row[column] is None else str(row[column])) for column in columns)


def note(line: str) -> None:
    """Print a line about a table: with the table at a terminal, else on stderr, so stdout has rows alone."""
    if sys.stdout.isatty():
        sys.stdout.write(f"{line}\n")
    else:
        say(line)


def show_record(record: Mapping[str, Any], *, output: Output, title: str) -> None:
    """Print the fields of a record as a table, or the record as a document."""
    if output.is_data:
        print_document(record, output=output)
        return
    rows = [{"field": field, "value": value} for field, value in record.items()]
    show(rows, output=output, title=title, columns=("field", "value"))


def show_done(line: str, record: Mapping[str, Any], *, output: Output) -> None:
    """Print what a verb did: as a line for people, or as a document."""
    if output.is_data:
        print_document(record, output=output)
    else:
        sys.stdout.write(f"{line}\n")


def print_document(document: object, *, output: Output) -> None:
    """Print one document, as JSON or YAML."""
    sys.stdout.write(document_text(document, output=output))


def document_text(document: object, *, output: Output) -> str:
    """A document of JSON's types, and of enums and tuples, as text."""
    if output is Output.YAML:
        import yaml  # only this format needs it

        plain = json.loads(json.dumps(document))  # YAML knows neither tuples nor our enums
        return str(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=_ANY_WIDTH))
    return json.dumps(document, indent=2) + "\n"


def complain(line: str) -> None:
    """Print an error in one line. The lines of a longer message, as of a user's exception, are joined."""
    joined = " ".join(line.split())
    say(f"tenure: error: {joined}", as_json=("error", "error", {"message": joined}))


def warn(line: str) -> None:
    """Print a warning in one line."""
    joined = " ".join(line.split())
    say(f"tenure: warning: {joined}", as_json=("warning", "warning", {"message": joined}))


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


ERASE: Final = "\r\x1b[K"
"""Moves to the begin of the line and clears it, at every terminal but a dumb one."""

_DOTS: Final = "..."


def replaces() -> bool:
    """Whether stderr is a terminal at which a line can be replaced."""
    return not writes_json() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class _Lines:
    """The lines of this process, of all threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the writes, and _waiting
        self._waiting = False
        """Whether a waiting line stands at the cursor."""
        self.clock: Clock | None = None
        """Of the lines in JSON; None: lines are text."""

    def write(self, text: str, *, waiting: bool) -> None:
        with self._lock, suppress(OSError):
            before, self._waiting = self._waiting, waiting
            if before or text:
                sys.stderr.write(f"{ERASE if before else ''}{text}")
                sys.stderr.flush()


_LINES: Final = _Lines()


Json = tuple[str, str, Mapping[str, Any]]
"""The level of a line, its event, and its other fields."""


def write_json(clock: Clock) -> None:
    """From now on, write each line as a JSON object."""
    _LINES.clock = clock


def writes_json() -> bool:
    """Whether lines are JSON objects."""
    return _LINES.clock is not None


def json_line(as_json: Json, *, clock: Clock) -> str:
    """A line as a JSON object, without passwords."""
    level, event, fields = as_json
    shown = {name: masked(value) if isinstance(value, str) else value for name, value in fields.items()}
    return json.dumps({"time": timestamp(clock), "level": level, "event": event, **shown})


def say(line: str, *, as_json: Json | None = None) -> None:
    """Write a line, without passwords. `as_json` None: as JSON it is a note."""
    clock = _LINES.clock
    shown = masked(line) if clock is None else json_line(as_json or ("info", "note", {"message": line}), clock=clock)
    _LINES.write(f"{shown}\n", waiting=False)


def say_waiting(line: str) -> None:
    """Show a line until the next line comes; only where `replaces`. It is cut to the width of the terminal, because a
    line that is folded cannot be replaced."""
    if replaces():
        line = masked(line)
        most = _columns() - 1
        _LINES.write(line if len(line) <= most else line[: most - len(_DOTS)] + _DOTS, waiting=True)


def wait_no_more() -> None:
    """Remove the waiting line, if there is one."""
    _LINES.write("", waiting=False)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except OSError:
        return 80
