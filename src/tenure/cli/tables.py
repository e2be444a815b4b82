"""Tables at a terminal.

Promise: as `output.py` says: a table is as wide as the terminal and no wider, and no cell is cut off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_ANY_WIDTH: Final = 10_000

_BLANK: Final = (None, "", ())

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d+\+00:00\Z")


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
