"""Which folder of a run directory belongs to which line of a plan, when a source is read twice."""

from __future__ import annotations

import pytest

from tenure.errors import CorruptRunDirectory
from tenure.rundirs.seed_logs import source_folders

HEAD = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{"spark.sql.shuffle.partitions":"2"}}'
NAMED = HEAD.replace('{"spark', '{"spark.sql.streaming.queryEvolution.enableSourceEvolution":"true","spark')


def folders(kept: list[str], *offsets: str) -> dict[str, str | None]:
    return dict(source_folders("\n".join(["v1", HEAD, *offsets]), kept, where="the plan"))


def of_version_2(kept: list[str], *lines: str, head: str = HEAD) -> dict[str, str | None]:
    return dict(source_folders("\n".join(["v2", head, *lines]), kept, where="the plan"))


def test_line_i_is_folder_i_where_nothing_else_is_known() -> None:
    assert folders([], "5", "6") == {"0": "5", "1": "6"}


def test_a_self_join_has_one_folder_and_two_lines() -> None:
    assert folders(["0", "0"], "5", "5") == {"0": "5"}


def test_one_folder_twice_and_two_others_with_equal_offsets() -> None:
    assert folders(["0", "1", "0", "2"], "5", "6", "5", "6") == {"0": "5", "1": "6", "2": "6"}
    assert folders(["0", "1", "2", "0"], "5", "5", "5", "5") == {"0": "5", "1": "5", "2": "5"}


def test_lines_and_folders_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CorruptRunDirectory, match="the plan has 3 lines for 2 sources"):
        folders(["0", "1"], "5", "6", "7")
    with pytest.raises(CorruptRunDirectory, match="two offsets for source 0"):
        folders(["0", "0"], "5", "6")


def test_version_2_has_one_line_for_a_source_that_is_read_twice_by_its_last_position() -> None:
    assert of_version_2(["0", "0"], "1:5") == {"0": "5"}
    assert of_version_2(["0", "1"], "1:5", "0:6") == {"1": "5", "0": "6"}
    assert of_version_2([], "1:5") == {"1": "5"}
    with pytest.raises(CorruptRunDirectory, match="the plan has source 2, and the query has 2"):
        of_version_2(["0", "0"], "2:5")


def test_sources_with_names_have_folders_of_these_names() -> None:
    assert of_version_2(["0", "1"], "clicks:5", "7:6", head=NAMED) == {"clicks": "5", "7": "6"}
    with pytest.raises(CorruptRunDirectory, match="the plan has source clicks"):
        of_version_2(["0", "1"], "clicks:5", "7:6")
