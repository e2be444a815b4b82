"""Which batch without data a seed plans after a batch that is done."""

from __future__ import annotations

import json

import pytest

from tenure.errors import CorruptRunDirectory
from tenure.rundirs.seed_logs import owed_batch

SOURCES = '{"logOffset":10}\n-'


def offsets(watermark: object = 1000) -> str:
    metadata = {"batchWatermarkMs": watermark, "batchTimestampMs": 5, "conf": {"spark.sql.shuffle.partitions": "2"}}
    return f"v1\n{json.dumps(metadata)}\n{SOURCES}"


def commit(watermark: int = 1000) -> str:
    return f'v2\n{{"nextBatchWatermarkMs":{watermark},"stateUniqueIds":{{}}}}'


def owed(text: str, after: str, *operators: str) -> str | None:
    return owed_batch(text, after, operators=operators, now_ms=77, where="offsets/3")


def test_windows_that_the_batch_closes_are_due() -> None:
    text = owed(offsets(1000), commit(2000), "stateStoreSave")
    assert text is not None
    version, metadata, *sources = text.split("\n")
    assert (version, "\n".join(sources)) == ("v1", SOURCES)
    assert json.loads(metadata) == {
        "batchWatermarkMs": 2000,
        "batchTimestampMs": 77,
        "conf": {"spark.sql.shuffle.partitions": "2"},
    }


def test_the_other_lines_of_a_log_of_version_2_stay() -> None:
    text = owed(offsets().replace("v1", "v2").replace(SOURCES, 'a:{"logOffset":10}'), commit(2000), "dedupe")
    assert text is not None
    assert text.startswith("v2\n")
    assert text.endswith('\na:{"logOffset":10}')


def test_nothing_is_due_where_the_watermark_stands_still() -> None:
    assert owed(offsets(1000), commit(1000), "stateStoreSave") is None
    assert owed(offsets(0), commit(0), "stateStoreSave", "stateStoreSave") is None


def test_a_query_without_state_owes_nothing() -> None:
    assert owed(offsets(1000), commit(2000)) is None


@pytest.mark.parametrize(
    "operator",
    ["flatMapGroupsWithState", "applyInPandasWithState", "transformWithStateInPandasExec", "transformWithStateExec"],
)
def test_timers_may_be_due_at_any_time(operator: str) -> None:
    text = owed(offsets(1000), commit(1000), "stateStoreSave", operator)
    assert text is not None
    assert json.loads(text.split("\n")[1])["batchWatermarkMs"] == 1000


def test_spark_before_4_names_no_operators() -> None:
    assert owed(offsets(1000), commit(2000), "") is not None
    assert owed(offsets(1000), commit(1000), "") is None


def test_an_entry_that_does_not_decode_is_named() -> None:
    with pytest.raises(CorruptRunDirectory, match=r"offsets/3 does not decode: the watermark is 'x'"):
        owed(offsets("x"), commit(2000), "stateStoreSave")
