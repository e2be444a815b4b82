"""Which offsets a batch is planned with, by the logs alone, and which of them a broker has no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, RATE
from tenure.errors import CorruptRunDirectory
from tenure.inputs.planned_inputs import (
    Edges,
    OffsetRange,
    count_of,
    in_words,
    kafka_partitions,
    lost_of,
    planned_ranges,
)
from tenure.rundirs.run_directory import RunDirectory


def text(*offsets: str) -> str:
    return "\n".join(["v1", "{}", *offsets])


def test_the_ranges_of_a_batch_begin_where_the_batch_before_ended(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/4").write_text(text('{"a":{"0":5,"1":7}}', '{"logOffset":3}'))
    planned = text('{"a":{"0":9,"1":7,"2":3}}', '{"logOffset":4}')
    kinds = {"0": KAFKA, "1": FILES}
    found = planned_ranges(RunDirectory(str(tmp_path)), 5, offsets=planned, folders=("0", "1"), kinds=kinds)
    assert found == (OffsetRange("0", "a", 0, 5, 9), OffsetRange("0", "a", 2, 0, 3))


def test_the_ranges_of_a_first_batch_begin_at_the_recorded_start_of_the_source(tmp_path: Path) -> None:
    (tmp_path / "sources/0").mkdir(parents=True)
    (tmp_path / "sources/0/0").write_bytes(b'\0v1\n{"a":{"0":6}}')
    directory = RunDirectory(str(tmp_path))
    found = planned_ranges(directory, 0, offsets=text('{"a":{"0":9}}'), folders=("0",), kinds={"0": KAFKA})
    assert found == (OffsetRange("0", "a", 0, 6, 9),)
    (tmp_path / "sources/0/0").write_bytes(b"\0v1\n{")
    with pytest.raises(CorruptRunDirectory, match="no offsets of Kafka"):
        planned_ranges(directory, 0, offsets=text('{"a":{"0":9}}'), folders=("0",), kinds={"0": KAFKA})


@pytest.mark.parametrize("offset", ["7", '{"logOffset":3}', "{}", '{"a":5}', '{"a":{"x":5}}', '{"a":{"0":"5"}}'])
def test_offsets_of_other_sources_are_no_ranges(tmp_path: Path, offset: str) -> None:
    assert kafka_partitions(offset) is None
    directory, folders = RunDirectory(str(tmp_path)), ("0", "1")
    for kinds in ({"0": KAFKA, "1": KAFKA}, {"0": FILES, "1": RATE}, {}):
        assert planned_ranges(directory, 5, offsets=text(offset, "-"), folders=folders, kinds=kinds) == ()


@pytest.mark.parametrize("kinds", [{"0": ANOTHER}, {}])
def test_a_source_whose_offset_looks_like_one_of_kafka_has_no_ranges(tmp_path: Path, kinds: dict[str, str]) -> None:
    offsets = text('{"a":{"0":9}}')
    assert planned_ranges(RunDirectory(str(tmp_path)), 0, offsets=offsets, folders=("0",), kinds=kinds) == ()


@pytest.mark.parametrize(
    ("first", "until", "lost"),
    [
        (0, 99, []),
        (10, 20, []),
        (13, 99, [(10, 13)]),
        (20, 99, [(10, 20)]),
        (50, 99, [(10, 20)]),
        (0, 15, [(15, 20)]),
        (0, 3, [(10, 20)]),
        (12, 15, [(10, 12), (15, 20)]),
    ],
)
def test_the_parts_that_a_broker_has_no_more(first: int, until: int, lost: list[tuple[int, int]]) -> None:
    edges = Edges({("a", 0): first}, {("a", 0): until})
    found = lost_of([OffsetRange("0", "a", 0, 10, 20)], edges)
    assert [(one.first, one.until) for one in found] == lost


def test_a_partition_that_the_broker_does_not_know_is_lost() -> None:
    ranges = [OffsetRange("0", "a", 1, 10, 20)]
    assert lost_of(ranges, Edges({("a", 0): 0}, {("a", 0): 50})) == tuple(ranges)
    assert lost_of(ranges, Edges({}, {})) == tuple(ranges)


def test_ranges_in_words() -> None:
    ranges = [OffsetRange("0", "a", number, 10, 12 + number) for number in range(7)]
    assert in_words(ranges[:1]) == "topic 'a' partition 0 offsets 10 to 11"
    assert in_words([OffsetRange("0", "a", 0, 10, 11)]) == "topic 'a' partition 0 offset 10"
    assert in_words(ranges).endswith("partition 4 offsets 10 to 15 and 2 more, 35 offsets in all")
    assert count_of(ranges) == 35
