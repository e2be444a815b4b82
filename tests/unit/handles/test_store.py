"""The handle store: what FLINK-6612 and its relatives ask for, one test each."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tenure.coordination.records import Key, Put
from tenure.errors import (
    CorruptBlob,
    CorruptHandle,
    HandleExists,
    HandleLocked,
    HandleNotFound,
    SessionEnded,
    StorageError,
    TermLost,
)
from tenure.events import BlobLeft
from tenure.testing.faulty import commits, operation
from tests.faults.lab import AREA, BIG, SCOPE, Lab, Member, big

ONE, TWO = big("one"), big("two")


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def commits_of(member: Member) -> int:
    return sum(commits(call) for call in member.store.calls)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_small_payloads_stay_inline(extra: int, lab: Lab) -> None:
    leader = lab.member("a")
    payload = b"p" * (BIG + extra)
    handle = leader.handles.add(leader.lead(), "x", payload)
    assert (handle.inline is None, handle.blob is not None) == (extra > 0, extra > 0)
    assert len(list(lab.files.list())) == (1 if extra > 0 else 0)
    assert leader.handles.get("x") == payload
    assert leader.handles.find("x") == handle


def test_an_empty_payload_is_a_payload(lab: Lab) -> None:
    leader = lab.member("a")
    leader.handles.add(leader.lead(), "x", b"")
    assert leader.handles.get("x") == b""


def test_blobs_carry_epoch_area_and_name(lab: Lab) -> None:
    leader = lab.member("a")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    assert handle.blob is not None
    assert handle.blob.address.startswith("e00000001/things/x-")


def test_a_name_is_added_once(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    with pytest.raises(HandleExists):
        leader.handles.add(term, "x", TWO)
    assert leader.handles.get("x") == ONE
    assert lab.audit() == set()


def test_replace_writes_a_new_blob_and_deletes_the_old_one(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    first = leader.handles.add(term, "x", ONE)
    second = leader.handles.replace(term, first, TWO)
    assert first.blob is not None
    assert second.blob is not None
    assert list(lab.files.list()) == [second.blob.address]
    with pytest.raises(HandleNotFound):
        leader.handles.replace(term, first, b"from a stale handle")
    assert leader.handles.get("x") == TWO


def test_replacing_what_is_gone_is_refused_and_leaves_nothing(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    leader.handles.remove(term, "x")
    with pytest.raises(HandleNotFound):
        leader.handles.replace(term, handle, TWO)
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_removing_what_is_absent_is_fine(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.remove(term, "never")
    leader.handles.add(term, "x", ONE)
    leader.handles.remove(term, "x")
    leader.handles.remove(term, "x")
    leader.handles.remove_all(term, [])
    assert lab.audit() == set()


def test_removing_a_stale_handle_is_refused(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    stale = leader.handles.add(term, "x", ONE)
    leader.handles.replace(term, stale, TWO)
    with pytest.raises(HandleNotFound):
        leader.handles.remove_all(term, [stale])
    assert leader.handles.get("x") == TWO


def test_get_of_what_is_absent(lab: Lab) -> None:
    leader = lab.member("a")
    with pytest.raises(HandleNotFound, match="things/x"):
        leader.handles.get("x")
    assert leader.handles.find("x") is None
    assert leader.handles.list() == []
    assert leader.handles.get_all() == {}


def test_lists_come_in_the_order_of_names_and_without_locks(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    for name in ("b", "c", "a"):
        leader.handles.add(term, name, ONE)
    leader.handles.lock("b", session=leader.keeper.session_id)
    assert [handle.name for handle in leader.handles.list()] == ["a", "b", "c"]
    assert list(leader.handles.get_all()) == ["a", "b", "c"]


# --- locks (FLINK-6612, 10011, 10184, 10255, 10328) ---------------------------------------------------------------


def test_a_second_locker_keeps_a_handle_and_the_last_release_lets_it_go(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    first = leader.handles.lock("x", session=leader.keeper.session_id)
    second = reader.handles.lock("x", session=reader.keeper.session_id)
    leader.handles.release(first)
    with pytest.raises(HandleLocked, match="things/x"):
        leader.handles.remove(term, "x")
    assert reader.handles.get("x") == ONE
    reader.handles.release(second)
    reader.handles.release(second)  # releasing twice is fine
    leader.handles.remove(term, "x")
    assert lab.audit() == set()
    assert lab.pointers() == {}


def test_one_session_may_hold_several_locks(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    locks = [leader.handles.lock("x", session=leader.keeper.session_id) for _ in range(3)]
    for lock in locks:
        with pytest.raises(HandleLocked):
            leader.handles.remove(term, "x")
        leader.handles.release(lock)
    leader.handles.remove(term, "x")


def test_the_lock_of_a_crashed_reader_goes_with_its_session_and_only_then(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    reader.handles.lock("x", session=reader.keeper.session_id)
    del reader.handles
    with pytest.raises(HandleLocked):
        leader.handles.remove(term, "x")
    reader.dies()
    leader.handles.remove(term, "x")
    assert lab.audit() == set()


def test_the_locks_of_an_old_leader_go_with_its_session(lab: Lab) -> None:
    """FLINK-10011: leadership lost by a glitch; the old leader's locks must not outlive its session."""
    old = lab.member("old")
    old.handles.add(old.lead(), "x", ONE)
    old.handles.lock("x", session=old.keeper.session_id)
    old.dies()
    new = lab.member("new")
    new.handles.remove(new.lead(), "x")
    assert lab.pointers() == {}


