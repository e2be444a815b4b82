"""A storage in a real HDFS: blobs that are written once, folders, and a sweep by a plan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tenure.cleanup.applying import Applied, apply_plan
from tenure.cleanup.planning import Target, make_plan
from tenure.cleanup.sweep_plan import SweepPlan
from tenure.clock import SystemClock
from tenure.errors import BlobExists, BlobNotFound, StorageError, UsageError
from tenure.sinks.files.log import FileLog, LoggedFile
from tenure.storage.blobs import FileBlobs
from tenure.storage.hdfs import Hdfs as HdfsStorage
from tenure.storage.reach import reach
from tenure.storage.storage import GONE, REMOVED, Entry, Listed, Rest
from tests.contract.test_s3_sweeps import CLAIMS, NEEDED, ORPHANS
from tests.kit.servers import Hdfs, installed
from tests.kit.silent import Silent, nameservice, silence

pytestmark = pytest.mark.long


SITE = """<configuration>
<property><name>dfs.client.failover.max.attempts</name><value>2</value></property>
</configuration>"""
"""A client asks a server that is away for minutes otherwise."""


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    folder = tmp_path_factory.mktemp("hdfs")
    (folder / "hdfs-site.xml").write_text(SITE)
    with pytest.MonkeyPatch.context() as patch, installed(), Hdfs(folder) as servers:
        patch.setenv("HADOOP_CONF_DIR", str(folder))
        yield servers


@pytest.fixture
def root(hdfs: Hdfs) -> str:
    return f"{hdfs.url}/{os.urandom(6).hex()}/rows"


def put(root: str, *paths: str) -> None:
    place = HdfsStorage(root)
    for path in paths:
        place.fs.makedirs(f"{place.root}/{path}".rpartition("/")[0], exist_ok=True)
        place.fs.pipe_file(f"{place.root}/{path}", b"xyz")


def files(root: str) -> set[str]:
    place = HdfsStorage(root)
    return {path.removeprefix(f"{place.root}/") for path in place.fs.find(place.root)}


def no_spark() -> Any:
    raise AssertionError("a small tree needs no Spark")


def test_a_blob_is_written_once_and_read_and_deleted(root: str) -> None:
    blobs = FileBlobs(root)
    reach(root).check_writable()
    blob = blobs.write("e00000001/a", b"data")
    assert blobs.read(blob) == b"data"
    with pytest.raises(BlobExists):
        blobs.write("e00000001/a", b"other")
    assert blobs.read(blob) == b"data"
    assert blobs.list() == ["e00000001/a"], "nothing else is left there"
    blobs.delete("e00000001/a")
    blobs.delete("e00000001/a")
    with pytest.raises(BlobNotFound):
        blobs.read(blob)


def test_folders_are_listed_and_go(root: str) -> None:
    put(root, "a/b/1", "a/2")
    folders = reach(root)
    assert folders.entries("a") == [Entry("2", folder=False), Entry("b", folder=True)]
    assert folders.entries("none") == ()
    folders.remove_empty("a/b")
    assert folders.entries("a/b") == [Entry("1", folder=False)], "there is something in it"
    folders.remove("a/b/1")
    assert folders.is_empty("a/b")
    folders.remove_empty("a/b")
    assert folders.entries("a") == [Entry("2", folder=False)]
    folders.remove("a")
    folders.remove("a")
    assert not folders.entries()


@pytest.mark.parametrize("budget", [1, 3, 100])
def test_every_file_is_listed_once(root: str, budget: int) -> None:
    put(root, "a/b/c/1", "a/b/2", "a/3", "d/4")
    HdfsStorage(root).fs.makedirs(f"{HdfsStorage(root).root}/a/empty")
    found: list[str] = []
    folders = ["a", "d", "none"]
    while folders:
        listed = list(reach(root).walk(folders, budget=budget))
        found += [path for one in listed if isinstance(one, Listed) for path in one.paths]
        folders = [one.folder for one in listed if isinstance(one, Rest)]
    assert sorted(found) == ["a/3", "a/b/2", "a/b/c/1", "a/empty/", "d/4"]


def test_what_nobody_needs_is_planned_and_removed(hdfs: Hdfs, root: str) -> None:
    put(root, *ORPHANS, *NEEDED)
    HdfsStorage(root).fs.makedirs(f"{HdfsStorage(root).root}/blobs/e00000001/checkpoints/empty")
    plan = SweepPlan(f"{hdfs.url}/plans/{os.urandom(6).hex()}")
    make_plan(
        plan,
        Target("rows", root, lambda: CLAIMS),
        now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
        start_spark=no_spark,
    )
    assert plan.about().bytes == 3 * len(ORPHANS)
    assert files(root) == ORPHANS | NEEDED
    done = apply_plan(plan, storage=root, start_spark=no_spark, clock=SystemClock())
    assert done == Applied(1, 1, len(ORPHANS) + 1, 0, 0)
    assert files(root) == NEEDED
    assert [one.name for one in reach(root).entries("blobs")] == ["e00000003"], "with its folders"
    assert apply_plan(plan, storage=root, start_spark=no_spark, clock=SystemClock()) == done


def test_what_is_gone_is_not_told_to_be_removed(root: str) -> None:
    put(root, "a/1")
    assert [list(reach(root).remove_files(["a/1", "a/2"], clock=SystemClock())) for _ in range(2)] == [
        [(REMOVED, ""), (GONE, "")],
        [(GONE, ""), (GONE, "")],
    ]


def test_a_file_is_copied_to_where_it_is_said(root: str) -> None:
    """hdfs-native itself copies to a path below the working directory."""
    put(f"{root}/old", "state/1.zip")
    assert reach(f"{root}/new").take(reach(f"{root}/old"), "state/1.zip") == 3
    assert reach(f"{root}/new").read("state/1.zip") == b"xyz"
    assert files(root) == {"old/state/1.zip", "new/state/1.zip"}


def test_names_are_taken_as_they_are(root: str) -> None:
    """hdfs-native reads paths as URLs: what is said of a copy would be done to the file itself."""
    odd = ["a/1;copy", "a/1#copy", "a/1?copy", "a/1%41 b"]
    put(root, "a/1", *odd)
    found = [path for one in reach(root).walk(["a"], budget=9) if isinstance(one, Listed) for path in one.paths]
    assert sorted(found) == sorted(["a/1", *odd])
    for path in odd:
        reach(root).remove(path)
    assert files(root) == {"a/1"}


def test_a_folder_that_is_filled_meanwhile_stays(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "a/b/1")
    folders = HdfsStorage(root)
    listed = [[], HdfsStorage(root).fs.ls(f"{HdfsStorage(root).root}/a/b")]
    monkeypatch.setattr(folders.fs, "ls", lambda path: listed.pop(0))
    folders.remove_empty("a/b")
    monkeypatch.undo()
    assert not listed
    assert files(root) == {"a/b/1"}


@pytest.mark.parametrize("url", ["hdfs://host:abc/x", "hdfs:///x"])
def test_a_url_of_no_server_is_told(url: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be used: .*; use hdfs://namenode:8020/path"):
        reach(url)


def test_a_server_that_is_away_is_an_error_of_the_storage(hdfs: Hdfs, root: str) -> None:
    put(root, "a/1")
    hdfs.nodes[0].kill()
    try:
        with pytest.raises(StorageError, match="cannot list") as failed:
            reach(root).entries("a")
        assert "\n" not in str(failed.value)
    finally:
        hdfs.nodes[0].start()
        hdfs.wait_for(0)
        hdfs.wait_for(1)


def test_a_standby_takes_over_from_a_namenode_that_never_answers(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tenure.storage.hdfs_client._SILENT_S", 3)
    with silence() as stack:
        active, service = hdfs.url.removeprefix("hdfs://"), f"N{os.urandom(4).hex()}"
        (tmp_path / "hdfs-site.xml").write_text(nameservice(service, Silent(stack).address, active))
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
        storage = reach(f"hdfs://{service}/pair")
        with pytest.raises(StorageError, match=r"cannot write .*: no answer for 3 s"):
            storage.write("a", b"data")
        storage.write("a", b"data")
        assert storage.read("a") == b"data"
        assert [entry.name for entry in storage.entries()] == ["a"]


@pytest.mark.parametrize("size", [0, 23])
def test_what_is_long_goes_in_pieces(root: str, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Each has its own limit."""
    monkeypatch.setattr("tenure.storage.hdfs_client._PIECE", 4)
    monkeypatch.setattr("tenure.storage.hdfs_client._PAGE", 2)
    storage, data = reach(root), os.urandom(size)
    for number in range(5):
        storage.write(f"a/{number}", data)
    assert sorted(entry.name for entry in storage.entries("a")) == list("01234")
    assert storage.read("a/0") == data
    with storage.open("a/1") as file:
        assert file.read(6) == data[:6]
        assert file.read(0) == b""
        assert file.read() == data[6:]
        assert file.read() == b""
    assert reach(f"{root}/other").take(storage, "a/2") == size
    assert reach(f"{root}/other").read("a/2") == data


def test_a_folder_is_moved_to_a_free_name_at_once(root: str) -> None:
    put(root, "staged/a/part-0", "staged/b/part-0")
    storage = HdfsStorage(root)
    assert storage.move("staged/a", "batch")
    assert files(root) == {"batch/part-0", "staged/b/part-0"}
    assert not storage.move("staged/a", "batch"), "it is not there any more"
    with pytest.raises(StorageError, match="cannot move") as failed:
        storage.move("staged/b", "batch")
    assert "org.apache" not in str(failed.value), "no stack"
    assert files(root) == {"batch/part-0", "staged/b/part-0"}


def test_a_file_log_takes_each_batch_once(root: str) -> None:
    paused, successor = (FileLog(HdfsStorage(root), where=root) for _ in range(2))
    assert (paused.newest, successor.newest) == (-1, -1)
    ours, theirs = ([LoggedFile(f"{root}/{name}", 1, 1)] for name in ("a", "b"))
    assert successor.add(0, ours)
    assert not paused.add(0, theirs)
    assert list(FileLog(HdfsStorage(root), where=root).urls()) == [ours[0].url]
