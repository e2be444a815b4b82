"""Staging paths and locations: what they carry, and that they can be read back."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.sinks.delta.location import Location
from tenure.sinks.sink import Batch
from tenure.sinks.staging.stage import StagingPath, storage_trouble

NAMES = st.text(min_size=1).filter(lambda text: text.isprintable())


@given(scope=NAMES, query=NAMES, epoch=st.integers(0, 10**12), batch=st.integers(0, 10**15))
def test_a_path_names_its_attempt(scope: str, query: str, epoch: int, batch: int) -> None:
    path = StagingPath.of(Batch(scope=scope, query=query, query_id="q", id=batch, epoch=epoch))
    assert str(path).count("/") == 5
    for below in ("", "/", "/part-0.parquet", "/p=1/part-0.parquet", "/_temporary/0"):
        assert StagingPath.parse(f"{path}{below}") == path
    assert StagingPath.parse(f"{path}0") is None
    assert StagingPath.parse(f"x/{path}") is None


def test_no_two_attempts_share_a_path() -> None:
    batch = Batch(scope="s", query="q", query_id="i", id=1, epoch=1)
    assert StagingPath.of(batch) != StagingPath.of(batch)


def test_a_path_reads_well() -> None:
    path = StagingPath("flights", "hourly", "id", 5, 12, "0" * 32)
    assert str(path) == f"tenure-flights/hourly/id/e00000005/b000000000012/{'0' * 32}"


@pytest.mark.parametrize("path", ["", "_delta_log/0.json", "part-0.parquet", "tenure-s/q/id/e00000001/b000000000001"])
def test_what_is_no_staging(path: str) -> None:
    assert StagingPath.parse(path) is None


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("java.io.IOException: No space left on device", "No space left on device"),
        (
            "java.io.IOException: Mkdirs failed to create file:/t/x (exists=false)\n at",
            "Mkdirs failed to create file:/t/x (exists=false)",
        ),
        ("OSError: [Errno 28] No space left on device", None),
        ("java.lang.ArithmeticException: / by zero", None),
    ],
)
def test_what_the_storage_is_blamed_for(message: str, trouble: str | None) -> None:
    assert storage_trouble(message) == trouble


def test_a_location_is_the_same_for_spark_and_delta(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Location.of("a b/t") == Location.of(tmp_path / "a b" / "t") == Location.of(f"file://{tmp_path}/a%20b/t/")
    assert Location.of("a b/t").for_spark("x/y") == f"file://{tmp_path}/a b/t/x/y"
    assert Location.of("s3://bucket/t/").for_spark("x") == "s3a://bucket/t/x"
    assert str(Location.of("s3://bucket/t/")) == "s3://bucket/t"
    assert Location.of("s3a://bucket/t") == Location.of("s3://bucket/t/")
    assert Location.of("abfss://c@a.dfs.core.windows.net/t").for_spark("x") == "abfss://c@a.dfs.core.windows.net/t/x"
