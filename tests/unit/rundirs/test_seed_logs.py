"""What the logs of a run directory mean, and which of their files a seed takes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, RATE
from tenure.errors import CorruptRunDirectory
from tenure.rundirs import seed_logs as seed_plan

HEAD = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


def test_offsets_by_position_and_by_name() -> None:
    assert seed_plan.decode_offsets(f'v1\n{HEAD}\n{{"logOffset":3}}\n-', where="x") == {
        "0": '{"logOffset":3}',
        "1": None,
    }
    assert seed_plan.decode_offsets(f'v2\n{HEAD}\nclicks:{{"a":{{"0":3}}}}', where="x") == {"clicks": '{"a":{"0":3}}'}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "v1",
        f"v1\n{HEAD}",
        f"v3\n{HEAD}\n5",
        "v1\n[]\n5",
        "v1\n{\n5",
        f'v1\n{HEAD}\n{{"logOff',
        f"v2\n{HEAD}\n5",
        f"v1\n{HEAD}\n",
    ],
)
def test_offsets_that_do_not_decode(text: str) -> None:
    with pytest.raises(CorruptRunDirectory, match="run/offsets/7 does not decode"):
        seed_plan.decode_offsets(text, where="run/offsets/7")


def test_commits_of_both_formats() -> None:
    assert seed_plan.decode_commit('v1\n{"nextBatchWatermarkMs":0}', where="x") is None
    ids = {"0": [["a", "b"], ["c", "d"]]}
    text = "v2\n" + json.dumps({"nextBatchWatermarkMs": 0, "stateUniqueIds": ids})
    assert dict(seed_plan.decode_commit(text, where="x") or {}) == ids


@pytest.mark.parametrize(
    "text", ["", "v1", "v9\n{}", "v2\n[1]", 'v2\n{"stateUniqueIds":3}', 'v2\n{"stateUniqueIds":{"0":[[1]]}}']
)
def test_commits_that_do_not_decode(text: str) -> None:
    with pytest.raises(CorruptRunDirectory, match="commits/6 does not decode"):
        seed_plan.decode_commit(text, where="commits/6")


@pytest.mark.parametrize("text", ["", "{}", '{"id":3}', "7", '{"id":"'])
def test_a_query_id_that_does_not_decode(text: str) -> None:
    with pytest.raises(CorruptRunDirectory, match="run/metadata does not decode"):
        seed_plan.decode_query_id(text, where="run/metadata")


@given(last=st.integers(0, 60), newest=st.integers(0, 60), interval=st.integers(2, 12))
def test_the_source_log_covers_every_entry_once(last: int, newest: int, interval: int) -> None:
    """Whatever is newer than `last` and is still being written by somebody."""
    newest = max(last, newest)
    names = {f"{entry}.compact" if (entry + 1) % interval == 0 else str(entry) for entry in range(newest + 1)}
    taken = seed_plan.source_log(names | {".5.crc"}, last, where="sources/0")
    compacts = [int(name.removesuffix(".compact")) for name in taken if name.endswith(".compact")]
    assert compacts == [entry for entry in range(last + 1) if (entry + 1) % interval == 0][-2:], "Spark's interval"
    begin = compacts[-1] + 1 if compacts else 0
    assert list(taken[len(compacts) :]) == [str(entry) for entry in range(begin, last + 1)]


@pytest.mark.parametrize("gone", ["9.compact", "10", "12"])
def test_a_gap_in_the_source_log_is_named(gone: str) -> None:
    # Spark deletes entries below a compact one after a while, so nothing else stands in for it.
    names = {"9.compact", "10", "11", "12", "13"} - {gone}
    with pytest.raises(CorruptRunDirectory, match=r"sources/0/\d+ is missing"):
        seed_plan.source_log(names, 12, where="sources/0")


@pytest.mark.parametrize("text", ["", "v1\n{", 'v1\n{"path":"a"}\n{"pa', "v2\n{}", "v1\n7"])
def test_a_torn_source_entry(text: str) -> None:
    with pytest.raises(CorruptRunDirectory, match="sources/0/3 does not decode"):
        seed_plan.check_source_entry(text, where="sources/0/3")


@pytest.mark.parametrize(
    ("kind", "batch", "needed"),
    [(RATE, 7, True), (KAFKA, 0, True), (KAFKA, 7, False), (FILES, 0, False), (ANOTHER, 0, False)],
)
def test_which_sources_cannot_go_on_without_their_beginning(kind: str, batch: int, needed: bool) -> None:
    assert seed_plan.needs_start(kind, batch) is needed


@pytest.mark.parametrize(
    ("offset", "names", "kind"),
    [
        ('{"logOffset":3}', {"3", "2"}, FILES),
        ('{"logOffset":3}', {"3.compact"}, FILES),
        ('{"logOffset":3}', set(), ANOTHER),
        ("5", {"0"}, RATE),
        ("5", set(), ANOTHER),
        ('{"topic":{"0":3}}', {"0"}, ANOTHER),
        (None, {"0"}, ANOTHER),
    ],
)
def test_a_kind_that_was_not_recorded_is_known_by_offset_and_files_alone(
    offset: str | None, names: set[str], kind: str
) -> None:
    assert seed_plan.kind_of(None, offset, names) == kind
    for recorded in (FILES, KAFKA, RATE, ANOTHER):
        assert seed_plan.kind_of(recorded, offset, names) == recorded


def test_an_offset_that_is_none_of_files_is_named() -> None:
    assert (seed_plan.last_entry(None, where="it"), seed_plan.last_entry('{"logOffset":3}', where="it")) == (-1, 3)
    with pytest.raises(CorruptRunDirectory, match="it has the offset 5, which is none of a source of files"):
        seed_plan.last_entry("5", where="it")


def test_of_a_source_with_files_of_its_own_only_what_hadoop_adds_is_not_copied() -> None:
    names = ["0", "_log", ".part", "a.crc", ".0.crc", ".0.1234.tmp"]
    assert list(filter(seed_plan.is_copied, names)) == ["0", "_log", ".part", "a.crc"]


def test_only_a_file_source_has_a_log_offset() -> None:
    assert seed_plan.log_offset('{"logOffset":12}') == 12
    assert seed_plan.log_offset("12") is None
    assert seed_plan.log_offset('{"logOffset":12,"more":1}') is None
