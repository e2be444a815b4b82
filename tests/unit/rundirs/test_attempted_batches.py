"""Whose attempts are looked for: those under the ids of a query that are in its own run directories."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.errors import StorageError
from tenure.rundirs.attempted_batches import attempts_at
from tenure.sinks.sink import Attempts, Planned
from tenure.storage.storage import Entry, Storage


def at(storage: Path, newest: Checkpoint | None = None) -> Attempts:
    checkpoints = {"copy": SimpleNamespace(newest=lambda: newest)}
    context = SimpleNamespace(scope="rows", storage=str(storage), checkpoints=lambda query: checkpoints[query])
    return attempts_at("copy", cast(Any, context), epoch=3)


def run(storage: Path, name: str, metadata: str | None) -> Path:
    folder = storage / "runs" / "copy" / name
    folder.mkdir(parents=True)
    if metadata is not None:
        (folder / "metadata").write_text(metadata)
    return folder


def test_the_ids_of_all_run_directories_count_also_of_such_that_no_checkpoint_names(tmp_path: Path) -> None:
    attempts = at(tmp_path)
    assert set(attempts.query_ids()) == set()
    run(tmp_path, "e00000001-anna-0123456789ab", json.dumps({"id": "first"}))
    run(tmp_path, "e00000002-ben-0123456789ab", json.dumps({"id": "second"}))
    run(tmp_path, "e00000003-carl-0123456789ab", None)  # a mirror
    (tmp_path / "runs" / "copy" / ".DS_Store").write_text("not ours")
    run(tmp_path, "e00000003-dora-0123456789ab", "half wri")
    assert set(attempts.query_ids()) == {"first", "second"}


def test_an_id_that_was_read_once_is_kept_and_one_that_comes_later_is_found(tmp_path: Path) -> None:
    attempts = at(tmp_path)
    folder = run(tmp_path, "e00000001-anna-0123456789ab", json.dumps({"id": "first"}))
    assert set(attempts.query_ids()) == {"first"}
    (folder / "metadata").unlink()
    folder.rmdir()
    run(tmp_path, "e00000002-ben-0123456789ab", json.dumps({"id": "second"}))
    assert set(attempts.query_ids()) == {"first", "second"}


def test_what_is_planned_is_read_each_time(tmp_path: Path) -> None:
    assert at(tmp_path).planned() == Planned("", -1)
    newest = Checkpoint("copy", "second", 7, "offsets", "run", 3, "now")
    assert at(tmp_path, newest).planned() == Planned("second", 7)


def test_a_storage_that_cannot_be_listed_is_no_pipeline_without_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Storage, path: str = "", *, sizes: bool = False) -> Sequence[Entry]:
        raise StorageError("it is away")

    monkeypatch.setattr(Storage, "entries", refuse)
    with pytest.raises(StorageError, match="it is away"):
        at(tmp_path).query_ids()
