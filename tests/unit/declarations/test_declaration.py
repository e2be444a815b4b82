"""The record of a declaration: what was written is read, anything else is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenure.coordination.records import Record, Version
from tenure.declarations.declaration import (
    Declaration,
    DeclaredStream,
    Earlier,
    EarlierSpark,
    Shape,
    decode_declaration,
    encode_declaration,
)
from tenure.declarations.store import DECLARED
from tenure.errors import CorruptRecord

DECLARATION = Declaration(
    "0123456789ab",
    "4.3.0",
    {
        "a": DeclaredStream(None),
        "b": DeclaredStream(Shape.of("x", told="sum by k"), dropped=True),
        "c": DeclaredStream(None, earlier=Earlier(Shape.of("y", told="count by k"), 7)),
        "d": DeclaredStream(Shape.of("x", told="sum by k"), earlier=Earlier(None, 7)),
    },
    "Asia/Tokyo",
    EarlierSpark("3.5.9", 7),
)


def record(value: bytes) -> Record:
    return Record(DECLARED, value, Version("1"), None)


def encoded(**changes: Any) -> bytes:
    found = json.loads(encode_declaration(DECLARATION, epoch=3, member="anna", uid="u"))
    return json.dumps({**found, **changes}).encode()


def test_what_was_written_is_read() -> None:
    found = decode_declaration(record(encoded()))
    assert found == DECLARATION
    assert found.streams["b"].shape is not None
    assert found.streams["b"].shape.told == "sum by k"


def test_a_record_of_an_older_version_has_no_spark_before() -> None:
    found = json.loads(encoded())
    del found["spark_before"]
    assert decode_declaration(record(json.dumps(found).encode())).spark_before is None


def test_which_streams_are_run() -> None:
    assert [DECLARATION.declares(name) for name in ("a", "b", "x")] == [True, False, False]


def test_a_shape_is_known_by_its_text_and_its_words_are_short() -> None:
    assert Shape.of("x", told="one") == Shape.of("x", told="another")
    assert Shape.of("x", told="one") != Shape.of("y", told="one")
    assert len(Shape.of("x", told="word " * 1000).told) < 400


@pytest.mark.parametrize(
    "value",
    [
        b"{",
        encoded(file=7),
        encoded(spark=None),
        encoded(streams=[]),
        encoded(zone=7),
        encoded(spark_before="3.5.9"),
        encoded(spark_before={"version": "3.5.9", "epoch": "7"}),
        encoded(streams={"a": {}}),
        encoded(streams={"a": []}),
        encoded(streams={"a": {"shape": None, "dropped": 1}}),
        encoded(streams={"a": {"shape": {"fingerprint": 7, "told": ""}, "dropped": False}}),
        encoded(streams={"a": {"shape": {"told": ""}, "dropped": False}}),
        encoded(streams={"a": {"shape": None, "dropped": False, "earlier": 7}}),
        encoded(streams={"a": {"shape": None, "dropped": False, "earlier": {"shape": None, "epoch": "7"}}}),
        encoded(streams={"a": {"shape": None, "dropped": False, "earlier": {"shape": {"told": ""}, "epoch": 7}}}),
    ],
)
def test_anything_else_is_named(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="declared"):
        decode_declaration(record(value))
