"""A commit that etcd answered with "database space exceeded": one of its records shows what became of it."""

from __future__ import annotations

import pytest

from tenure.backends.etcd.store import Fate, fate_of, telling
from tenure.coordination.records import Delete, Key, Put, Record, SessionId, Version, Write

KEY, OTHER = Key("a"), Key("b")
OLD, NEW = Version("3"), Version("7")
CREATE, REPLACE, DELETE = Put(KEY, b"ours", None), Put(KEY, b"ours", OLD), Delete(KEY, OLD)


def record(value: bytes, version: Version) -> Record:
    return Record(KEY, value, version, None)


@pytest.mark.parametrize(
    ("write", "now", "fate"),
    [
        (CREATE, None, Fate.NOT_APPLIED),
        (CREATE, record(b"ours", NEW), Fate.APPLIED),
        (CREATE, record(b"another's", NEW), Fate.UNKNOWN),
        (REPLACE, record(b"before", OLD), Fate.NOT_APPLIED),
        (REPLACE, record(b"ours", OLD), Fate.NOT_APPLIED),
        (REPLACE, record(b"ours", NEW), Fate.APPLIED),
        (REPLACE, record(b"another's", NEW), Fate.UNKNOWN),
        (REPLACE, None, Fate.UNKNOWN),
        (DELETE, record(b"before", OLD), Fate.NOT_APPLIED),
        (DELETE, record(b"another's", NEW), Fate.UNKNOWN),
        (DELETE, None, Fate.UNKNOWN),
    ],
)
def test_the_record_shows_the_fate(write: Write, now: Record | None, fate: Fate) -> None:
    assert fate_of(write, now) is fate


def test_a_permanent_record_tells_the_most() -> None:
    bound = Put(OTHER, b"", None, SessionId("s"))
    assert telling([Delete(OTHER, OLD), bound, CREATE]) is CREATE
    assert telling([Delete(KEY, OLD), bound]) is bound
    assert telling([DELETE]) is DELETE
    assert telling([]) is None
