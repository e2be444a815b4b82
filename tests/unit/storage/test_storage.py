"""Folders of the storage: listed and removed, never through a link, never above the root."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tenure.coordination.encoding import new_uid
from tenure.errors import StorageError, UsageError
from tenure.storage.reach import reach
from tenure.storage.storage import Entry


class Place:
    """A root, and files below it, on one kind of storage."""

    def __init__(self, url: str) -> None:
        self.folders = reach(url)
        self._fs, self._root = fsspec.core.url_to_fs(url)

    def write(self, path: str) -> None:
        self._fs.makedirs(os.path.dirname(f"{self._root}/{path}"), exist_ok=True)
        self._fs.pipe_file(f"{self._root}/{path}", b"x")

    def files(self) -> list[str]:
        return sorted(name.removeprefix(f"{self._root}/") for name in self._fs.find(self._root))


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    url = str(tmp_path / "root") if request.param == "local" else f"memory://folders-{new_uid()}/root"
    made = Place(url)
    for path in ("runs/q/one/offsets/0", "runs/q/two/offsets/0", "runs/file", "blobs/e1/x"):
        made.write(path)
    yield made
    if request.param == "memory":
        made._fs.rm(made._root, recursive=True)


def test_what_is_in_a_folder(place: Place) -> None:
    assert place.folders.entries() == [Entry("blobs", True), Entry("runs", True)]
    assert place.folders.entries("runs") == [Entry("file", False), Entry("q", True)]
    assert list(place.folders.entries("nothing")) == list(place.folders.entries("runs/file")) == []


def test_a_folder_goes_with_all_that_is_in_it_and_nothing_else(place: Place) -> None:
    for _ in range(2):
        place.folders.remove("runs/q")
        assert place.files() == ["blobs/e1/x", "runs/file"]


def test_a_folder_gets_a_free_name_at_once_where_there_are_folders(place: Place) -> None:
    if place.folders.local_folder is None:
        with pytest.raises(StorageError, match="cannot move"):
            place.folders.move("runs/q/one", "runs/three")
        return
    assert place.folders.move("runs/q/one", "runs/three")
    assert not place.folders.move("runs/q/one", "runs/three"), "it is not there any more"
    with pytest.raises(StorageError, match="cannot move"):
        place.folders.move("runs/q/two", "runs/three")
    assert place.files() == ["blobs/e1/x", "runs/file", "runs/q/two/offsets/0", "runs/three/offsets/0"]


def test_a_file_goes(place: Place) -> None:
    for _ in range(2):
        place.folders.remove("runs/file")
        assert "runs/file" not in place.files()


def test_only_an_empty_folder_goes_by_the_other_word(place: Place) -> None:
    place.folders.remove_empty("runs/q")
    place.folders.remove_empty("nothing")
    place.folders.remove_empty("runs/file")
    assert len(place.files()) == 4


@pytest.mark.parametrize("path", ["..", "runs/../..", "/etc", "runs//q", "."])
def test_a_path_that_leads_elsewhere_is_refused(place: Place, path: str) -> None:
    for call in (place.folders.entries, place.folders.remove, place.folders.remove_empty):
        with pytest.raises(ValueError, match="is not a relative path of names"):
            call(path)
    assert len(place.files()) == 4


def test_an_empty_folder_goes_on_a_disk(tmp_path: Path) -> None:
    (tmp_path / "root" / "runs").mkdir(parents=True)
    folders = reach(str(tmp_path / "root"))
    assert [folders.is_empty(path) for path in ("runs", "", "nothing")] == [True, False, False]
    folders.remove_empty("runs")
    folders.remove_empty()
    assert not (tmp_path / "root").exists()


def test_a_link_is_removed_as_a_link(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    root = tmp_path / "root"
    (root / "runs" / "q" / "one").mkdir(parents=True)
    for link in (root / "runs" / "link", root / "runs" / "q" / "one" / "link"):
        link.symlink_to(precious)
    folders = reach(str(root))
    assert folders.entries("runs") == [Entry("link", False), Entry("q", True)]
    with pytest.raises(StorageError, match=r"cannot list .*/runs/link: it is a symbolic link, which is not followed"):
        folders.entries("runs/link")
    folders.remove("runs/link")
    folders.remove("runs/q")
    assert list(root.rglob("*")) == [root / "runs"]
    assert (precious / "data").read_text() == "x"


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "runs").mkdir(parents=True)
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    assert reach(str(tmp_path / "root")).entries() == [Entry("runs", True)]


def test_what_fails_is_an_error_of_the_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "q").mkdir(parents=True)
    folders = reach(str(tmp_path))

    def refuse(*positional: object, **named: object) -> None:
        raise OSError(5, "Input/output error")

    for module, name, call in (
        (shutil, "rmtree", lambda: folders.remove("runs")),
        (os, "scandir", lambda: folders.entries("runs")),
        (os, "rmdir", lambda: folders.remove_empty("runs/q")),
    ):
        monkeypatch.setattr(module, name, refuse)
        with pytest.raises(StorageError, match="Input/output error; check the storage"):
            call()
        monkeypatch.undo()


def test_a_storage_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match="storage 'nothing://x' cannot be used"):
        reach("nothing://x")


def test_objects_that_a_client_leaves_without_a_word_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """s3fs is silent about keys that it was not allowed to delete."""
    url = f"memory://folders-{os.urandom(6).hex()}"
    fs, root = fsspec.core.url_to_fs(url)
    fs.pipe_file(f"{root}/a/b", b"x")
    monkeypatch.setattr(type(fs), "rm", lambda self, path, recursive=False: None)
    with pytest.raises(StorageError, match="1 objects in it stay"):
        reach(url).remove("a")
    monkeypatch.undo()
    reach(url).remove("a")
    assert not reach(url).entries("")
