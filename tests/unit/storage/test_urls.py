"""URLs of folders, as each of their readers spells them."""

from __future__ import annotations

import pytest

from tenure.errors import UsageError
from tenure.storage.urls import normal_url


@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("/a/b/", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file:///a/b", "/a/b"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("s3a://bucket/x/", "s3://bucket/x"),
        ("s3n://bucket/x", "s3://bucket/x"),
        ("hdfs://name:8020/x", "hdfs://name:8020/x"),
    ],
)
def test_schemes_that_mean_the_same_are_the_same(url: str, normal: str) -> None:
    assert normal_url(url) == normal
    assert normal_url(normal) == normal


@pytest.mark.parametrize("url", ["a/b", "file:a", "/a/../b", "s3://bucket/./x", "s3://bucket/.."])
def test_a_place_that_is_not_plain_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        normal_url(url)
