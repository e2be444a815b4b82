"""One run directory: how it is named and read, and what taking a file over from another one means."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.errors import CorruptRunDirectory, StorageError, TenureError, UsageError
from tenure.rundirs.run_directory import RunDirectory, latest_commit, latest_planned, read_offsets, read_query_id
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tests.unit.rundirs.made_by_hand import a_run_directory, content_of, hard_links, offsets_of, state_id, state_names


@pytest.fixture
def source(tmp_path: Path) -> str:
    a_run_directory(str(tmp_path / "source"))
    return str(tmp_path / "source")


@pytest.mark.parametrize(
    ("target", "like", "named"),
    [
        ("memory://b/run", "s3a://old/state/0", "s3a://b/run"),
        ("memory://b/run", "file:/old/state/0", "memory://b/run"),
        ("memory://b/run", "/old/state/0", "memory://b/run"),
        ("/runs/b", "s3a://old/state/0", "file:/runs/b"),
        ("file:///runs/b/", "file:///old/state/0", "file:/runs/b"),
    ],
)
def test_a_path_is_named_as_spark_names_its_storage(target: str, like: str, named: str) -> None:
    assert RunDirectory(target).uri(like=like) == named


def test_a_link_outlives_what_the_owner_does_to_the_name(source: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    seed(source, str(target), SeedPoint(10, offsets_of(10)))
    name = f"state/0/0/10_{state_id(10, 0)}.changelog"
    assert os.path.samefile(Path(source, name), target / name)
    replaced = Path(source, "temporary")
    replaced.write_bytes(b"of a zombie")
    replaced.rename(Path(source, name))
    assert (target / name).read_bytes() == b"changes 10"
    for text in ("metadata", "offsets/9", "commits/9", "sources/0/10"):
        assert not os.path.samefile(Path(source, text), target / text)


def test_where_links_are_refused_files_are_copied(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: str) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))
    assert not hard_links(str(tmp_path / "target"))
    assert set(content_of(str(tmp_path / "target"))) >= state_names(10)


def test_what_a_run_directory_tells(source: str, tmp_path: Path) -> None:
    assert read_query_id(source) == "the-query"
    assert read_offsets(source, 7) == offsets_of(7)
    assert (latest_planned(source), latest_commit(source)) == (13, 13)
    assert (latest_planned(str(tmp_path / "none")), latest_commit("memory://nothing/here")) == (None, None)
    with pytest.raises(CorruptRunDirectory, match="offsets/99 is missing"):
        read_offsets(source, 99)
    Path(source, "metadata").write_bytes(b"\xff")
    with pytest.raises(CorruptRunDirectory, match="metadata does not decode"):
        read_query_id(source)


def failing(call: Callable[[], object]) -> TenureError:
    with pytest.raises(TenureError) as refused:
        call()
    return refused.value


def test_a_storage_that_fails_is_not_a_corrupt_directory(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    error = failing(lambda: seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10))))
    assert isinstance(error, StorageError)
    assert "No space left" in str(error)


def test_what_cannot_be_asked_for(source: str, tmp_path: Path) -> None:
    assert isinstance(failing(lambda: seed(source, str(tmp_path / "t"), SeedPoint(-1, ""))), UsageError)
    assert isinstance(failing(lambda: RunDirectory("nosuch://bucket/run")), UsageError)
