"""Records of other types than ours were read: a number as the end of a term, anything as the name of a file. A payload
of thousands of brackets was a RecursionError, which named nothing."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tenure.checkpoints.checkpoint import decode_checkpoint
from tenure.checkpoints.left_out import QUARANTINED, LeftOut, decode_left_out
from tenure.coordination.election_rules import Office, decode_office, encode_office
from tenure.coordination.records import Key, Record, Version
from tenure.coordination.term import EPOCH
from tenure.errors import CorruptCheckpoint, CorruptRecord
from tenure.results.result import decode_result

OFFICE = encode_office(Office(3, "anna", "then", until=None, why=None, past=()), uid="x")
LEFT_OUT = LeftOut("copy", 3, ("file:/a",), "file:/b", "operator", "then", "").encode(uid="x")


@pytest.mark.parametrize(
    ("key", "value", "decode", "change", "line"),
    [
        (EPOCH, OFFICE, decode_office, {"until": 7}, "record 'epoch' does not decode: field 'until' is not str: 7"),
        (EPOCH, OFFICE, decode_office, {"why": ["x"]}, "record 'epoch' does not decode: field 'why' is not str: ['x']"),
        (
            QUARANTINED.child("copy"),
            LEFT_OUT,
            decode_left_out,
            {"files": ["file:/a", {"file": "b"}]},
            "record 'quarantined/copy' does not decode: field 'files.1' is not str: {'file': 'b'}",
        ),
    ],
    ids=["until", "why", "files"],
)
def test_a_field_of_another_type_is_named(
    key: Key, value: bytes, decode: Callable[[Record], object], change: dict[str, object], line: str
) -> None:
    damaged = json.dumps({**json.loads(value), **change}).encode()
    decode(Record(key, value, Version("1"), None))
    with pytest.raises(CorruptRecord) as told:
        decode(Record(key, damaged, Version("1"), None))
    assert str(told.value) == line


def test_brackets_by_the_thousand_are_damage() -> None:
    with pytest.raises(CorruptCheckpoint, match="checkpoint 000000000001 of query 'q'"):
        decode_checkpoint(b"[" * 100_000, query="q", name="000000000001")
    with pytest.raises(CorruptRecord, match="the result of the pipeline"):
        decode_result(b"[" * 100_000)
