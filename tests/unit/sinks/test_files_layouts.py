"""The layout of folders is for storages that move a folder by one rename. An object store that Tenure reaches by fsspec
alone passed the check, and then each batch failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.errors import UsageError
from tenure.sinks.files.sink import Files


@pytest.mark.parametrize("url", ["s3://bucket/rows", "s3a://bucket/rows", "memory://bucket/rows"])
def test_an_object_store_has_no_layout_of_folders(url: str) -> None:
    with pytest.raises(UsageError, match=r"rows is in an object store, where no folder appears at one instant"):
        Files(url, layout="folders").check(output_mode="append")
    Files(url).check(output_mode="append")


def test_a_disk_and_hdfs_have_both_layouts(tmp_path: Path) -> None:
    for url in (str(tmp_path), tmp_path.as_uri(), "hdfs://127.0.0.1:1/rows"):
        Files(url, layout="folders").check(output_mode="append")
        Files(url).check(output_mode="append")
