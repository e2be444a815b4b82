"""Which folder of a run directory belongs to which line of a plan, when a source is read twice."""

from __future__ import annotations

import pytest

from tenure.errors import CorruptRunDirectory
from tenure.spark.seed_plan import source_folders


def folders(kept: list[str], *offsets: str) -> dict[str, str | None]:
    lines: dict[str, str | None] = {str(number): offset for number, offset in enumerate(offsets)}
    return dict(source_folders(lines, kept, where="the plan"))


def test_line_i_is_folder_i_where_nothing_else_is_known() -> None:
    assert folders([], "a", "b") == {"0": "a", "1": "b"}


def test_a_self_join_has_one_folder_and_two_lines() -> None:
    assert folders(["0", "0"], "a", "a") == {"0": "a"}


def test_one_folder_twice_and_two_others_with_equal_offsets() -> None:
    assert folders(["0", "1", "0", "2"], "a", "b", "a", "b") == {"0": "a", "1": "b", "2": "b"}
    assert folders(["0", "1", "2", "0"], "a", "a", "a", "a") == {"0": "a", "1": "a", "2": "a"}


def test_lines_and_folders_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CorruptRunDirectory, match="the plan has 3 lines for 2 sources"):
        folders(["0", "1"], "a", "b", "c")
    with pytest.raises(CorruptRunDirectory, match="two offsets for source 0"):
        folders(["0", "0"], "a", "b")
