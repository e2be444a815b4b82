"""What was encoded is decoded; all else names the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import binary, dictionaries, integers, none, text

from tenure.coordination.encoding import decode, encode, new_uid
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptRecord


def record(value: bytes) -> Record:
    return Record(Key("area/name"), value, Version("1"), None)


@given(dictionaries(text().filter(lambda name: name != "v"), text() | integers() | none()))
def test_what_was_encoded_is_decoded(fields: dict[str, Any]) -> None:
    assert decode(record(encode(fields)), fields={}) == {"v": 1, **fields}


@given(binary(max_size=40))
def test_any_bytes_decode_or_are_corrupt(value: bytes) -> None:
    with suppress_corrupt() as said:
        assert decode(record(value), fields={})["v"] == 1
    assert all("'area/name'" in line for line in said)


@contextmanager
def suppress_corrupt() -> Iterator[list[str]]:
    said: list[str] = []
    try:
        yield said
    except CorruptRecord as corrupt:
        said.append(str(corrupt))


@pytest.mark.parametrize("value", [{"a": "1"}, {"a": None}, {"a": True}, {}, {"a": 1.0}, {"a": [1]}])
def test_a_field_of_another_type_is_named(value: dict[str, object]) -> None:
    with pytest.raises(CorruptRecord, match="field 'a' is not int"):
        decode(record(encode(value)), fields={"a": int})


def test_a_format_of_the_future_says_what_to_do() -> None:
    with pytest.raises(CorruptRecord, match="format 2, this version reads 1; run the version of tenure"):
        decode(record(b'{"v":2}'), fields={})


def test_a_record_is_stable_json_for_people() -> None:
    assert encode({"b": 1, "a": "x"}) == b'{"a":"x","b":1,"v":1}'
    assert json.loads(encode({}))["v"] == 1


@pytest.mark.parametrize("value", [b"1" * 5000, b"[" * 100_000, b'{"v":' + b"9" * 5000 + b"}"])
def test_what_python_does_not_like_to_read_is_corrupt(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="'area/name' does not decode"):
        decode(record(value), fields={})


def test_uids_are_unique() -> None:
    assert len({new_uid() for _ in range(1000)}) == 1000
