"""Whether planned input files are there, asked of Spark: also of names that look like patterns."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.inputs.input_files import missing_files

pytestmark = pytest.mark.spark

NAMES = ["plain.json", "a b%.json", "export [2].json", "{a,b}.json", "all*.json", "why?.json", "back\\\\slash.json"]


@pytest.mark.parametrize("gone", [[], NAMES[:1], NAMES[2:3], NAMES[3:], NAMES], ids=len)
def test_each_file_is_asked_for_by_its_name(spark: SparkSession, tmp_path: Path, gone: list[str]) -> None:
    """Spark asks for no name that looks like a pattern. A batch whose file was gone ran again without its rows."""
    (tmp_path / "export 2.json").touch()  # what such a pattern would find
    (tmp_path / "a.json").touch()
    for name in set(NAMES) - set(gone):
        (tmp_path / name).touch()
    paths = [f"file:{tmp_path}/{name}" for name in NAMES]
    assert sorted(missing_files(spark, paths)) == sorted(f"file:{tmp_path}/{name}" for name in gone)
