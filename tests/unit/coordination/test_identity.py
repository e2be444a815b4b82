"""Which life a store tells of: what it says now has to follow what it said before."""

from __future__ import annotations

import pytest

from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.encoding import encode
from tenure.coordination.identity import (
    IDENTITY,
    Birth,
    Life,
    birth_in,
    check_follows,
    has_checkpoints,
    put_identity,
)
from tenure.coordination.records import Key, Record, Version
from tenure.errors import CorruptRecord, OwnerMismatch

MINE, OTHER = "1" * 32, "2" * 32


def record(key: Key, value: bytes = b"") -> Record:
    return Record(key, value, Version("1"), None)


@pytest.mark.parametrize(
    "now", [Life(MINE, 7), Life(MINE, 8), Life(MINE, 70)], ids=["nothing new", "the next term", "many terms"]
)
def test_a_store_that_went_on_is_followed(now: Life) -> None:
    assert check_follows(now, Life(MINE, 7), scope="rows") == now


def test_whatever_comes_first_is_believed_and_an_identity_may_come_later() -> None:
    assert check_follows(Life(None, 0), None, scope="rows") == Life(None, 0)
    assert check_follows(Life(MINE, 1), Life(None, 0), scope="rows") == Life(MINE, 1)
    assert check_follows(Life(MINE, 9), Life(None, 8), scope="rows") == Life(MINE, 9)


def test_a_life_that_began_when_the_one_before_was_forgotten_is_followed() -> None:
    first = Birth(MINE, 1)
    second = first.next(OTHER, epoch=9)
    third = second.next("3" * 32, epoch=12)
    for birth in (second, third):
        now = Life(birth.identity, 9, birth.former)
        assert check_follows(now, Life(MINE, 7), scope="rows") == now
    with pytest.raises(OwnerMismatch, match="was in epoch 9, and has epoch 8 now"):
        check_follows(Life(OTHER, 8, second.former), Life(MINE, 9), scope="rows")
    with pytest.raises(OwnerMismatch, match="was that of owner 22222222, and names owner 11111111 now"):
        check_follows(Life(MINE, 9), Life(OTHER, 9, second.former), scope="rows")


def test_an_identity_names_the_newest_lives_before_it() -> None:
    birth = Birth("0", 1)
    for number in range(1, 100):
        birth = birth.next(str(number), epoch=number)
    assert birth.former == tuple(str(number) for number in range(49, 99))


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (Life(None, 0), "was in epoch 7, and has nothing now"),
        (Life(MINE, 6), "was in epoch 7, and has epoch 6 now"),
        (Life(OTHER, 9), "was that of owner 11111111, and names owner 22222222 now"),
        (Life(None, 9), "was that of owner 11111111, and names none now"),
    ],
    ids=["emptied", "an older copy", "another store", "its identity was removed"],
)
def test_a_store_that_forgot_is_refused(now: Life, why: str) -> None:
    with pytest.raises(
        OwnerMismatch,
        match=f"scope 'rows' in the store {why}: .*; restore the store; to begin anew, use another --scope",
    ):
        check_follows(now, Life(MINE, 7), scope="rows")


def test_the_identity_is_read_as_it_was_written() -> None:
    birth = Birth(MINE, 9, (OTHER,))
    put = put_identity(birth, replaces=Version("4"))
    assert birth_in([record(IDENTITY, put.value)]) == birth
    assert (put.key, put.replaces, put.session) == (IDENTITY, Version("4"), None)
    assert birth_in([record(Key("epoch")), record(IDENTITY, put.value)]) == birth
    assert birth_in([record(Key("epoch"))]) is None


@pytest.mark.parametrize(
    "value",
    [
        b"\x00",
        b"{}",
        encode({"identity": 7, "epoch": 1, "former": []}),
        encode({"identity": MINE, "epoch": "1", "former": []}),
        encode({"identity": MINE, "epoch": 1, "former": [7]}),
    ],
)
def test_one_that_does_not_decode_is_loud(value: bytes) -> None:
    with pytest.raises(CorruptRecord, match="'identity'"):
        birth_in([record(IDENTITY, value)])


def test_an_area_without_a_checkpoint_has_none() -> None:
    area = CHECKPOINTS.child("counts")
    assert not has_checkpoints([record(CHECKPOINTS), record(area), record(Key("results/result"))])
    assert has_checkpoints([record(area), record(area.child("000000000000"))])
