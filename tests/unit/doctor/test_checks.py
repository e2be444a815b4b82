"""A doctor on a file of SQLite and a folder, without Spark: each fault that can be put there has its line."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from tenure.agent.condition import Condition
from tenure.agent.metrics import Metrics
from tenure.agent.probes import ProbeServer
from tenure.agent.rings import Rings
from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity, State
from tenure.coordination.election import Election
from tenure.coordination.examination import Grade, Remark
from tenure.coordination.held_term import held
from tenure.coordination.records import Key, Scope
from tenure.coordination.session import SessionKeeper
from tenure.doctor import of_store
from tenure.doctor.checks import CHECKS
from tenure.events import Swept
from tenure.scope_context import ScopeContext
from tests.kit.memory import MemoryServer, MemoryStore
from tests.support.doctor import bad, lines_of

NOT_MADE = "not made: "


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Java that names its version and no more."""
    return a_java(tmp_path, "17.0.9", monkeypatch)


def a_java(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = folder / "java" / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2030-01-01' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder / "java"))
    return program


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    """A store that is there, and a storage."""
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.read(Scope("rows"), Key("none"))
    storage = tmp_path / "storage"
    storage.mkdir()
    return {"store": f"sqlite://{tmp_path}/store.db", "storage": f"file://{storage}", "scope": "rows"}


def test_a_place_that_is_right_and_stays_as_it_was(settings: dict[str, Any], tmp_path: Path) -> None:
    lines = lines_of(**settings)
    assert list(lines) == [check.name for check in CHECKS]
    assert bad(lines) == []
    not_made = [check for check, (first, *_) in lines.items() if first.seen.startswith(NOT_MADE)]
    assert not_made == [
        *("master", "http", "pipeline", "clocks", "scrapes", "orphans"),
        *("declaration", "targets", "executors", "rehearsal"),
    ]
    assert list((tmp_path / "storage").iterdir()) == []
    with closing(SqliteStore(tmp_path / "store.db")) as store:
        assert store.scopes() == []


def test_a_check_without_its_setting_says_so() -> None:
    lines = lines_of()
    assert bad(lines) == []
    assert lines["store"] == [Remark(Grade.NOTE, f"{NOT_MADE}no --store is given")]
    assert lines["storage"] == [Remark(Grade.NOTE, f"{NOT_MADE}no --storage is given")]
    assert lines["commits"] == [Remark(Grade.NOTE, f"{NOT_MADE}it needs check 'store'")]
    assert lines["pipeline"] == [Remark(Grade.NOTE, f"{NOT_MADE}no --for PIPELINE.py is given")]


def test_a_store_that_the_first_member_makes_is_not_made(tmp_path: Path) -> None:
    (line,) = lines_of(store=f"sqlite://{tmp_path}/store.db")["store"]
    assert line.grade is Grade.NOTE
    assert line.seen.endswith("store.db does not exist, but its directory does: the first member makes it")
    assert not (tmp_path / "store.db").exists()


def test_a_store_whose_folder_is_not_there(tmp_path: Path) -> None:
    (line,) = lines_of(store=f"sqlite://{tmp_path}/no/store.db")["store"]
    assert line == Remark(
        Grade.BAD,
        f"store {tmp_path}/no/store.db does not exist, nor does its directory {tmp_path}/no",
        "a member does not start: exit code 2 or 4",
        "check the path, and that its volume is mounted",
    )


# --- this host --------------------------------------------------------------------------------------------------------


def test_no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", "/nowhere")
    (line,) = lines_of()["java"]
    assert (line.grade, line.seen) == (
        Grade.BAD,
        "Spark finds no Java: JAVA_HOME is not set, and no java is in PATH",
    )
    assert line.mend.startswith("install Java 17 or newer")


def test_a_java_home_without_a_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    (line,) = lines_of()["java"]
    assert (line.grade, line.seen) == (Grade.BAD, "Spark finds no Java: /nowhere/bin/java is not there")


@pytest.mark.parametrize(("version", "major"), [("11.0.21", 11), ("1.8.0_392", 8)])
def test_a_java_that_is_too_old_for_the_spark(
    tmp_path: Path, version: str, major: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_java(tmp_path, version, monkeypatch)
    (line,) = lines_of()["java"]
    assert line.grade is Grade.BAD
    assert line.seen.endswith(f", and this is Java {major}")
    assert line.means == "a driver does not start: exit code 2"
    assert line.mend.startswith("set JAVA_HOME to Java 17")


def test_a_java_that_does_not_start(java: Path) -> None:
    java.write_text("#!/bin/sh\nexit 3\n")
    (line,) = lines_of()["java"]
    assert (line.grade, line.seen) == (Grade.BAD, f"{java} does not name its version (exit code 3)")


def test_a_spark_home_without_a_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    lines = lines_of()
    assert bad(lines) == ["python"]
    assert lines["java"] == [Remark(Grade.NOTE, f"{NOT_MADE}it needs check 'python'")]


def test_a_flag_that_no_member_would_take(settings: dict[str, Any]) -> None:
    (line,) = lines_of(**settings, submit="--deploy-mode cluster")["settings"]
    assert (line.grade, line.seen) == (Grade.BAD, "--deploy-mode in --submit is refused")


@pytest.mark.filterwarnings("ignore")
def test_a_password_that_lists_of_processes_show() -> None:
    first, *_ = lines_of(store="etcd://ann:secret@127.0.0.1:1")["settings"]
    assert first.grade is Grade.WARN
    assert first.seen == "store URL 'etcd://ann:***@127.0.0.1:1' has a password"


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (line,) = lines_of(http=address)["http"]
    assert line.grade is Grade.BAD
    assert line.seen == f"--http '{address}' cannot be listened at: Address already in use"
    assert line.mend == "give a free address"


# --- the storage ------------------------------------------------------------------------------------------------------


class Careless(MemoryFileSystem):  # type: ignore[misc] # fsspec ships no type information
    """An object store that ignores the condition of a put."""

    protocol = "careless"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        super().pipe_file(path, value, mode="overwrite", **kwargs)


class ReadOnly(MemoryFileSystem):  # type: ignore[misc] # fsspec ships no type information
    """A file system that is mounted for reading."""

    protocol = "readonly"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        raise OSError(30, os.strerror(30), path)


@pytest.fixture
def odd_storages() -> Iterator[None]:
    for kind in (Careless, ReadOnly):
        fsspec.register_implementation(kind.protocol, kind, clobber=True)
    yield
    for kind in (Careless, ReadOnly):
        _registry.pop(kind.protocol, None)


@pytest.mark.usefixtures("odd_storages")
def test_a_storage_without_exclusive_create() -> None:
    lines = lines_of(storage="careless://bucket/x")
    assert bad(lines) == ["storage"]
    assert lines["storage"][-1] == Remark(
        Grade.BAD,
        "the storage creates no file exclusively: a second write replaced the first",
        "two leaders would write one blob, and a checkpoint would name the bytes of the other",
        "use a storage with conditional puts (S3: If-None-Match), or a disk with hard links",
    )
    assert not any("first" in path or "race" in path for path in Careless.store)


@pytest.mark.usefixtures("odd_storages")
def test_a_storage_that_is_read_only() -> None:
    (line,) = lines_of(storage="readonly://bucket/x")["storage"]
    assert line.grade is Grade.BAD
    assert line.seen.startswith("cannot write readonly://bucket/x/tenure-doctor/")
    assert line.seen.endswith(": Read-only file system")
    assert (line.means, line.mend) == ("no batch can be written: exit code 6", "mount it writable")


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    lines = lines_of(storage=f"file://{tmp_path}/file/storage")
    assert lines["storage"][0].grade is Grade.BAD
    assert lines["storage"][0].seen.endswith("Not a directory")


def test_a_disk_that_is_full(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real, full = os.statvfs, str(settings["storage"]).removeprefix("file://")

    def statvfs(path: str) -> os.statvfs_result:
        found = list(real(path))
        if path == full:
            found[4] = 3  # f_bavail
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", statvfs)
    lines = lines_of(**settings)
    assert bad(lines) == ["space"]
    assert lines["space"][0].seen.startswith(f"the storage {full}: 12.0 KiB of ")
    assert lines["space"][0].seen.endswith("free: it is full")


def test_a_disk_without_room_for_another_file(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs

    def statvfs(path: str) -> os.statvfs_result:
        found = list(real(path))
        found[5], found[7] = 1_000_000, 0  # f_files, f_favail
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", statvfs)
    assert bad(lines_of(**settings)) == ["tmpdir", "space"]


def test_a_storage_of_another_store(settings: dict[str, Any], tmp_path: Path) -> None:
    clock, scope = SystemClock(), Scope("rows")
    with closing(SqliteStore(tmp_path / "other.db")) as other:
        context = ScopeContext(other, scope, f"{settings['storage']}/rows", clock)
        with held(
            other, scope, Identity("zoe", "here", 7), ttl=timedelta(seconds=20), timeout=None, clock=clock
        ) as term:
            context.owner().own(term)
    (line,) = lines_of(**settings)["owner"]
    assert (line.grade, line.means) == (Grade.BAD, "a member ends at once: exit code 11")


# --- the store --------------------------------------------------------------------------------------------------------


def test_a_store_that_does_not_judge_guards(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Unfenced(SqliteStore):
        def commit(self, scope: Scope, *, guards: Any, writes: Any) -> Any:
            return super().commit(scope, guards=(), writes=writes)

    path = str(settings["store"]).removeprefix("sqlite://")
    monkeypatch.setattr(of_store, "scope_store", lambda *args, **named: Unfenced(path))
    lines = lines_of(**settings)
    assert bad(lines) == ["commits"]
    assert lines["commits"][-1].seen == "the store took a commit under the guard of a version that was replaced"


def test_a_store_that_cannot_be_examined(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server = MemoryServer()
    monkeypatch.setattr(of_store, "scope_store", lambda *args, **named: MemoryStore(server))
    lines = lines_of(**settings)
    assert bad(lines) == []
    assert lines["servers"] == [Remark(Grade.NOTE, f"{NOT_MADE}store memory says nothing of itself")]


def test_masters_that_do_not_listen(settings: dict[str, Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.socket() as absent:
        absent.bind(("127.0.0.1", 0))  # and does not listen
        up, away = (f"127.0.0.1:{one.getsockname()[1]}" for one in (there, absent))
        grades = {
            master: lines_of(**settings, master=f"spark://{master}")["master"][0].grade
            for master in (up, f"{up},{away}", away, "nowhere")
        }
    assert list(grades.values()) == [Grade.OK, Grade.WARN, Grade.BAD, Grade.BAD]
    (line,) = lines_of(**settings, master="local[2]")["master"]
    assert line.seen == f"{NOT_MADE}--master local[2] is none of a standalone cluster"


def test_what_members_say_of_scrapes_and_sweeps(settings: dict[str, Any], tmp_path: Path) -> None:
    metrics, rings = Metrics(member="anna", clock=SystemClock()), Rings(SystemClock())
    condition = Condition("anna", State.LEADING, 1, ready=True, scope="rows")
    server = ProbeServer("127.0.0.1:0", condition=lambda: condition, metrics=metrics, rings=rings)
    with closing(server), closing(SqliteStore(tmp_path / "store.db")) as store:
        address, clock = f"127.0.0.1:{server.port}", SystemClock()
        with SessionKeeper(store, ttl=timedelta(minutes=1), clock=clock) as keeper:
            Election(store, Scope("rows"), member="anna", clock=clock, http=address).join(keeper, host="here", pid=7)
            first = lines_of(**settings)
            rings(Swept("rows", epoch=1, removed=3, left=2, first="blob a: no permission", seconds=1))
            metrics.page(condition)
            second = lines_of(**settings)
    assert first["scrapes"][0].seen.endswith("was not asked for /metrics yet")
    assert first["orphans"] == [Remark(Grade.OK, "the members tell of no orphan")]
    assert second["scrapes"][0].grade is Grade.OK
    assert second["orphans"][0].grade is Grade.WARN
    assert "could not remove 2 orphans, the first: blob a: no permission" in second["orphans"][0].seen
