"""The walk and the removal of every cleanup: which folders are not even listed, and which go with the last path in
them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure.cleanup.engine import Everything, Rule, remove, verdicts, walk
from tenure.cleanup.orphans import Claims, OrphanRule
from tenure.errors import StorageError
from tenure.storage.local import Local
from tenure.storage.storage import Entry

UID = "0123456789ab"
OWN, OLD, MIRROR = (f"runs/q/{name}-{UID}" for name in ("e00000003-anna", "e00000002-ben", "e00000004-ben"))
FILES = (
    f"{OWN}/offsets/0",
    f"{OLD}/state/0/0/1.zip",
    f"{MIRROR}/offsets/0",
    "runs/q/notes/mine",
    "blobs/e00000002/checkpoints/q/1-x",
    "blobs/e00000003/checkpoints/q/2-y",
    "blobs/notes/mine",
)
LEAST = OrphanRule(Claims(3, "anna"))


class Watched(Local):
    """Folders that know which of them were listed."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.listed: list[str] = []

    def entries(self, path: str = "", *, sizes: bool = False) -> Sequence[Entry]:
        self.listed.append(path)
        return super().entries(path, sizes=sizes)


@pytest.fixture
def storage(tmp_path: Path) -> Watched:
    for path in FILES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    return Watched(str(tmp_path))


def test_what_stays_or_goes_as_a_whole_is_not_listed(storage: Watched) -> None:
    """A leader's own run directory and blobs grow with each batch; its sweep does not."""
    assert list(walk(storage, "runs", LEAST)) == [OLD, MIRROR]
    assert storage.listed == ["runs", "runs/q"]
    storage.listed.clear()
    assert list(walk(storage, "blobs", LEAST)) == ["blobs/e00000002/checkpoints/q/1-x"]
    folder = "blobs/e00000002"
    assert storage.listed == ["blobs", folder, f"{folder}/checkpoints", f"{folder}/checkpoints/q"]


def test_of_an_ended_pipeline_all_goes_and_each_folder_after_all_that_is_in_it(storage: Watched) -> None:
    assert list(walk(storage, "runs", Everything(3))) == [OLD, OWN, MIRROR, "runs/q/notes", "runs/q/", "runs/"]
    assert list(walk(storage, "blobs", Everything(2))) == [*(f"blobs/{name}" for name in _BLOBS), "blobs/"]
    assert list(walk(storage, "nowhere", Everything(2))) == []


_BLOBS = ("e00000002", "e00000003", "notes")


@pytest.mark.parametrize("rule", [LEAST, Everything(2)], ids=["orphans", "everything"])
def test_an_empty_folder_goes_and_one_that_is_not_there_does_not(tmp_path: Path, rule: Rule) -> None:
    storage = Local(str(tmp_path))
    (tmp_path / "blobs" / "e00000001" / "x").mkdir(parents=True)
    (name, *_) = walk(storage, "blobs", rule)
    remove(storage, name, rule)
    assert not (tmp_path / "blobs" / "e00000001").exists()
    assert (tmp_path / "blobs").exists() is not rule.whole
    assert list(walk(storage, "blobs", rule)) == []


def test_folders_that_stay_are_not_removed_when_they_are_empty(storage: Watched, tmp_path: Path) -> None:
    for path in walk(storage, "runs", LEAST):
        remove(storage, path, LEAST)
    assert sorted(entry.name for entry in storage.entries("runs/q")) == [OWN.rpartition("/")[2], "notes"]
    storage.remove(OWN)
    storage.remove("runs/q/notes")
    remove(storage, OLD, LEAST)
    assert (tmp_path / "runs" / "q").exists()
    remove(storage, OLD, Everything(3))
    assert not (tmp_path / "runs").exists()


def test_what_somebody_puts_into_a_folder_of_an_ended_pipeline_is_an_error(storage: Watched) -> None:
    """Else the next row would go on, and nobody would look again."""
    with pytest.raises(StorageError, match=r"runs/q/ is not empty yet"):
        remove(storage, "runs/q/", Everything(3))


def test_verdicts_are_those_of_folders_but_for_what_is_named_and_of_names() -> None:
    old = "blobs/e00000002/checkpoints/q"
    rule = OrphanRule(Claims(3, "anna", named=frozenset({f"{old}/1-x", OLD})))
    paths = [f"{old}/1-x", f"{old}/2-y", f"{OLD}/offsets/0", f"{MIRROR}/offsets/0", "rehearsals/gone/", "notes.txt"]
    assert verdicts(rule, paths) == [False, True, False, True, True, False]
