"""`leadership.handles`: what a service keeps under its term, beside what others do to it meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tenure
from tenure.backends.sqlite import SqliteStore
from tenure.coordination.candidates import MEMBERS
from tenure.coordination.records import Delete, Key, Put, Scope
from tenure.coordination.term import LEADER
from tenure.errors import (
    HandleExists,
    HandleLocked,
    HandleNotFound,
    OwnerMismatch,
    StorageError,
    TermLost,
    UsageError,
)
from tenure.handles.handle import encode_handle
from tenure.in_process import upkeep
from tenure.in_process.upkeep import MarksWatch
from tenure.ownership.owner import Owner
from tenure.results.result import Ending, Result, Stage, encode_result
from tenure.scope_context import ScopeContext
from tenure.storage.blobs import Blob, FileBlobs
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S, wait_until

SCOPE = Scope("reports")
BIG = b"x" * 5000
"""A payload that does not stay inline."""


class Place:
    """A store and a storage of one service."""

    def __init__(self, folder: Path) -> None:
        self.store = f"sqlite://{folder}/ha.db"
        self.storage = folder / "storage"

    def lead(self, member: str = "anna", **named: Any) -> contextlib.AbstractContextManager[tenure.Leadership]:
        flags = {"store": self.store, "storage": f"file://{self.storage}", "member": member, **named}
        return tenure.lead(SCOPE, timeout=timedelta(seconds=60), **flags)

    def read(self, **named: Any) -> contextlib.AbstractContextManager[tenure.Reader]:
        return tenure.read(SCOPE, **{"store": self.store, "storage": f"file://{self.storage}", **named})

    @contextlib.contextmanager
    def hand(self) -> Iterator[SqliteStore]:
        with contextlib.closing(SqliteStore(self.store.removeprefix("sqlite://"))) as opened:
            yield opened

    def blobs(self) -> Sequence[str]:
        """The addresses of the blobs in the storage."""
        return FileBlobs(str(self.storage / SCOPE / "blobs")).list()

    def depose(self) -> None:
        """Take the office away, as happens to a leader that is paused for longer than its ttl."""
        with self.hand() as hand:
            record = hand.read(SCOPE, LEADER)
            assert record is not None
            hand.commit(SCOPE, guards=(), writes=[Delete(LEADER, record.version)])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(upkeep, "_LAST", timedelta(seconds=NEVER_S))  # the last sweep ends, on a busy machine late
    return Place(tmp_path)


def test_what_a_leader_keeps_is_there_for_the_next(place: Place) -> None:
    with place.lead() as leadership:
        daily = leadership.handles("daily")
        added = daily.add("2026-11", BIG)
        assert (added.name, added.size, added.epoch) == ("2026-11", 5000, 1)
        daily.add("2026-10", b"small")
        assert leadership.handles("daily") is daily
        assert leadership.handles("weekly").list() == []
        with pytest.raises(HandleExists):
            daily.add("2026-11", b"again")
        daily.replace("2026-10", b"other")
    with place.lead("ben") as leadership:
        daily = leadership.handles("daily")
        assert daily.get("2026-11") == BIG
        assert daily.get_all() == {"2026-10": b"other", "2026-11": BIG}
        assert [(handle.name, handle.epoch) for handle in daily.list()] == [("2026-10", 1), ("2026-11", 1)]
        daily.add("2026-12", BIG, remove=["2026-10", "never"])
        daily.remove("never")
        assert len(place.blobs()) == 2
        daily.remove_all(["2026-11", "2026-12", "never"])
        assert daily.list() == []
        with pytest.raises(HandleNotFound):
            daily.get("2026-11")
        with pytest.raises(HandleNotFound, match="'2026-11' is not there; add it"):
            daily.replace("2026-11", b"x")
    assert place.blobs() == []


@pytest.mark.parametrize("name", ["", "a b", "../up", "daily/x", ".hidden", "x" * 129, None])
def test_a_name_is_refused_in_one_line(place: Place, name: str) -> None:
    with place.lead() as leadership, place.read() as reader:
        calls: list[tuple[str, Callable[[], object]]] = [
            ("area", lambda: leadership.handles(name)),
            ("area", lambda: reader.handles(name)),
            ("handle", lambda: leadership.handles("daily").add(name, b"x")),
            ("handle", lambda: leadership.handles("daily").add("x", b"x", remove=[name])),
            ("handle", lambda: leadership.handles("daily").replace(name, b"x")),
            ("handle", lambda: leadership.handles("daily").remove(name)),
            ("handle", lambda: reader.handles("daily").get(name)),
            ("handle", lambda: reader.handles("daily").locked(name).__enter__()),
            ("record", lambda: leadership.commit(name, b"x")),
            ("record", lambda: leadership.commit(name, None)),
            ("record", lambda: reader.record(name)),
        ]
        for of, call in calls:
            with pytest.raises(UsageError) as refused:
                call()
            assert str(refused.value).startswith(f"{of} {name!r} is not a name; use letters")
            assert "\n" not in str(refused.value)
        assert leadership.handles("daily").list() == []


def test_a_payload_is_bytes(place: Place) -> None:
    text: Any = "text"
    with place.lead() as leadership:
        for call in (leadership.handles("daily").add, leadership.handles("daily").replace, leadership.commit):
            with pytest.raises(UsageError, match=r"payload of .* 'x' is a str; give bytes"):
                call("x", text)


def test_names_of_users_do_not_meet_the_records_of_tenure(place: Place) -> None:
    """Each name of Tenure's, as an area, as a handle and as a record."""
    with place.lead() as leadership, place.hand() as hand:
        tenures = {record.key: record.version for record in hand.list(SCOPE).records}
        names = {segment for key in tenures for segment in key.split("/")}
        names |= {"checkpoints", "results", "restarts", "handles", "records", "paused", "owner", "runs", "lock-x"}
        assert {LEADER, "epoch", MEMBERS} <= names
        for name in sorted(names):
            leadership.commit(name, b"a record")
            leadership.handles(name).add(name, BIG)
        assert {name: leadership.record(name) for name in names} == dict.fromkeys(names, b"a record")
        assert leadership.records().keys() == names
        assert all([handle.name for handle in leadership.handles(name).list()] == [name] for name in names)
        now = {record.key: record.version for record in hand.list(SCOPE).records}
        assert {key: now.get(key) for key in tenures} == tenures
    with place.lead("ben") as leadership:
        assert leadership.epoch == 2


