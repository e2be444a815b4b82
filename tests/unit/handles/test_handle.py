"""The record of a handle: a payload comes back byte by byte, and an operator reads it in the store as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.coordination.records import Key, Record, Version
from tenure.handles.handle import decode_handle, encode_handle

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(), lambda some: st.lists(some) | st.dictionaries(st.text(), some)
)


def record(payload: bytes) -> Record:
    return Record(Key("things/x"), encode_handle(uid="u", epoch=1, content=payload), Version("1"), None)


@given(st.binary() | st.text().map(str.encode) | JSON.map(lambda value: json.dumps(value).encode()))
@example(b"NaN")
@example(b"1e999")
@example(b"[1e5, 10.0]")
@example(b'{"b":1,"a":2}')
@example(b'{"a":1,"a":2}')
@example(b'"\\ud800"')
@example(b"1" * 5000)
@example(b"[" * 100_000)
@example(b"")
@example(b"\xff")
@example(b"\xef\xbb\xbf1")
def test_a_payload_comes_back_as_it_was(payload: bytes) -> None:
    assert decode_handle(record(payload)).inline == payload


@pytest.mark.parametrize(
    ("payload", "form", "value"),
    [
        (b'{"batch":3,"v":1}', "json", {"batch": 3, "v": 1}),
        (b'{"v":1,"batch":3}', "text", '{"v":1,"batch":3}'),
        ("Zürich".encode(), "text", "Zürich"),
        (b"\x00\xff", "base64", "AP8="),
    ],
)
def test_a_payload_is_kept_for_people_to_read(payload: bytes, form: str, value: object) -> None:
    assert json.loads(record(payload).value)[form] == value
