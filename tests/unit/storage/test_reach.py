"""The kind of a storage follows from its URL alone."""

from __future__ import annotations

import pytest

from tenure.errors import UsageError
from tenure.storage.hdfs import Hdfs
from tenure.storage.local import Local
from tenure.storage.reach import reach
from tenure.storage.remote import Remote
from tenure.storage.s3 import S3


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("/srv/x", Local),
        ("s3", Local),
        ("a:b/c", Local),
        ("/srv/s3:/x", Local),
        ("file:/srv/x", Local),
        ("file:///srv/x", Local),
        ("s3://bucket/x", S3),
        ("s3a://bucket/x", S3),
        ("hdfs://name:8020/x", Hdfs),
        ("memory://x", Remote),
    ],
)
def test_a_kind_by_its_url(url: str, kind: type) -> None:
    assert type(reach(url)) is kind


def test_a_url_with_one_slash_is_no_local_path() -> None:
    with pytest.raises(UsageError, match=r"storage 's3:/bucket/x' cannot be used: it lacks //; use file:///path"):
        reach("s3:/bucket/x")
