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

from tenure.clock import Clock, timestamp
from tenure.errors import UsageError
from tenure.wording import how_to_install, masked

_ANY_WIDTH: Final = 10_000

_BREAKS: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""A tab, and the characters that end a line for some program."""


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
        from rich.console import Console

        from tenure.cli.tables import print_table  # costs time, and a pipe gets no table

        print_table(rows, title=title, columns=columns, spare=spare, console=Console())
    else:
        note(title)
        sys.stdout.writelines(f"{line}\n" for line in tabbed(rows, columns=columns))


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
