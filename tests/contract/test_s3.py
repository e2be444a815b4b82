"""Blobs, folders and trees on a real S3 server, and on one that refuses, loses answers and hangs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import MagicMock

import fsspec
import pytest
import s3fs

from tenure.errors import BlobExists, BlobNotFound, StorageError, UsageError
from tenure.sinks.files.log import FileLog, LoggedFile
from tenure.storage import objects
from tenure.storage import objects as listings
from tenure.storage.blobs import Blob, FileBlobs
from tenure.storage.objects import Objects
from tenure.storage.reach import reach
from tenure.storage.s3 import S3
from tenure.storage.storage import Entry, Listed, Rest
from tests.kit.servers import BUCKET, SeaweedFs
from tests.s3 import CUT, DENY, HANG, LOSE, MISSING, PASS, SLOW_DOWN, Gate

DATA = b"data" * 100


@pytest.fixture
def root(gate: Gate) -> str:
    return f"s3://{BUCKET}/{os.urandom(6).hex()}/rows"


def keys(root: str) -> list[str]:
    return [path for page in S3(root).objects.pages("") for path, _ in page]


def put(root: str, *paths: str) -> None:
    place = S3(root)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda path: place.fs.pipe_file(f"{place.root}/{path}", b"xyz"), paths))


def put_marker(root: str, folder: str) -> None:
    place = S3(root)
    bucket, _, prefix = place.root.partition("/")
    place.fs.call_s3("put_object", Bucket=bucket, Key=f"{prefix}/{folder}/", Body=b"")


# --- blobs ----------------------------------------------------------------------------------------------------------


def test_a_blob_is_written_once_and_read_and_deleted(root: str) -> None:
    blobs = FileBlobs(root)
    reach(root).check_writable()
    blob = blobs.write("e00000001/area/name", DATA)
    assert blobs.read(blob) == DATA
    for data in (DATA, b"other"):
        with pytest.raises(BlobExists, match="name exists already"):
            blobs.write("e00000001/area/name", data)
    assert blobs.read(blob) == DATA
    assert list(blobs.list()) == ["e00000001/area/name"]
    blobs.delete(blob.address)
    blobs.delete(blob.address)
    assert list(blobs.list()) == []
    with pytest.raises(BlobNotFound):
        blobs.read(blob)


def test_of_two_who_write_one_wins(root: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        tried = [pool.submit(FileBlobs(root).write, "one", f"{number}".encode()) for number in range(8)]
    won = [one.result() for one in tried if one.exception() is None]
    assert len(won) == 1
    assert all(isinstance(one.exception(), StorageError) for one in tried if one.exception() is not None)
    FileBlobs(root).read(won[0])


def test_what_another_process_wrote_is_seen_though_it_was_not_there_before(root: str, seaweedfs: SeaweedFs) -> None:
    """A client that keeps listings would say of a new checkpoint that it is lost."""
    blobs = FileBlobs(root)
    blobs.write("a/first", b"x")
    assert reach(root).entries("a") == [Entry("first", False)]
    assert reach(root).entries("b") == ()
    other = fsspec.filesystem("s3", endpoint_url=seaweedfs.url, skip_instance_cache=True)
    for path in ("a/second", "b/third"):
        other.pipe_file(f"{S3(root).root}/{path}", b"x")
    assert reach(root).entries("a") == [Entry("first", False), Entry("second", False)]
    assert reach(root).entries("b") == [Entry("third", False)]
    assert blobs.read(Blob("a/second", 1, hashlib.sha256(b"x").hexdigest())) == b"x"
    assert list(blobs.list()) == ["a/first", "a/second", "b/third"]


def test_a_write_whose_answer_is_lost_is_written_once_and_known_as_one_s_own(root: str, gate: Gate) -> None:
    """s3fs sends it again, which the server refuses."""
    blobs = FileBlobs(root)
    gate.rule = lambda method, path: LOSE if method == "PUT" and not gate.became(LOSE) else PASS
    blob = blobs.write("a", DATA)
    assert gate.became(LOSE) == 1
    assert [method for method, _, _ in gate.seen].count("PUT") == 2
    assert blobs.read(blob) == DATA
    with pytest.raises(BlobExists):
        blobs.write("a", DATA)


@pytest.mark.parametrize("what", [SLOW_DOWN, HANG])
def test_a_server_that_is_busy_for_a_moment_is_asked_again(root: str, gate: Gate, what: str) -> None:
    blobs = FileBlobs(root)
    gate.rule = lambda method, path: what if method == "PUT" and gate.became(what) < 2 else PASS
    assert blobs.read(blobs.write("a", DATA)) == DATA
    assert gate.became(what) == 2


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (DENY, "of the gate|Forbidden"),
        (SLOW_DOWN, "of the gate|Service Unavailable|reduce"),
        (LOSE, "closed"),
        (CUT, "payload|closed"),
        (HANG, "timeout"),
    ],
)
def test_a_server_that_does_not_do_it_is_an_error_of_the_storage(
    root: str, gate: Gate, monkeypatch: pytest.MonkeyPatch, what: str, says: str
) -> None:
    blobs, folders = FileBlobs(root), reach(root)
    blob = blobs.write("a/b", DATA)
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 2)
    gate.rule = lambda method, path: what
    calls: tuple[Callable[[], object], ...] = (
        lambda: blobs.read(blob),
        lambda: folders.remove("a"),
        lambda: blobs.write("new", DATA),
        lambda: list(blobs.list()),
        lambda: folders.entries("a"),
        lambda: list(reach(root).walk([""], budget=9)),
    )
    for call in calls if what in (DENY, SLOW_DOWN, LOSE) else calls[:2]:
        with pytest.raises(StorageError, match=rf"(?i)^cannot \w+ .*({says})"):
            call()
    gate.rule = lambda method, path: PASS
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 5)
    if what != LOSE:
        assert blobs.read(blob) == DATA


def test_a_bucket_that_is_not_there_is_told(root: str, gate: Gate) -> None:
    gate.rule = lambda method, path: MISSING
    with pytest.raises(StorageError, match=r"cannot write .*/rows/a: .*; make that folder or bucket"):
        FileBlobs(root).write("a", DATA)


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*positional: object, **named: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", refuse)
    with pytest.raises(UsageError, match=r"storage 's3://bucket/x' .*Install s3fs.*pip install '\.\[s3\]'"):
        FileBlobs("s3://bucket/x")


def test_other_file_systems_are_not_asked_for_what_they_do_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def url_to_fs(url: str, **named: object) -> tuple[object, str]:
        asked.append(named)
        return object(), "/x"

    monkeypatch.setattr(fsspec.core, "url_to_fs", url_to_fs)
    assert reach("sftp://host/x").errors == (OSError,)
    assert asked == [{}]


# --- folders --------------------------------------------------------------------------------------------------------


def test_a_folder_goes_with_all_that_is_in_it_and_with_what_stands_for_it(root: str) -> None:
    put(root, "runs/q/e1/offsets/0", "runs/q/e1/state/0/0/1.zip", "runs/q/e10/offsets/0", "kept")
    put_marker(root, "runs/q/e1")
    put_marker(root, "runs/q/e1/empty/below")
    folders = reach(root)
    assert folders.entries("runs/q") == [Entry("e1", True), Entry("e10", True)]
    folders.remove("runs/q/e1")
    folders.remove("runs/q/e1")
    assert folders.entries("runs/q") == [Entry("e10", True)]
    assert keys(root) == ["kept", "runs/q/e10/offsets/0"]
    folders.remove("kept")
    assert keys(root) == ["runs/q/e10/offsets/0"]


def test_what_stands_for_a_folder_goes_when_nothing_else_is_there(root: str) -> None:
    put(root, "a/b/1")
    put_marker(root, "a/b")
    folders = reach(root)
    folders.remove_empty("a/b")
    assert keys(root) == ["a/b/", "a/b/1"]
    folders.remove("a/b/1")
    folders.remove_empty("a/b")
    assert keys(root) == []
    assert not folders.entries("a")


def test_more_objects_than_a_call_takes_go(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "AT_ONCE", 10)
    put(root, *(f"a/{number:04d}" for number in range(25)))
    reach(root).remove("a")
    assert keys(root) == []


def test_objects_that_may_not_be_deleted_are_told(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "a/1", "a/2")
    monkeypatch.setattr(Objects, "delete", lambda self, paths: dict.fromkeys(paths, ("AccessDenied", "not yours")))
    with pytest.raises(StorageError, match=r"objects in it stay; a/1: AccessDenied not yours"):
        reach(root).remove("a")


@pytest.mark.parametrize("name", ["a b", "a%20b", "a+b", "a&b<c>", "ä", "a\nb", "a\x01b", "a\ufffeb"])
def test_objects_with_odd_names_are_listed_and_go(root: str, name: str) -> None:
    """One of them may not keep the others: what XML cannot carry is deleted by itself."""
    put(root, f"a/{name}", "a/plain")
    assert sorted(keys(root)) == sorted([f"a/{name}", "a/plain"])
    reach(root).remove("a")
    assert keys(root) == []


def test_a_page_with_nothing_in_it_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 may answer so after many deletions."""
    pages = [
        {"IsTruncated": True, "NextContinuationToken": "more"},
        {"IsTruncated": False, "Contents": [{"Key": "x/a", "Size": 3}]},
    ]
    asked: list[dict[str, object]] = []

    class Fs:
        s3 = MagicMock()

        def connect(self) -> None: ...

        def call_s3(self, method: str, **named: object) -> dict[str, object]:
            asked.append(named)
            return pages[len(asked) - 1]

    found = list(Objects(Fs(), "bucket/x").pages(""))
    assert found == [[], [("a", 3)]]
    assert asked[1]["ContinuationToken"] == "more"


