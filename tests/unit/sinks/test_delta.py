"""What the Delta sink refuses before anything starts."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame

from tenure.errors import UsageError
from tenure.events import Events
from tenure.sinks import Batch, Delta


def test_modes_and_keys(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"update mode into .* needs a key"):
        Delta(tmp_path).check(output_mode="update")
    with pytest.raises(UsageError, match=r"append mode into .* has the key k"):
        Delta(tmp_path, key=["k"]).check(output_mode="append")
    with pytest.raises(UsageError, match=r"complete mode into .* has the key k"):
        Delta(tmp_path, key="k").check(output_mode="complete")
    Delta(tmp_path, key="k").check(output_mode="update")
    Delta(tmp_path).check(output_mode="append")
    Delta(tmp_path).check(output_mode="complete")


def test_one_sink_has_one_mode(tmp_path: Path) -> None:
    sink = Delta(tmp_path)
    sink.check(output_mode="append")
    sink.check(output_mode="append")
    with pytest.raises(UsageError, match="one Delta sink for append and complete mode"):
        sink.check(output_mode="complete")


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.sinks.delta.sink.find_spec", lambda name: None)
    assert importlib.util.find_spec("deltalake") is not None
    with pytest.raises(UsageError, match=r"pip install '\.\[delta\]'"):
        Delta(tmp_path).check(output_mode="append")


def test_a_store_without_an_order_of_commits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    unsafe = Delta("s3://bucket/t", storage_options={"aws_s3_allow_unsafe_rename": "true"})
    with pytest.raises(UsageError, match="gives up the order of commits"):
        unsafe.check(output_mode="append")
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "TRUE")
    with pytest.raises(UsageError, match="AWS_S3_ALLOW_UNSAFE_RENAME"):
        Delta("s3://bucket/t").check(output_mode="append")


def test_a_sink_that_was_not_checked_writes_nothing(tmp_path: Path) -> None:
    batch = Batch(scope="s", query="q", query_id="i", id=0, epoch=1)
    with pytest.raises(UsageError, match="was not checked"):
        Delta(tmp_path).write(cast(DataFrame, object()), batch, planned=lambda: None, events=Events.nobody)


def test_making_a_sink_touches_nothing(tmp_path: Path) -> None:
    Delta(tmp_path / "t").check(output_mode="append")
    assert list(tmp_path.iterdir()) == []
