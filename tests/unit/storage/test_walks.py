"""All files of a tree, in pieces: each once, however it is divided; no link is followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.errors import StorageError
from tenure.storage import local
from tenure.storage.reach import reach
from tenure.storage.storage import Listed, Rest, Storage

ROOTS = ("local", "memory")


@pytest.fixture(params=ROOTS)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "root")
        return
    url = f"memory://trees-{os.urandom(6).hex()}"
    yield url
    fsspec.filesystem("memory").rm(url, recursive=True)


def put(root: str, *paths: str) -> None:
    fs, found = fsspec.core.url_to_fs(root)
    for path in paths:
        fs.makedirs(f"{found}/{path}".rpartition("/")[0], exist_ok=True)
        fs.pipe_file(f"{found}/{path}", b"xyz")


def everything(tree: Storage, folders: list[str], *, budget: int) -> tuple[dict[str, int], int]:
    """The size of each file, folder by folder, and how many rounds that took."""
    files: dict[str, int] = {}
    rounds = 0
    while folders:
        rounds += 1
        found = [one for folder in folders for one in tree.walk([folder], budget=budget)]
        for one in found:
            if isinstance(one, Listed):
                sizes = tree.sizes(one.paths) if one.sizes is None else one.sizes
                assert not files.keys() & set(one.paths), "each once"
                files.update(zip(one.paths, sizes, strict=True))
        folders = [one.folder for one in found if isinstance(one, Rest)]
    return files, rounds


PATHS = ("a/b/c/1", "a/b/2", "a/3", "d/4", "d/5", "d/e/6", "7")


@pytest.mark.parametrize("budget", [1, 2, 3, 100])
def test_every_file_comes_once(root: str, budget: int) -> None:
    put(root, *PATHS)
    files, rounds = everything(reach(root), [""], budget=budget)
    assert files == dict.fromkeys(PATHS, 3)
    assert (rounds == 1) is (budget == 100)


def test_only_what_is_below_the_pieces(root: str) -> None:
    put(root, *PATHS)
    files, _ = everything(reach(root), ["a/b", "not-there"], budget=100)
    assert sorted(files) == ["a/b/2", "a/b/c/1"]


def test_a_link_is_a_file_and_nothing_behind_it_is_listed(tmp_path: Path) -> None:
    put(str(tmp_path / "precious"), "data")
    put(str(tmp_path / "root"), "a/1")
    (tmp_path / "root/a/link").symlink_to(tmp_path / "precious")
    (tmp_path / "root/linked").symlink_to(tmp_path / "precious")
    tree = reach(str(tmp_path / "root"))
    files, _ = everything(tree, [""], budget=100)
    assert files == {"a/1": 3, "a/link": 0, "linked": 0}
    assert everything(tree, ["linked"], budget=100) == ({}, 1)


def test_a_folder_with_nothing_in_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    assert everything(reach(str(tmp_path)), [""], budget=100)[0] == {"a/b/": 0}


def test_what_goes_meanwhile_is_passed_over(tmp_path: Path) -> None:
    put(str(tmp_path), "a/1", "b/2")
    walk = reach(str(tmp_path)).walk(["a", "b"], budget=100)
    assert next(walk) == Listed("a", ["1"], None)
    (tmp_path / "b/2").unlink()
    (tmp_path / "b").rmdir()
    assert list(walk) == []
    assert reach(str(tmp_path)).sizes(["b/2"]) == [0]


def test_a_folder_of_very_many_files_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_AT_ONCE", 2)
    put(str(tmp_path), *(f"a/{number}" for number in range(5)))
    found = list(reach(str(tmp_path)).walk(["a"], budget=100))
    assert [len(one.names) for one in found if isinstance(one, Listed)] == [2, 2, 1]


def test_names_that_are_no_text_are_left_out(tmp_path: Path) -> None:
    put(str(tmp_path), "a/1")
    for name in (b"a/\xff", b"\xff"):
        (tmp_path / os.fsdecode(name)).mkdir()
    (tmp_path / os.fsdecode(b"a/\xfe")).touch()
    assert everything(reach(str(tmp_path)), [""], budget=100)[0] == {"a/1": 3}


def test_what_cannot_be_looked_at_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(str(tmp_path), "a/1")
    assert reach(str(tmp_path)).sizes(["a/1", "a/2", "gone/3", "a/1/4", "a/"]) == [3, 0, 0, 0, 0]

    def refuse(path: str, flags: int) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StorageError, match=r"cannot look at what is in .*a: Permission denied"):
        reach(str(tmp_path)).sizes(["a/1"])


def test_what_cannot_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(StorageError, match=r"cannot list .*a.*Permission denied"):
        list(reach(str(tmp_path)).walk(["a"], budget=1))


@given(st.lists(st.lists(st.sampled_from("ab"), min_size=1, max_size=5), max_size=12), st.integers(1, 8))
def test_however_it_is_divided(folders: list[list[str]], budget: int) -> None:
    """Deep, flat and skewed trees: with each budget all files come once."""
    url = f"memory://trees-{os.urandom(6).hex()}"
    paths = {f"{'/'.join(folder)}/f{number}" for number, folder in enumerate(folders)}
    put(url, *paths, "last")
    try:
        files, _ = everything(reach(url), [""], budget=budget)
    finally:
        fsspec.filesystem("memory").rm(url, recursive=True)
    assert sorted(files) == sorted([*paths, "last"])
