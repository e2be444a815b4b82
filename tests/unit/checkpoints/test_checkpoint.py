"""Checkpoints that do not decode, or contradict their names, are loud: never an older one instead (FLINK-22502)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, decode_checkpoint, encode_checkpoint
from tenure.checkpoints.source import FILES, KAFKA
from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.records import Key, Put
from tenure.errors import (
    Corrupt,
    CorruptCheckpoint,
    CorruptHandle,
)
from tenure.handles.store import HandleStore
from tests.faults.lab import AREA, SCOPE, Lab, Member

LONG = "x" * 500
"""Offsets that make the checkpoint a blob in the laboratory."""


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def checkpoint(batch: int, *, offsets: str = LONG, epoch: int = 1) -> Checkpoint:
    return Checkpoint("q", "id", batch, f"{batch} {offsets}", "run", epoch, "now")


def store_of(member: Member, *, keep: int = 3) -> CheckpointStore:
    return CheckpointStore(member.handles, query="q", keep=keep)


def batches(lab: Lab) -> list[int]:
    return [int(name) for name in lab.pointers()]


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_newest_checkpoint_that_cannot_be_read_is_loud_never_an_older_one(
    damage: str, lab: Lab, tmp_path: Path
) -> None:
    leader = lab.member("a")
    term = leader.lead()
    checkpoints = store_of(leader)
    for batch in range(2):
        checkpoints.plan(term, checkpoint(batch))
    newest = lab.pointers()[checkpoint_name(1)]
    assert newest.blob is not None
    path = tmp_path / newest.blob.address
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1])
    fresh = store_of(leader)
    for read in (fresh.newest, fresh.list, lambda: fresh.plan(term, checkpoint(2))):
        with pytest.raises(Corrupt, match="000000000001"):
            read()
    assert fresh.get(0) == checkpoint(0), "the older one is there, for a person to decide"


def test_an_undecodable_pointer_is_loud(lab: Lab) -> None:
    leader = lab.member("a")
    store_of(leader).plan(leader.lead(), checkpoint(0))
    lab.truth.commit(SCOPE, guards=(), writes=[Put(AREA.child("000000000001"), b"?", replaces=None)])
    with pytest.raises(CorruptHandle, match="000000000001"):
        store_of(leader).newest()


def test_a_checkpoint_under_a_wrong_name_or_query_is_loud(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    leader.handles.add(term, checkpoint_name(7), encode_checkpoint(checkpoint(6)))
    with pytest.raises(CorruptCheckpoint, match="says that it is batch 6"):
        store_of(leader).newest()
    leader.handles.remove(term, checkpoint_name(7))
    leader.handles.add(term, checkpoint_name(7), encode_checkpoint(replace(checkpoint(7), query="other")))
    with pytest.raises(CorruptCheckpoint, match="of query 'other'"):
        store_of(leader).newest()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"[]",
        b"7",
        b"null",
        b"{}",
        b'{"format":1}',
        b'{"format":2,"batch":1}',
        encode_checkpoint(checkpoint(1)).replace(b'"batch":1', b'"batch": "1"'),
        encode_checkpoint(checkpoint(1)).replace(b'"batch":1', b'"batch": true'),
        encode_checkpoint(checkpoint(1)).replace(b'"batch":1', b'"batch":1.0'),
        encode_checkpoint(checkpoint(1)).replace(b'"epoch":1', b'"epoch": null'),
        encode_checkpoint(checkpoint(1)).replace(b'"epoch":1', b'"epoch":1, "more": 2'),
        encode_checkpoint(checkpoint(1)).replace(b'"kinds":{}', b'"kinds":[]'),
        encode_checkpoint(checkpoint(1)).replace(b'"paths":{}', b'"paths":[]'),
        encode_checkpoint(checkpoint(1)).replace(b'"paths":{}', b'"paths":{"0":1}'),
        encode_checkpoint(checkpoint(1)).replace(b'"kinds":{}', b'"kinds":{"0":"magic"}'),
        encode_checkpoint(checkpoint(1)).replace(b'"kinds":{}', b'"kinds":{"0":["files"]}'),
    ],
)
def test_a_payload_that_does_not_decode_is_loud(payload: bytes) -> None:
    with pytest.raises(CorruptCheckpoint, match="checkpoint 000000000001 of query 'q'"):
        decode_checkpoint(payload, query="q", name="000000000001")


def test_what_was_encoded_is_decoded() -> None:
    found = replace(checkpoint(3, offsets='v1\n{"a":"ü"}\n'), folders=("0", "1"), kinds={"0": FILES, "1": KAFKA})
    found = replace(found, paths={"0": "file:/a"})
    assert decode_checkpoint(encode_checkpoint(found), query="q", name=checkpoint_name(3)) == found


def test_a_checkpoint_of_an_older_version_has_neither_kinds_nor_paths() -> None:
    payload = encode_checkpoint(checkpoint(1)).replace(b'"kinds":{},', b"").replace(b'"paths":{},', b"")
    assert (b"kinds" in payload, b"paths" in payload) == (False, False)
    assert decode_checkpoint(payload, query="q", name=checkpoint_name(1)) == checkpoint(1)


def test_names_sort_as_batches_do() -> None:
    numbers = [0, 1, 9, 10, 99, 100, 10**9, 10**12 - 1]
    assert sorted(map(checkpoint_name, numbers)) == [checkpoint_name(n) for n in numbers]


def test_queries_do_not_see_each_other(lab: Lab) -> None:
    leader = lab.member("a")
    term = leader.lead()
    stores = {
        name: CheckpointStore(
            HandleStore(leader.store, SCOPE, area=Key(f"checkpoints/{name}"), blobs=lab.files, clock=lab.clock),
            query=name,
        )
        for name in ("hour", "hourly")
    }
    for name, store in stores.items():
        store.plan(term, replace(checkpoint(0), query=name))
    for name, store in stores.items():
        assert [found.query for found in store.list()] == [name]