def test_a_late_add_is_refused_and_its_blob_is_gone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader is paused when its bytes are in the storage, and their handle is not yet in the store."""
    written: list[str] = []
    write = FileBlobs.write

    def paused(blobs: FileBlobs, address: str, data: bytes) -> Blob:
        blob = write(blobs, address, data)
        written.append(address)
        place.depose()
        return blob

    with place.lead() as leadership:
        with monkeypatch.context() as patched:
            patched.setattr(FileBlobs, "write", paused)
            with pytest.raises(TermLost) as lost:
                leadership.handles("daily").add("2026-11", BIG)
        assert not lost.value.write_is_unknown
        assert len(written) == 1
        assert place.blobs() == []
        with pytest.raises(TermLost):
            leadership.commit("newest", b"2026-11")
    with place.read() as reader:
        assert reader.handles("daily").list() == []
        assert reader.records() == {}


def test_the_blob_of_a_leader_that_died_is_swept_by_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    class Died(BaseException):
        pass

    write = FileBlobs.write

    def dies(blobs: FileBlobs, address: str, data: bytes) -> Blob:
        write(blobs, address, data)
        raise Died

    with place.lead() as leadership:
        daily = leadership.handles("daily")
        daily.add("2026-10", BIG)
        with monkeypatch.context() as patched:
            patched.setattr(FileBlobs, "write", dies)
            with pytest.raises(Died):
                daily.add("2026-11", BIG)
    assert len(place.blobs()) == 2
    with place.lead("ben"):
        pass  # the last sweep, if no other
    (kept,) = place.blobs()
    assert kept.startswith("e00000001/handles/daily/2026-10-")
    with place.read() as reader:
        assert reader.handles("daily").get_all() == {"2026-10": BIG}


def test_a_late_blob_is_swept_while_the_next_leader_leads(place: Place) -> None:
    late = place.storage / SCOPE / "blobs/e00000001/handles/daily/2026-11-late"
    with place.lead():
        pass

    def put() -> bool:
        """As the storage does: a sweep removes the folders while they are empty."""
        try:
            late.parent.mkdir(parents=True, exist_ok=True)
            late.write_bytes(BIG)
        except FileNotFoundError:
            return False
        return True

    with place.lead("ben"):
        wait_until(put)
        wait_until(lambda: not late.exists())


def test_a_locked_handle_stays_and_what_a_reader_reads_stays(place: Place) -> None:
    with place.lead() as leadership, place.read() as reader:
        daily = leadership.handles("daily")
        daily.add("2026-11", BIG)
        with reader.handles("daily").locked("2026-11") as payload:
            assert payload == BIG
            with pytest.raises(HandleLocked):
                daily.remove("2026-11")
            daily.replace("2026-11", b"y" * 5000)
            assert len(place.blobs()) == 2
        daily.remove("2026-11")
        (former,) = place.blobs()
    with place.lead("ben"):
        pass
    assert place.blobs() == [], f"{former} was of an earlier epoch"


def test_a_leadership_without_storage_has_records_and_no_handles(place: Place) -> None:
    with place.lead(storage=None) as leadership:
        leadership.commit("newest", b"2026-11")
        assert leadership.record("newest") == b"2026-11"
        with pytest.raises(UsageError, match="area 'daily' needs a storage, and none is set; give storage="):
            leadership.handles("daily")
    with place.read(storage=None) as reader:
        assert reader.records() == {"newest": b"2026-11"}
        with pytest.raises(UsageError, match="area 'daily' needs a storage"):
            reader.handles("daily")
    assert not place.storage.exists()


def test_two_threads_write_one_name_in_turn(place: Place) -> None:
    with place.lead() as leadership:
        daily = leadership.handles("daily")
        daily.add("newest", b"0")
        threads = [threading.Thread(target=daily.replace, args=("newest", b"%d" % number)) for number in range(8)]
        threads += [threading.Thread(target=leadership.commit, args=("r", b"%d" % number)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert daily.get("newest") in {b"%d" % number for number in range(8)}
        assert leadership.record("r") in {b"%d" % number for number in range(8)}


def test_records_come_and_go_and_have_a_limit(place: Place) -> None:
    with place.lead() as leadership:
        for value in (b"1", b"\xff\x00", b'{"blob": "not/one"}', b""):
            leadership.commit("newest", value)
            assert leadership.record("newest") == value
        leadership.commit("newest", None)
        leadership.commit("newest", None)
        assert leadership.record("newest") is None
        leadership.commit("newest", b"2")
        with pytest.raises(UsageError, match="record 'big' has 65537 bytes, and a record has at most 65536; keep"):
            leadership.commit("big", b"x" * 65537)
        leadership.commit("big", b"x" * 65536)
    with place.lead("ben") as leadership:
        assert leadership.record("newest") == b"2"
        leadership.commit("newest", b"3")
        assert leadership.records() == {"big": b"x" * 65536, "newest": b"3"}


def test_each_leadership_marks_its_storage(place: Place) -> None:
    for number in (1, 2):
        with place.lead():
            marks = sorted(path.name for path in (place.storage / SCOPE / "owner").glob("e*"))
            assert [mark[:9] for mark in marks] == ["e00000001", "e00000002"][:number]


def test_the_storage_of_another_store_is_refused(place: Place, tmp_path: Path) -> None:
    with place.lead():
        pass
    other = Place(tmp_path / "other")
    (tmp_path / "other").mkdir()
    with pytest.raises(OwnerMismatch, match="it belongs to owner"), other.lead(storage=f"file://{place.storage}"):
        pass


def test_a_storage_that_another_store_takes_takes_no_more_writes(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """`tenure adopt --lost-store` gives it away. Once a ttl the marks are compared before a write."""

    def taken(owner: Owner) -> None:
        raise OwnerMismatch("taken")

    with place.lead() as leadership:
        daily = leadership.handles("daily")
        daily.add("2026-10", BIG)
        monkeypatch.setattr(Owner, "check_marks", taken)
        assert leadership._marks is not None
        leadership._marks._next_s = 0.0  # a ttl later
        for call in (lambda: daily.add("x", BIG), lambda: daily.remove("2026-10")):
            with pytest.raises(OwnerMismatch):
                call()
        assert len(place.blobs()) == 1
        assert daily.get("2026-10") == BIG


def test_the_marks_are_compared_once_a_ttl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, looks = ManualClock(), []
    context = ScopeContext(MemoryStore(MemoryServer(clock)), SCOPE, str(tmp_path), clock)

    def look(owner: Owner) -> None:
        looks.append(clock.monotonic_s())
        if len(looks) == 2:
            raise StorageError("away")  # a write that follows finds that out

    monkeypatch.setattr(Owner, "check_marks", look)
    watch = MarksWatch(context)
    for _ in range(4):
        for _ in range(3):
            watch.check()
        clock.advance(context.ttl)
    assert len(looks) == 3


def test_a_storage_that_cannot_be_written_is_one_line_before_the_wait(place: Place) -> None:
    place.storage.write_text("a file")
    with pytest.raises(StorageError) as refused, place.lead():
        pass
    assert "\n" not in str(refused.value)


def test_a_forked_child_writes_nothing(place: Place) -> None:
    with place.lead() as leadership, place.read() as reader:
        daily = leadership.handles("daily")
        child = os.fork()
        if child == 0:
            calls: list[Callable[[], object]] = [lambda: daily.add("x", b"x"), daily.list, reader.records]
            calls += [reader.handles("daily").list, lambda: leadership.commit("x", b"x"), leadership.records]
            os._exit(0 if all(_is_refused(call) for call in calls) else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert daily.list() == []


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except (TermLost, UsageError):
        return True
    return False


def test_a_scope_whose_pipeline_has_ended_takes_no_handles(place: Place) -> None:
    """Its cleanup would remove them at any time."""
    with place.lead(storage=None), place.hand() as hand:
        result = Result(Ending.FINISHED, Stage.CLEAN, 1, "anna", "now")
        value = encode_handle(uid="u", epoch=1, content=encode_result(result))
        hand.commit(SCOPE, guards=(), writes=[Put(Key("results/result"), value, replaces=None)])
    with (
        pytest.raises(UsageError, match="the pipeline of scope 'reports' has finished for good; use another scope"),
        place.lead(),
    ):
        pass
    assert not (place.storage / SCOPE).exists()
