"""What was encoded is decoded; all else names the record."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis.strategies import binary, dictionaries, integers, none, text

from tenure.coordination.encoding import decode, decode_as, decode_payload, encode, encode_payload, new_uid
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


@dataclass(frozen=True)
class Inner:
    size: int
    kind: Annotated[str, frozenset({"a", "b"})] = "a"


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Outer:
    name: str
    inner: Mapping[str, Inner]
    texts: tuple[str, ...] = ()
    colour: Colour | None = None


OUTER = Outer("x", {"q": Inner(7, "b")}, ("one", "two"), Colour.RED)


def test_a_dataclass_is_read_as_it_was_written() -> None:
    assert decode_payload(Outer, encode_payload(OUTER)) == OUTER
    assert decode_as(Outer, record(encode({**asdict(OUTER), "uid": "x"}))) == OUTER
    assert decode_as(Outer, record(encode({"inner": {}})), name="given") == Outer("given", {})


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"name": 7}, "field 'name' is not str: 7"),
        ({"name": None}, "field 'name' is not str: None"),
        ({"inner": {"q": {}}}, "field 'inner.q.size' is missing"),
        ({"inner": {"q": {"size": 1, "more": 2}}}, "field 'inner.q.more' is not known"),
        ({"inner": {"q": {"size": True}}}, "field 'inner.q.size' is not int: True"),
        ({"inner": {"q": {"size": 1, "kind": "c"}}}, "field 'inner.q.kind' is not a, b: 'c'"),
        ({"inner": {"q": {"size": 1, "kind": ["a"]}}}, "field 'inner.q.kind' is not a, b: ['a']"),
        ({"inner": []}, "field 'inner' is not Mapping: []"),
        ({"texts": ["one", 2]}, "field 'texts.1' is not str: 2"),
        ({"texts": "one"}, "field 'texts' is not tuple: 'one'"),
        ({"colour": "blue"}, "field 'colour' is not red: 'blue'"),
    ],
)
def test_damage_is_one_line_that_names_the_field_and_its_value(change: dict[str, object], line: str) -> None:
    fields = {**asdict(OUTER), **change}
    with pytest.raises(CorruptRecord) as told:
        decode_as(Outer, record(encode(fields)))
    assert str(told.value) == f"record 'area/name' does not decode: {line}"
    with pytest.raises(ValueError, match=re.escape(line)):
        decode_payload(Outer, json.dumps({"format": 1, **fields}).encode())


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
