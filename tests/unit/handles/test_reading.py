"""Reading while others delete ends with the survivors (FLINK-26285, 26987).

What is broken is loud (FLINK-5940, 22502).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from pathlib import Path

import pytest

from tenure.coordination.encoding import encode
from tenure.coordination.records import Put
from tenure.errors import (
    CorruptBlob,
    CorruptHandle,
    HandleNotFound,
    StorageError,
)
from tenure.storage.local import Local
from tests.faults.lab import AREA, SCOPE, Lab, Member, big
from tests.kit.faulty import commits, operation
from tests.kit.waiting import NEVER_S

ONE, TWO = big("one"), big("two")


def commits_of(member: Member) -> int:
    return sum(commits(call) for call in member.store.calls)


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
        thread.join(NEVER_S)
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
    b'{"v":99,"uid":"u","epoch":1,"text":""}',
    b'{"v":1,"uid":"u","epoch":1}',
    b'{"v":1,"uid":"u","epoch":"1","text":""}',
    b'{"v":1,"uid":"u","epoch":1,"text":"","json":"","sha256":""}',
    b'{"v":1,"uid":"u","epoch":1,"base64":"***","sha256":""}',
    b'{"v":1,"uid":"u","epoch":1,"text":7,"sha256":""}',
    b'{"v":1,"uid":"u","epoch":1,"text":"","sha256":"00"}',
    b'{"v":1,"uid":"u","epoch":1,"text":"","sha256":null}',
    b'{"v":1,"uid":"u","epoch":1,"text":"","sha256":"","blob":{"address":"a","size":1,"sha256":""}}',
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

    def fail(storage: Local, path: str) -> bytes:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Local, "_read", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        leader.handles.get("x")
    with pytest.raises(StorageError):
        leader.handles.get_all()


def test_an_inline_payload_that_is_not_the_one_that_was_written_is_loud(lab: Lab) -> None:
    leader = lab.member("a")
    handle = leader.handles.add(leader.lead(), "x", b'{"logOffset":3}')
    record = lab.truth.read(SCOPE, handle.key)
    assert record is not None
    changed = record.value.replace(b'{"logOffset":3}', b'{"logOffset":5}')
    assert changed != record.value
    lab.truth.commit(SCOPE, guards=(), writes=[Put(handle.key, changed, replaces=record.version)])
    for read in (leader.handles.list, lambda: leader.handles.get("x"), leader.handles.get_all):
        with pytest.raises(CorruptHandle, match="'things/x' does not decode: its payload of 15 bytes has a checksum"):
            read()


def test_an_inline_payload_that_names_no_checksum_is_loud(lab: Lab) -> None:
    leader = lab.member("a")
    handle = leader.handles.add(leader.lead(), "x", b"one")
    record = lab.truth.read(SCOPE, handle.key)
    assert record is not None
    fields = json.loads(record.value)
    del fields["sha256"]
    lab.truth.commit(SCOPE, guards=(), writes=[Put(handle.key, json.dumps(fields).encode(), replaces=record.version)])
    with pytest.raises(CorruptHandle, match="'things/x' does not decode: 'sha256'"):
        leader.handles.get("x")


@pytest.mark.parametrize("where", ["../outside", "e1/../../outside", "/etc/passwd", "e1//x", "./outside", ""])
def test_an_address_that_leads_out_of_the_blobs_is_not_followed(where: str, lab: Lab, tmp_path: Path) -> None:
    """It was an error of Python's, and the last of several checks."""
    leader = lab.member("a")
    term = leader.lead()
    outside = tmp_path.parent / "outside"
    outside.write_bytes(ONE)
    size, checksum = len(ONE), hashlib.sha256(ONE).hexdigest()
    pointer = {"uid": "u", "epoch": 1, "blob": {"address": where, "size": size, "sha256": checksum}}
    lab.truth.commit(SCOPE, guards=(), writes=[Put(AREA.child("x"), encode(pointer), replaces=None)])
    for call in (
        lambda: leader.handles.get("x"),
        leader.handles.get_all,
        lambda: leader.handles.lock("x", session=leader.keeper.session_id),
        lambda: leader.handles.remove(term, "x"),
    ):
        with pytest.raises(CorruptHandle, match=re.escape(f"it names blob {where!r}, which is not a relative path")):
            call()
    assert outside.read_bytes() == ONE