def test_a_lock_needs_a_living_session(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    leader.handles.add(leader.lead(), "x", ONE)
    reader.dies()
    with pytest.raises(SessionEnded):
        reader.handles.lock("x", session=reader.keeper.session_id)


def test_a_failed_read_leaves_no_lock(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    assert handle.blob is not None
    lab.files.delete(handle.blob.address)
    with pytest.raises(CorruptBlob), reader.handles.locked("x", session=reader.keeper.session_id):
        pass
    assert [record.key for record in lab.truth.list(SCOPE, handle.key).records] == []
    with pytest.raises(HandleNotFound), reader.handles.locked("nothing", session=reader.keeper.session_id):
        pass


def test_locked_releases_when_the_block_raises(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)
    with (
        pytest.raises(KeyError),
        leader.handles.locked("x", session=leader.keeper.session_id) as (handle, payload),
    ):
        assert (handle.name, payload) == ("x", ONE)
        with pytest.raises(HandleLocked):
            leader.handles.remove(term, "x")
        raise KeyError("user code")
    leader.handles.remove(term, "x")


def test_a_lock_never_makes_its_parent(lab: Lab) -> None:
    """S8: the handle goes between the reader's look and its lock."""
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    leader.handles.add(term, "x", ONE)

    def remove_first(call: object, proceed: object) -> object:
        leader.handles.remove(term, "x")
        assert callable(proceed)
        return proceed()

    script = reader.store.script(remove_first, when=commits)
    with pytest.raises(HandleNotFound):
        reader.handles.lock("x", session=reader.keeper.session_id)
    assert script.fired == 1
    assert [record.key for record in lab.truth.list(SCOPE, AREA).records] == []


def test_a_lock_follows_a_replacement(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)

    def replace_first(call: object, proceed: object) -> object:
        leader.handles.replace(term, handle, TWO)
        assert callable(proceed)
        return proceed()

    reader.store.script(replace_first, when=commits)
    with reader.handles.locked("x", session=reader.keeper.session_id) as (_, payload):
        assert payload == TWO


def test_a_replace_keeps_the_old_blob_while_it_is_locked(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    old = leader.handles.add(term, "x", ONE)
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    leader.handles.replace(term, old, TWO)
    assert reader.handles.payload(lock.handle) == ONE
    assert leader.handles.get("x") == TWO
    assert old.blob is not None
    assert leader.blobs.deleted == []
    reader.handles.release(lock)
    assert lab.audit() == {old.blob.address}, "left to the sweep"


def test_a_lock_on_the_new_blob_does_not_keep_the_old_one(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    first = leader.handles.add(term, "x", ONE)
    second = leader.handles.replace(term, first, TWO)
    leader.handles.lock("x", session=leader.keeper.session_id)
    leader.handles.replace(term, second, b"inline")
    assert second.blob is not None
    assert set(lab.files.list()) == {second.blob.address}


def test_add_and_remove_in_one_commit_respects_locks(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    old = leader.handles.add(term, "x", ONE)
    lock = reader.handles.lock("x", session=reader.keeper.session_id)
    with pytest.raises(HandleLocked) as held:
        leader.handles.add(term, "y", TWO, remove=[old])
    assert held.value.key == old.key
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()
    reader.handles.release(lock)
    before = commits_of(leader)
    leader.handles.add(term, "y", TWO, remove=[old])
    assert commits_of(leader) == before + 1
    assert set(lab.pointers()) == {"y"}
    assert lab.audit() == set()


# --- reading while others delete (FLINK-26285, 26987) --------------------------------------------------------------


@pytest.mark.parametrize("moment", ["between listing and reading", "while all the time"])
def test_get_all_returns_the_survivors_and_ends(moment: str, lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    names = [f"h{n:02d}" for n in range(40)]
    for name in names:
        leader.handles.add(term, name, big(name))

    def delete_half() -> None:
        for name in names[::2]:
            leader.handles.remove(term, name)

    def fault(call: object, proceed: object) -> object:
        assert callable(proceed)
        answer = proceed()
        delete_half()
        return answer

    if moment == "between listing and reading":
        reader.store.script(fault, when=operation("list"))
        found = reader.handles.get_all()
    else:
        thread = threading.Thread(target=delete_half)
        thread.start()
        found = reader.handles.get_all()
        thread.join(10)
    assert set(names[1::2]) <= set(found)
    assert all(found[name] == big(name) for name in found)
    assert set(reader.handles.get_all()) == set(names[1::2])


def test_get_all_follows_a_replacement(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)

    def fault(call: object, proceed: object) -> object:
        assert callable(proceed)
        answer = proceed()
        leader.handles.replace(term, handle, TWO)
        return answer

    reader.store.script(fault, when=operation("list"))
    assert reader.handles.get_all() == {"x": TWO}


def test_get_follows_a_replacement_and_sees_a_removal(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    replaced: list[object] = []

    def replace_after(call: object, proceed: object) -> object:
        assert callable(proceed)
        answer = proceed()
        if not replaced:
            replaced.append(leader.handles.replace(term, handle, TWO))
        return answer

    reader.store.script(replace_after, when=operation("read"))
    assert reader.handles.get("x") == TWO

    def remove_after(call: object, proceed: object) -> object:
        assert callable(proceed)
        answer = proceed()
        leader.handles.remove(term, "x")
        return answer

    reader.store.script(remove_after, when=operation("read"))
    with pytest.raises(HandleNotFound):
        reader.handles.get("x")


# --- what is broken is loud (FLINK-5940, 22502) -------------------------------------------------------------------

BROKEN = [
    b"",
    b"\xac\xed\x00\x05",
    b"not json",
    b'{"v":1}',
    b'{"v":99,"uid":"u","epoch":1,"inline":""}',
    b'{"v":1,"uid":"u","epoch":1}',
    b'{"v":1,"uid":"u","epoch":"1","inline":""}',
    b'{"v":1,"uid":"u","epoch":1,"inline":"***"}',
    b'{"v":1,"uid":"u","epoch":1,"inline":7}',
    b'{"v":1,"uid":"u","epoch":1,"inline":"","blob":{"address":"a","size":1,"sha256":""}}',
    b'{"v":1,"uid":"u","epoch":1,"blob":"a"}',
    b'{"v":1,"uid":"u","epoch":1,"blob":{"address":"a"}}',
    b'{"v":1,"uid":"u","epoch":1,"blob":{"address":"a","size":"many","sha256":""}}',
    b'{"v":1,"uid":"u","epoch":1,"blob":[]}',
]


@pytest.mark.parametrize("value", BROKEN)
def test_a_pointer_that_does_not_decode_is_loud_and_named(value: bytes, lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, "fine", b"inline")
    lab.truth.commit(SCOPE, guards=(), writes=[Put(AREA.child("broken"), value, replaces=None)])
    for read in (
        lambda: leader.handles.get("broken"),
        lambda: leader.handles.find("broken"),
        leader.handles.list,
        leader.handles.get_all,
        lambda: leader.handles.lock("broken", session=leader.keeper.session_id),
        lambda: leader.handles.remove(term, "broken"),
    ):
        with pytest.raises(CorruptHandle, match="'things/broken'"):
            read()
    assert leader.handles.get("fine") == b"inline", "the others are not affected"
    leader.handles.remove(term, "fine")


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped", "longer"])
def test_a_blob_that_is_missing_or_wrong_is_loud_and_named(damage: str, lab: Lab, tmp_path: Path) -> None:
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    leader.handles.add(term, "fine", TWO)
    assert handle.blob is not None
    path = tmp_path / handle.blob.address
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes({"cut": data[:-1], "flipped": b"X" + data[1:], "longer": data + b"X"}[damage])
    for read in (lambda: leader.handles.get("x"), leader.handles.get_all, lambda: leader.handles.payload(handle)):
        with pytest.raises(CorruptBlob, match="things/x-"):
            read()
    assert leader.handles.get("fine") == TWO
    leader.handles.remove(term, "x")  # it can still be removed
    assert set(lab.pointers()) == {"fine"}


def test_an_unreadable_storage_is_an_error_not_an_absence(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """FLINK-22502: what cannot be read now must not look as if it were not there."""
    leader = lab.member("a")
    leader.handles.add(leader.lead(), "x", ONE)

    def fail(path: str) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(lab.files._fs, "cat_file", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        leader.handles.get("x")
    with pytest.raises(StorageError):
        leader.handles.get_all()


# --- half-done work (FLINK-26284, 26606) --------------------------------------------------------------------------


def test_a_blob_that_cannot_be_deleted_is_reported_and_the_removal_stands(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = lab.member("a")
    term = leader.lead()
    handle = leader.handles.add(term, "x", ONE)
    assert handle.blob is not None

    def fail(address: str) -> None:
        raise StorageError(f"cannot delete {address}")

    monkeypatch.setattr(leader.blobs, "delete", fail)
    leader.handles.remove(term, "x")
    assert lab.pointers() == {}
    assert lab.audit() == {handle.blob.address}
    assert [event.address for event in lab.events if isinstance(event, BlobLeft)] == [handle.blob.address]


def test_a_blob_that_cannot_be_written_adds_no_pointer(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    leader = lab.member("a")
    term = leader.lead()

    def fail(address: str, data: bytes) -> None:
        raise StorageError("disk full")

    monkeypatch.setattr(leader.blobs, "write", fail)
    before = commits_of(leader)
    with pytest.raises(StorageError):
        leader.handles.add(term, "x", ONE)
    assert commits_of(leader) == before
    assert lab.pointers() == {}


# --- many at once ---------------------------------------------------------------------------------------------------


def test_3000_handles_go_in_few_commits(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    for n in range(3000):
        leader.handles.add(term, f"h{n:05d}", b"x" if n % 30 else ONE)
    handles = leader.handles.list()
    assert len(handles) == 3000
    before = len(leader.store.calls)
    leader.handles.remove_all(term, handles)
    made = leader.store.calls[before:]
    assert [call.operation for call in made] == ["commit"] * 7, "498 a commit at 1,000 guards and writes"
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_remove_all_stops_at_the_first_group_with_a_lock(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    handles = [leader.handles.add(term, f"h{n:05d}", b"x") for n in range(1200)]
    reader.handles.lock("h00600", session=reader.keeper.session_id)
    with pytest.raises(HandleLocked) as held:
        leader.handles.remove_all(term, handles)
    assert held.value.key == "things/h00600"
    assert set(lab.pointers()) == {f"h{n:05d}" for n in range(498, 1200)}
    reader.dies()
    leader.handles.remove_all(term, leader.handles.list())
    assert lab.pointers() == {}


def test_threads_of_one_leader_add_and_remove_side_by_side(lab: Lab) -> None:
    """The anchor serialises nothing away: every thread gets its own definite answer."""
    leader = lab.member("a")
    term = leader.lead()
    errors: list[BaseException] = []

    def work(thread: int) -> None:
        try:
            for n in range(20):
                name = f"t{thread}-{n}"
                leader.handles.add(term, name, big(name))
                if n % 2:
                    leader.handles.remove(term, name)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert set(lab.pointers()) == {f"t{thread}-{n}" for thread in range(6) for n in range(0, 20, 2)}
    assert lab.audit() == set()


def test_records_are_json_for_people(lab: Lab) -> None:
    leader = lab.member("a")
    handle = leader.handles.add(leader.lead(), "x", ONE)
    record = lab.truth.read(SCOPE, Key("things/x"))
    assert record is not None
    found = json.loads(record.value)
    assert handle.blob is not None
    assert found["v"] == 1
    assert found["epoch"] == 1
    assert found["blob"]["address"] == handle.blob.address


def test_a_lost_term_is_an_error_not_a_silent_no_op(lab: Lab) -> None:
    """Against the K8s store of Flink, where a non-leader's write returns as if it had worked."""
    old = lab.member("old")
    term = old.lead()
    old.handles.add(term, "x", ONE)
    old.dies()
    with pytest.raises(TermLost):
        old.handles.remove(term, "x")
    with pytest.raises(TermLost):
        old.handles.add(term, "y", ONE)
    assert set(lab.pointers()) == {"x"}
    assert lab.audit() == set()
