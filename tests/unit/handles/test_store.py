"""The handle store: what FLINK-6612 and its relatives ask for, one test each."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tenure.coordination.records import Key
from tenure.coordination.term import Term
from tenure.errors import (
    HandleExists,
    HandleLocked,
    HandleNotFound,
    StorageError,
    TermLost,
)
from tenure.events import BlobLeft
from tenure.handles.handle import Handle
from tests.faults.lab import BIG, SCOPE, Lab, Member, big
from tests.kit.faulty import commits
from tests.kit.waiting import NEVER_S

ONE, TWO = big("one"), big("two")


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


def removed_at_once(leader: Member) -> int:
    """How many handles one commit removes, beside the term's guards and the anchor."""
    return leader.store.guarantees.max_writes - 3


def add_many(leader: Member, term: Term, count: int) -> list[Handle]:
    handles = []
    for n in range(count):
        handles.append(leader.handles.add(term, f"h{n:05d}", b"x" if n % 30 else ONE))
        if n % 100 == 0:
            leader.keeper.renew()  # a server's ttl goes by while we add
    return handles


def test_many_handles_go_in_few_commits(lab: Lab) -> None:
    leader = lab.member("a")
    all_go(lab, leader, 2 * removed_at_once(leader) + 1, commits_needed=3)


def test_3000_handles_go_in_four_commits(tmp_path: Path) -> None:
    """997 a commit at 1,000 guards and writes."""
    lab = Lab(tmp_path)
    all_go(lab, lab.member("a"), 3000, commits_needed=4)


def all_go(lab: Lab, leader: Member, count: int, *, commits_needed: int) -> None:
    term = leader.lead()
    add_many(leader, term, count)
    handles = leader.handles.list()
    assert len(handles) == count
    before = len(leader.store.calls)
    leader.handles.remove_all(term, handles)
    made = leader.store.calls[before:]
    assert [call.operation for call in made] == ["commit"] * commits_needed
    assert lab.pointers() == {}
    assert lab.audit() == set()


def test_remove_all_stops_at_the_first_group_with_a_lock(lab: Lab) -> None:
    leader, reader = lab.member("a"), lab.member("b")
    term = leader.lead()
    group = removed_at_once(leader)
    handles = add_many(leader, term, 2 * group + 7)
    reader.keeper.renew()
    locked = f"h{group + 5:05d}"
    reader.handles.lock(locked, session=reader.keeper.session_id)
    with pytest.raises(HandleLocked) as held:
        leader.handles.remove_all(term, handles)
    assert held.value.key == f"things/{locked}"
    assert set(lab.pointers()) == {handle.name for handle in handles[group:]}
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
        thread.join(NEVER_S)
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
