"""The encoding of a result: what was written is read; anything else is loud."""

from __future__ import annotations

import json

import pytest

from tenure.errors import CorruptRecord
from tenure.results.result import Ending, Result, Stage, decode_result, encode_result

RESULT = Result(Ending.FINISHED, Stage.DIRTY, 7, "anna", "2030-01-01T00:00:00.000+00:00")


@pytest.mark.parametrize("stage", list(Stage))
def test_what_was_written_is_read(stage: Stage) -> None:
    result = Result(Ending.FINISHED, stage, 7, "anna", "then")
    assert decode_result(encode_result(result)) == result


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"ending": "vanished"},
        {"stage": "tidy"},
        {"epoch": "7"},
        {"epoch": True},
        {"member": None},
        {"more": 1},
        {"ended_at": 3},
    ],
    ids="-".join,
)
def test_what_is_not_a_result_is_loud(change: dict[str, object]) -> None:
    payload = json.dumps({**json.loads(encode_result(RESULT)), **change}).encode()
    with pytest.raises(CorruptRecord, match="the result of the pipeline does not decode"):
        decode_result(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"{}", b"\xff", b"null"], ids=["empty", "list", "object", "bytes", "null"]
)
def test_what_is_no_json_object_is_loud(payload: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_result(payload)
