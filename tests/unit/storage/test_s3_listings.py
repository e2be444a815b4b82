"""Pages of S3's listings: those that are read quickly are read as a parser of XML would read them, and others not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.storage import objects as listings

SPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="{SPACE}"><Name>b</Name>'
TAIL = "<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated></ListBucketResult>"


@pytest.fixture(autouse=True, scope="module")
def asked_here() -> Iterator[None]:
    token = listings._asked_here.set(True)
    yield
    listings._asked_here.reset(token)


def page(*objects: str, tail: str = TAIL) -> bytes:
    return (HEAD + "".join(f"<Contents>{one}</Contents>" for one in objects) + tail).encode()


def told(key: str, size: int) -> str:
    return (
        f"<ETag>&#34;0cc1&#34;</ETag><Key>{quote_plus(key, safe='/')}</Key><Size>{size}</Size><Owner><ID>x</ID></Owner>"
    )


def read(body: bytes, status: int = 200) -> tuple[Any, bytes]:
    """The keys that were taken out, if any were, and what is left for botocore."""
    answer: dict[str, Any] = {"status_code": status, "body": body}
    found: dict[str, Any] = {}
    listings._read_page(answer, found)
    return found.get(listings._KEYS), answer["body"]


@given(st.lists(st.tuples(st.text(min_size=1), st.integers(0, 2**50)), max_size=20))
def test_a_page_is_read_as_it_was_written(objects: list[tuple[str, int]]) -> None:
    objects = [(key.encode("utf-8", "replace").decode(), size) for key, size in objects]
    keys, left = read(page(*(told(key, size) for key, size in objects)))
    assert keys == objects
    assert [one.tag.rpartition("}")[2] for one in ElementTree.fromstring(left)] == [
        "Name",
        "EncodingType",
        "IsTruncated",
    ]


ODD = [
    page(told("a", 1), tail="<IsTruncated>false</IsTruncated></ListBucketResult>"),
    page(told("a", 1), "<Key>a&amp;b</Key><Size>1</Size>"),
    page(told("a", 1), "<Key>é</Key><Size>1</Size>"),
    page(told("a", 1), "<Key>a</Key>"),
    page(told("a", 1), "<Size>1</Size>"),
    page(told("a", 1), "<Key>a</Key><Key>b</Key><Size>1</Size>"),
    page(told("a", 1), "<Key a='1'>a</Key><Size>1</Size>"),
    page(told("a", 1), "<Key>a</Key><Size>-1</Size>"),
    page(told("a", 1), tail=f"<!-- <Contents></Contents> -->{TAIL}"),
    page(told("a", 1), tail=f"<Contents a='1'>{told('b', 1)}</Contents>{TAIL}"),
    page(told("a", 1), "<Key><![CDATA[a</Contents>]]></Key><Size>1</Size>"),
    page(told("a", 1))[:-300],
    b"",
    b"\xff\xfe<",
]


@pytest.mark.parametrize("body", ODD)
def test_a_page_that_is_written_otherwise_is_left_to_a_parser(body: bytes) -> None:
    assert read(body) == (None, body)


def test_an_answer_that_is_no_page_is_left_as_it_is() -> None:
    body = page(told("a", 1))
    assert read(body, status=503) == (None, body)
