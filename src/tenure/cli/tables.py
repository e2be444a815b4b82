"""Tables for people at a terminal, as wide as the terminal and no wider; and the same rows as text with tabs.

Promise: where a table does not fit, whole columns are left out, in the order that the caller gives, and a line below
the table names them; blank columns go first. Words are not broken. Where even the remaining columns do not fit, the
widest of them is folded, and nothing is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

_GAP: Final = 2
"""Columns of the terminal between two columns of the table: padding, and the place of a line that is not drawn."""

_BREAKS: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]+")
"""A tab, and the characters that end a line for some program."""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+\+00:00\Z")


def print_table(
    rows: Sequence[Mapping[str, Any]], *, title: str, columns: Sequence[str], spare: Sequence[str], console: Console
) -> None:
    """Print the rows. `spare`: columns that a narrow terminal does without, the least important first."""
    cells = {column: [_cell(row[column]) for row in rows] for column in columns}
    widths = {column: max(map(cell_len, (heading(column), *texts))) for column, texts in cells.items()}
    blank = {column for column, texts in cells.items() if not any(texts)}
    shown = fitting(widths, blank=blank, spare=spare, most=console.width)
    if title:
        console.print(Text(title, style="italic"), soft_wrap=True)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    widest = max(shown, key=lambda column: widths[column])
    for column in shown:
        table.add_column(Text(heading(column)), overflow="fold", no_wrap=column != widest)
    for number in range(len(rows)):
        table.add_row(*(Text(cells[column][number]) for column in shown))
    console.print(table)
    hidden = [heading(column) for column in columns if column not in shown and column not in blank]
    if hidden:
        note = f"left out, as the terminal has {console.width} columns: {', '.join(hidden)}"
        console.print(Text(note, style="dim"), soft_wrap=True)


def tabbed(rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str]) -> Iterator[str]:
    """The rows for other programs: the names of all columns, then each row, separated by tabs. A tab or the end of a
    line inside a value is a blank."""
    yield "\t".join(columns)
    for row in rows:
        yield "\t".join(_BREAKS.sub(" ", "" if row[column] is None else str(row[column])) for column in columns)


def fitting(widths: Mapping[str, int], *, blank: Collection[str], spare: Sequence[str], most: int) -> list[str]:
    """The columns, in their order, without the spare columns for which a terminal of `most` columns has no room."""
    shown = list(widths)
    for column in (*(one for one in spare if one in blank), *(one for one in spare if one not in blank)):
        if sum(widths[one] for one in shown) + _GAP * (len(shown) - 1) <= most:
            break
        shown.remove(column)
    return shown


def heading(column: str) -> str:
    """The name of a column, for people."""
    return column.replace("_", " ")


def _cell(value: object) -> str:
    """The text of a cell. Times are without their fractions: 2026-03-01 12:00:00Z."""
    return "" if value in (None, ()) else _TIME.sub(r"\1 \2Z", str(value))
