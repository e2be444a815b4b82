"""A table is as wide as its terminal: columns are left out and named, words are not broken, nothing is cut off."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from tenure.cli.tables import fitting, print_table, tabbed

WIDTHS = {"member": 10, "role": 7, "lag": 20, "tags": 4, "host": 12}


def printed(rows: Sequence[Mapping[str, object]], *, width: int, spare: Sequence[str] = ()) -> list[str]:
    file = io.StringIO()
    console = Console(file=file, width=width)
    print_table(rows, title="all of [them]", columns=list(rows[0]), spare=spare, console=console)
    return [line.rstrip() for line in file.getvalue().splitlines()]


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (61, ["member", "role", "lag", "tags", "host"]),
        (60, ["member", "role", "lag", "host"]),
        (55, ["member", "role", "lag", "host"]),
        (54, ["member", "role", "lag"]),
        (40, ["member", "role"]),
        (5, ["member", "role"]),
    ],
)
def test_columns_are_left_out_in_their_order_and_blank_columns_first(most: int, shown: list[str]) -> None:
    assert fitting(WIDTHS, blank={"tags"}, spare=("host", "tags", "lag"), most=most) == shown


def test_a_column_that_is_left_out_is_named_unless_it_is_blank() -> None:
    row = {"member": "anna", "other_lag": "x" * 30, "tags": None, "since": "2026-03-01T12:00:00.123+00:00"}
    assert printed([row], width=30, spare=("tags", "since", "other_lag")) == [
        "all of [them]",
        "member",
        "──────",
        "anna",
        "left out, as the terminal has 30 columns: other lag, since",
    ]


def test_a_wide_table_has_all_columns_and_no_markup() -> None:
    row = {"member": "anna", "why": "[STREAM_FAILED] no luck", "tags": None, "since": "2026-03-01T12:00:00.123+00:00"}
    told = printed([row], width=160, spare=("tags", "since"))
    assert told[1].split() == ["member", "why", "tags", "since"]
    assert told[3] == "anna    [STREAM_FAILED] no luck        2026-03-01 12:00:00Z"
    assert len(told) == 4


def test_a_table_that_does_not_fit_at_all_is_folded_at_its_widest_column() -> None:
    told = printed([{"query": "the first", "offsets": "x" * 70}], width=40)
    assert sum(line.count("x") for line in told) == 70
    assert [line for line in told if "the first" in line]
    assert max(map(len, told)) <= 40


def test_a_row_with_tabs_is_one_line_of_the_same_columns() -> None:
    row = {"planned_at": "2026-03-01T12:00:00.123+00:00", "why": "no\tluck\r\nat [all]\u2028", "tags": None, "epoch": 7}
    assert list(tabbed([row], columns=list(row))) == [
        "planned_at\twhy\ttags\tepoch",
        "2026-03-01T12:00:00.123+00:00\tno luck at [all] \t\t7",
    ]
    assert list(tabbed([], columns=["a"])) == ["a"]
