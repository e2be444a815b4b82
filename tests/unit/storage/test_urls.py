"""URLs of folders, as each of their readers spells them."""

from __future__ import annotations

import pytest

from tenure.errors import UsageError
from tenure.storage.urls import hadoop_url, normal_url, one_spelling, spark_url


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


@pytest.mark.parametrize(
    ("url", "ours", "spark", "hadoop"),
    [
        ("s3://b/x", "s3://b/x", "s3a://b/x", "s3a://b/x"),
        ("s3a://b/x", "s3://b/x", "s3a://b/x", "s3a://b/x"),
        ("hdfs://h:8020/x", "hdfs://h:8020/x", "hdfs://h:8020/x", "hdfs://h:8020/x"),
        ("file:///a b", "file:///a b", "file:///a b", "file:///a b"),
        ("/a b", "/a b", "/a b", "file:///a b"),
    ],
)
def test_each_reader_has_its_spelling(url: str, ours: str, spark: str, hadoop: str) -> None:
    assert (one_spelling(url), spark_url(url), hadoop_url(url)) == (ours, spark, hadoop)
