"""What is long is asked of HDFS in pieces, since each call has a limit: files, and the listing of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tenure.errors import StorageError
from tenure.storage.reach import reach

PIECE = 4
PAGE = 2


class RawHdfs:
    """What hdfs-native's own client does, in memory. A call that is asked for more than a piece fails."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.lost = 0
        """Bytes that each file is longer than what is read of it."""

    def create(self, path: str, _options: object) -> Any:
        self.files[path] = b""

        def write(data: bytes) -> int:
            assert 0 < len(data) <= PIECE
            self.files[path] += data
            return len(data)

        return SimpleNamespace(write=write, close=lambda: None)

    def read(self, path: str) -> Any:
        data, at = self.files[path], 0

        def read(length: int) -> bytes:
            nonlocal at
            assert 0 < length <= PIECE
            at += length
            return data[at - length : at]

        return SimpleNamespace(read=read, file_length=lambda: len(data) + self.lost, tell=lambda: at, seek=None)

    def rename(self, path: str, to: str, _overwrite: bool) -> None:
        self.files[to] = self.files.pop(path)

    def list_status(self, folder: str, _recursive: bool) -> Iterator[Any]:
        for path in sorted(self.files):
            if path.startswith(f"{folder}/"):
                yield SimpleNamespace(
                    path=path,
                    length=len(self.files[path]),
                    isdir=False,
                    **dict.fromkeys(("permission", "owner", "group", "modification_time", "access_time")),
                )


@pytest.fixture
def raw() -> RawHdfs:
    return RawHdfs()


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch, raw: RawHdfs) -> str:
    monkeypatch.setattr("tenure.storage.hdfs_client._PIECE", PIECE)
    monkeypatch.setattr("tenure.storage.hdfs_client._PAGE", PAGE)
    monkeypatch.setattr("hdfs_native.RawClient", lambda *_: raw)
    return f"hdfs://n{os.urandom(4).hex()}:1/ha"  # a process keeps its client of an authority


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 2 * PIECE, 23])
def test_a_file_is_written_and_read_in_pieces(root: str, size: int) -> None:
    storage, data = reach(root), os.urandom(size)
    storage.write("a", data)
    assert storage.read("a") == data
    with storage.open("a") as file:
        assert (file.read(6), file.read(0), file.read(), file.read()) == (data[:6], b"", data[6:], b"")


def test_a_file_that_ends_before_its_length_is_an_error(root: str, raw: RawHdfs) -> None:
    storage = reach(root)
    storage.write("a", b"data")
    raw.lost = 3
    with pytest.raises(StorageError, match="the file ends 3 bytes early"):
        storage.read("a")


@pytest.mark.parametrize("files", [0, 1, PAGE, 2 * PAGE + 1])
def test_a_folder_is_listed_in_pages(root: str, files: int) -> None:
    storage = reach(root)
    for number in range(files):
        storage.write(f"a/{number}", b"x")
    assert sorted(entry.name for entry in storage.entries("a")) == [str(number) for number in range(files)]