def test_a_page_is_read_as_its_client_would_read_it(root: str) -> None:
    """Whoever else uses the client sees whole answers."""
    put(root, "a/1", "a/b c+d%25e&f", "a/é", "b")
    place = S3(root)
    (quick,) = place.objects.pages("a")
    bucket, _, prefix = place.root.partition("/")
    page = place.fs.call_s3("list_objects_v2", Bucket=bucket, Prefix=f"{prefix}/a/")
    assert [(f"{prefix}/{path}", size) for path, size in quick] == [
        (one["Key"], one["Size"]) for one in page["Contents"]
    ]
    assert page["Contents"][0]["LastModified"] is not None


def test_a_client_that_is_taught_twice_reads_its_pages(root: str) -> None:
    """All threads of a process share one client, and its first listings may come at once."""
    put(root, "a/1")
    place = S3(root)
    assert [path for page in place.objects.pages("a") for path, _ in page] == ["a/1"]
    place.fs.s3.meta.events.register("before-parse.s3.ListObjectsV2", listings._read_page)
    assert [path for page in place.objects.pages("a") for path, _ in page] == ["a/1"]


# --- trees ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["{:04d}", "{:x}", "n{}/x", "{0} é{0}"])
def test_a_folder_of_many_objects_is_listed_page_by_page(root: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(objects, "AT_ONCE", 10)
    wanted = [f"blobs/{name.format(number)}" for number in range(150)]
    put(root, *wanted)
    found = list(reach(root).walk(["blobs"], budget=30))
    assert all(isinstance(one, Listed) and len(one.names) <= 10 for one in found)
    assert sorted(path for one in found if isinstance(one, Listed) for path in one.paths) == sorted(wanted)


@pytest.mark.parametrize("budget", [1, 9, 10_000])
def test_every_object_is_listed_once_page_by_page(root: str, monkeypatch: pytest.MonkeyPatch, budget: int) -> None:
    monkeypatch.setattr(objects, "AT_ONCE", 10)
    wanted = [f"blobs/{number:04d}" for number in range(25)]
    wanted += [f"blobs/{name}/{number}" for name in ("a-b", "a.b", "0", "é x", "a%b", "z") for number in range(3)]
    wanted += ["blobs/a/1", "blobs/a/b/2", "blobs.not"]
    put(root, *wanted, "runs/q/1")
    put_marker(root, "blobs")
    put_marker(root, "blobs/a/empty")
    found: dict[str, int] = {}
    folders, rounds = ["blobs", "runs"], 0
    while folders:
        rounds += 1
        listed = list(reach(root).walk(folders, budget=budget))
        for one in listed:
            if isinstance(one, Listed):
                assert one.sizes is not None
                assert not found.keys() & set(one.paths)
                found.update(zip(one.paths, one.sizes, strict=True))
        folders = [one.folder for one in listed if isinstance(one, Rest)]
    assert found == {**dict.fromkeys([*wanted[:-1], "runs/q/1"], 3), "blobs/a/empty/": 0}
    assert (rounds == 1) is (budget == 10_000)


# --- the log of a folder of plain files ---------------------------------------------------------------------------


@pytest.mark.parametrize("what", [PASS, LOSE])
def test_a_file_log_takes_each_batch_once(gate: Gate, root: str, what: str) -> None:
    paused, successor = (FileLog(S3(root), where=root) for _ in range(2))
    assert (paused.newest, successor.newest) == (-1, -1)
    gate.rule = lambda method, path: what if method == "PUT" and gate.became(LOSE) == 0 else PASS
    ours, theirs = ([LoggedFile(f"{root}/{name}", 1, 1)] for name in ("a", "b"))
    assert successor.add(0, ours)
    assert not paused.add(0, theirs)
    assert list(FileLog(S3(root), where=root).urls()) == [ours[0].url]


def test_an_object_store_has_no_folder_to_move(gate: Gate, root: str) -> None:
    put(root, "a/x")
    with pytest.raises(StorageError, match="cannot move"):
        S3(root).move("a", "b")
