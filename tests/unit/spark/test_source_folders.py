"""Which folder of a run directory belongs to which line of a plan, when a source is read twice."""

from __future__ import annotations

import pytest

from tenure.errors import CorruptRunDirectory
from tenure.spark.seed_plan import source_folders


def folders(kept: list[str], *offsets: str) -> dict[str, str | None]:
    lines: dict[str, str | None] = {str(number): offset for number, offset in enumerate(offsets)}
    return dict(source_folders(kept, lines, where="sources"))


def test_line_i_is_folder_i() -> None:
    assert folders(["0", "1"], "a", "b") == {"0": "a", "1": "b"}


def test_a_self_join_has_one_folder_and_two_lines() -> None:
    assert folders(["0"], "a", "a") == {"0": "a"}


def test_folders_are_numbered_by_the_first_time() -> None:
    assert folders(["0", "1"], "a", "a", "b") == {"0": "a", "1": "b"}
    assert folders(["0", "1"], "a", "b", "a") == {"0": "a", "1": "b"}


def test_equal_offsets_are_equal_whoever_has_them() -> None:
    assert folders(["0", "1"], "a", "a", "a") == {"0": "a", "1": "a"}


def test_a_folder_that_is_missing_is_asked_for() -> None:
    assert folders(["0"], "a", "b") == {"0": "a", "1": "b"}, "the copy of folder 1 will say that it is missing"


def test_two_possible_readings_are_refused() -> None:
    with pytest.raises(CorruptRunDirectory, match="cannot be told"):
        folders(["0", "1", "2"], "a", "b", "a", "b")
