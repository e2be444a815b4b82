"""Blobs on a disk and in an object store: written once, whole and durable, or not at all (S6)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from tenure.errors import BlobExists, BlobNotFound, CorruptBlob, StorageError, UsageError
from tenure.storage.blobs import Blob, FileBlobs
from tenure.storage.remote import Remote
from tests.kit.waiting import NEVER_S

DATA = b"data" * 100
ADDRESS = "e00000001/area/name"


@pytest.fixture(params=["disk", "remote"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileBlobs]:
    if request.param == "disk":
        yield FileBlobs(f"file://{tmp_path}/blobs")
        return
    root = f"memory:/{tmp_path}"
    yield FileBlobs(root)
    remote = Remote(root)
    remote.fs.rm(remote.root, recursive=True) if remote.fs.exists(remote.root) else None


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


# --- the contract, on both ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"x", DATA, os.urandom(300_000)])
def test_what_was_written_is_read(blobs: FileBlobs, data: bytes) -> None:
    blob = blobs.write(ADDRESS, data)
    assert blob == Blob(ADDRESS, len(data), hashlib.sha256(data).hexdigest())
    assert blobs.read(blob) == data
    assert list(blobs.list()) == [ADDRESS]


def test_a_blob_is_written_once(blobs: FileBlobs) -> None:
    blob = blobs.write(ADDRESS, DATA)
    for data in (DATA, b"other"):
        with pytest.raises(BlobExists, match="name exists already"):
            blobs.write(ADDRESS, data)
    assert blobs.read(blob) == DATA


def test_what_is_missing_is_not_found(blobs: FileBlobs) -> None:
    with pytest.raises(BlobNotFound):
        blobs.read(Blob(ADDRESS, 1, "0"))
    assert list(blobs.list()) == []
    assert list(blobs.list("e00000001")) == []
    blobs.delete(ADDRESS)


def test_deleting_twice_is_fine(blobs: FileBlobs) -> None:
    blob = blobs.write(ADDRESS, DATA)
    blobs.delete(ADDRESS)
    blobs.delete(ADDRESS)
    assert list(blobs.list()) == []
    with pytest.raises(BlobNotFound):
        blobs.read(blob)


@pytest.mark.parametrize("wrong", [Blob(ADDRESS, 399, ""), Blob(ADDRESS, 400, "0" * 64)])
def test_a_wrong_size_or_checksum_is_loud(blobs: FileBlobs, wrong: Blob) -> None:
    blobs.write(ADDRESS, DATA)
    with pytest.raises(CorruptBlob, match="name"):
        blobs.read(wrong)


def test_listings_are_sorted_and_of_one_prefix(blobs: FileBlobs) -> None:
    for address in ("e2/a/x", "e1/b/x", "e1/a/y", "e1/a/x", "e10/a/x"):
        blobs.write(address, DATA)
    assert list(blobs.list()) == ["e1/a/x", "e1/a/y", "e1/b/x", "e10/a/x", "e2/a/x"]
    assert list(blobs.list("e1")) == ["e1/a/x", "e1/a/y", "e1/b/x"]
    assert list(blobs.list("e1/a")) == ["e1/a/x", "e1/a/y"]


@pytest.mark.parametrize(
    "address", ["", "/", "/etc/passwd", "..", "../x", "a/../b", "a/..", "a//b", "a/", ".", "a/./b", "a\0b", "file:///x"]
)
def test_an_address_outside_is_refused(blobs: FileBlobs, address: str) -> None:
    for call in (
        lambda: blobs.write(address, DATA),
        lambda: blobs.read(Blob(address, 1, "")),
        lambda: blobs.delete(address),
    ):
        with pytest.raises(UsageError, match="not a relative path of names"):
            call()


@pytest.mark.parametrize("prefix", ["..", "../other", "/etc", "a/../.."])
def test_a_listing_outside_is_refused(blobs: FileBlobs, prefix: str) -> None:
    with pytest.raises(UsageError, match="not a relative path of names"):
        blobs.list(prefix)


def test_a_root_with_a_slash_at_its_end_is_the_same_root(tmp_path: Path) -> None:
    FileBlobs(f"{tmp_path}/blobs/").write(ADDRESS, DATA)
    assert list(FileBlobs(f"{tmp_path}/blobs").list()) == [ADDRESS]


def test_an_unknown_scheme_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="nosuch://x"):
        FileBlobs("nosuch://x")


def test_the_constructor_does_no_io(tmp_path: Path) -> None:
    FileBlobs(str(tmp_path / "absent"))
    assert not (tmp_path / "absent").exists()


# --- races -----------------------------------------------------------------------------------------------------------


def test_elsewhere_the_server_is_asked_to_refuse_what_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = FileBlobs("memory://attack")
    asked: list[dict[str, object]] = []
    monkeypatch.setattr(Remote("memory://attack").fs, "pipe_file", lambda path, data, **more: asked.append(more))
    blobs.write(ADDRESS, DATA)
    assert asked == [{"mode": "create"}]


def write_at_once(blobs: FileBlobs, number: int) -> tuple[list[Blob], list[StorageError]]:
    """So many threads write one address: what they got."""
    barrier = threading.Barrier(number)
    won: list[Blob] = []
    lost: list[StorageError] = []

    def write(own: int) -> None:
        barrier.wait(NEVER_S)
        try:
            won.append(blobs.write(ADDRESS, b"%d" % own * 1000))
        except BlobExists as error:
            lost.append(error)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    return won, lost


def test_of_twenty_writers_of_one_address_one_wins(tmp_path: Path) -> None:
    for round_ in range(10):
        blobs = FileBlobs(str(tmp_path / str(round_)))
        won, lost = write_at_once(blobs, 20)
        assert (len(won), len(lost)) == (1, 19)
        blobs.read(won[0])
        assert files(tmp_path / str(round_)) == [ADDRESS], "no temporary file is left"


# --- crashes, and the order of the calls to the kernel ----------------------------------------------------------------


class Died(BaseException):
    """The process ended here."""


CALLS = ("open", "fsync", "link", "unlink", "mkdir")


class Trace:
    """Writes down what the blob store asks of `os`; dies at the chosen call, and stays dead."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, str]] = []
        self.synced: set[int] = set()
        """The inodes of what is durable."""
        self.die_at: int | None = None
        self.dead = False
        for name in CALLS:
            patch.setattr(os, name, self._traced(name, getattr(os, name)))

    def _traced(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            if self.dead or self.die_at == len(self.made):
                self.dead = True
                raise Died
            what = (
                os.readlink(f"/proc/self/fd/{args[0]}")
                if name == "fsync"
                else str(args[-1] if name == "link" else args[0])
            )
            self.made.append((name, what))
            if name == "fsync":
                self.synced.add(os.fstat(args[0]).st_ino)
            return real(*args, **more)

        return call


def trace_of(root: Path, patch: pytest.MonkeyPatch, die_at: int | None = None) -> Trace:
    with patch.context() as inner:
        trace = Trace(inner)
        trace.die_at = die_at
        if die_at is None:
            FileBlobs(str(root)).write(ADDRESS, DATA)
        else:
            with pytest.raises(Died):
                FileBlobs(str(root)).write(ADDRESS, DATA)
    return trace


def test_the_bytes_are_durable_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trace_of(tmp_path / "r", monkeypatch).made
    final, directory = str(tmp_path / "r" / ADDRESS), str((tmp_path / "r" / ADDRESS).parent)
    named = made.index(("link", final))
    synced = [n for n, (name, path) in enumerate(made) if name == "fsync" and path.startswith(f"{directory}/.")]
    assert len(synced) == 1
    assert synced[0] < named, "the bytes first, then the name"
    assert made.index(("fsync", directory)) > named, "then the directory that holds the name"


def test_new_directories_are_durable_in_their_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trace_of(tmp_path / "r", monkeypatch).made
    directories = [path for name, path in made if name == "mkdir"]
    assert directories == [str(tmp_path / path) for path in ("r", "r/e00000001", "r/e00000001/area")]
    for directory in directories:
        after = made.index(("mkdir", directory))
        assert ("fsync", os.path.dirname(directory)) in made[after:]


def lose_what_is_not_durable(root: Path, trace: Trace) -> None:
    """The machine died, too: of a file that was not synced its name is left, at best."""
    for path in root.rglob("*"):
        if path.is_file() and path.stat().st_ino not in trace.synced:
            os.truncate(path, 0)


def test_a_crash_at_any_call_leaves_nothing_or_the_whole_blob(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trace_of(tmp_path / "whole", monkeypatch).made
    assert len(whole) > 8
    for k in range(len(whole)):
        root = tmp_path / str(k)
        lose_what_is_not_durable(root, trace_of(root, monkeypatch, die_at=k))
        blobs = FileBlobs(str(root))
        listed = list(blobs.list())
        assert listed in ([], [ADDRESS]), "a part is never listed"
        if listed:
            assert blobs.read(Blob(ADDRESS, len(DATA), hashlib.sha256(DATA).hexdigest())) == DATA
        else:
            assert blobs.write(ADDRESS, DATA).size == len(DATA), "the next writer is not in its way"


# --- the disk says no --------------------------------------------------------------------------------


@contextmanager
def mounted(directory: Path, options: str) -> Iterator[Path]:
    """A small file system; only root may have one."""
    directory.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small file system")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no mount here: {made.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_a_full_disk_is_a_storage_error_and_leaves_nothing(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=64k") as root:
        blobs = FileBlobs(str(root))
        kept = blobs.write("first", b"x" * 20_000)
        with pytest.raises(StorageError, match="No space left on device; free space on that disk"):
            blobs.write(ADDRESS, b"x" * 100_000)
        assert files(root) == ["first"]
        assert blobs.read(kept) == b"x" * 20_000
        blobs.write(ADDRESS, b"x" * 20_000)


def test_a_disk_without_inodes_is_a_storage_error(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=1m,nr_inodes=4") as root:
        blobs = FileBlobs(str(root))
        with pytest.raises(StorageError, match="No space left"):
            blobs.write("a/b/c/d/e", DATA)
        assert files(root) == []


def test_a_read_only_disk_is_a_storage_error(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "size=64k") as root:
        blobs = FileBlobs(str(root))
        blob = blobs.write(ADDRESS, DATA)
        subprocess.run(["mount", "-o", "remount,ro", str(root)], check=True)
        for write in (lambda: blobs.write("e00000001/area/other", DATA), lambda: blobs.delete(ADDRESS)):
            with pytest.raises(StorageError, match="Read-only file system; mount it writable"):
                write()
        assert blobs.read(blob) == DATA


def test_a_file_where_a_directory_should_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "e00000001").write_text("in the way")
    blobs = FileBlobs(str(tmp_path))
    with pytest.raises(StorageError):
        blobs.write(ADDRESS, DATA)
    with pytest.raises((StorageError, BlobNotFound)):
        blobs.read(Blob(ADDRESS, 1, ""))


def test_a_directory_where_the_blob_should_be_is_a_storage_error(tmp_path: Path) -> None:
    blobs = FileBlobs(str(tmp_path))
    (tmp_path / ADDRESS).mkdir(parents=True)
    with pytest.raises(StorageError):
        blobs.write(ADDRESS, DATA)
    with pytest.raises(StorageError):
        blobs.read(Blob(ADDRESS, 1, ""))
    assert list(blobs.list()) == []


@pytest.mark.parametrize("method", ["cat_file", "ls", "rm_file", "pipe_file"])
def test_every_failure_of_the_object_store_is_a_storage_error(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    blobs = FileBlobs("memory://attack")

    monkeypatch.setattr(Remote("memory://attack").fs, method, Mock(side_effect=OSError("503 Slow Down")))
    calls: dict[str, Callable[[], object]] = {
        "cat_file": lambda: blobs.read(Blob(ADDRESS, 1, "")),
        "ls": blobs.list,
        "rm_file": lambda: blobs.delete(ADDRESS),
        "pipe_file": lambda: blobs.write(ADDRESS, DATA),
    }
    with pytest.raises(StorageError, match="503 Slow Down"):
        calls[method]()


@pytest.mark.parametrize("address", ["e1/area/.0123456789abcdef-x", "e1/.0123456789abcdef-a/x"])
def test_a_blob_cannot_be_named_like_a_temporary_file(address: str, tmp_path: Path) -> None:
    """It would be written and never listed, so no sweep could find it."""
    with pytest.raises(UsageError, match="not a relative path of names"):
        FileBlobs(str(tmp_path)).write(address, DATA)
