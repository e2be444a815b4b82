"""A table is as wide as its terminal, and nothing of a cell is cut off."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from tenure.cli.output import tabbed
from tenure.cli.tables import print_table


def printed(
    rows: Sequence[Mapping[str, object]], *, width: int, spare: Sequence[str] = (), columns: Sequence[str] = ()
) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width)
    print_table(rows, title="all of [them]", columns=columns or list(rows[0]), spare=spare, console=console)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_spare_column_that_is_left_out_is_named_unless_it_is_blank() -> None:
    row = {"member": "anna", "other_lag": "x" * 30, "tags": None, "since": "2026-03-01T12:00:00.123+00:00"}
    assert printed([row], width=30, spare=("tags", "since", "other_lag")) == [
        "all of [them]",
        "member",
        "──────",
        "anna",
        "left out at 30 columns: other lag, since",
    ]


def test_a_wide_table_has_all_columns_but_the_blank_ones_and_no_markup() -> None:
    row = {"member": "anna", "why": "[STREAM_FAILED] no luck", "tags": None, "since": "2026-03-01T12:00:00.123+00:00"}
    told = printed([row], width=160, spare=("tags", "since"))
    assert told[1].split() == ["member", "why", "since"]
    assert told[3] == "anna    [STREAM_FAILED] no luck  2026-03-01 12:00:00Z"
    assert len(told) == 4


def test_a_table_without_rows_has_all_its_columns() -> None:
    assert printed([], width=40, columns=("member", "planned_at"))[1] == "member  planned at"


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_table_that_does_not_fit_is_folded_and_nothing_is_cut_off(width: int) -> None:
    row = {"name": "the-first-one", "folder": "z" * 70, "cause": "q" * 60, "batch": 12345}
    told = printed([row], width=width)
    assert {letter: sum(line.count(letter) for line in told[3:]) for letter in "zq5"} == {"z": 70, "q": 60, "5": 1}
    assert [line for line in told if "the-first-one" in line]
    assert max(map(len, told)) <= width


def test_a_row_with_tabs_is_one_line_of_the_same_columns() -> None:
    row = {"planned_at": "2026-03-01T12:00:00.123+00:00", "why": "no\tluck\r\nat [all]\u2028", "tags": None, "epoch": 7}
    assert list(tabbed([row], columns=list(row))) == [
        "planned_at\twhy\ttags\tepoch",
        "2026-03-01T12:00:00.123+00:00\tno luck at [all] \t\t7",
    ]
    assert list(tabbed([], columns=["a"])) == ["a"]
