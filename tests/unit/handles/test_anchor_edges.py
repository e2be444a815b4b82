"""Every interleaving of locks and removals, under the real rules of `anchor_rules` and under weaker rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tenure.coordination.records import Delete, Exact, Key, Put, Record
from tenure.handles import anchor_rules
from tenure.handles.anchor_rules import Sight
from tests.unit.handles.anchor_model import HANDLE, Bounds, Request, explore


@pytest.mark.parametrize("pins", [False, True], ids=["locks", "pins"])
@pytest.mark.parametrize("has_anchor", [True, False])
def test_no_interleaving_breaks_a_pointer_a_lock_or_an_answer(has_anchor: bool, pins: bool) -> None:
    states, found = explore(Bounds(has_anchor=has_anchor, pins=pins))
    assert states > 10_000
    assert found == set()


@pytest.mark.long
@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(unknowns=2),
        Bounds(readers=2, locks=1),
        Bounds(readers=2, operations=4, locks=1),
        Bounds(unknowns=2, pins=True),
        Bounds(readers=2, locks=1, pins=True),
    ],
    ids=str,
)
def test_nor_do_more_readers_operations_and_lost_replies(bounds: Bounds) -> None:
    assert explore(bounds)[1] == set()


PRESENTED = anchor_rules.presented


def no_move_by_a_lock(sight: Sight, area: Key, value: bytes, *, handle: Exact, lock: Put) -> Request:
    return (handle,), (lock,)


def nothing_presented(sight: Sight, area: Key, value: bytes, *, moves: bool) -> Request:
    return (), ()


def no_move_by_a_removal(sight: Sight, area: Key, value: bytes, *, moves: bool) -> Request:
    return PRESENTED(sight, area, value, moves=False)


def never_listed(sight: Sight, handles: Iterable[Key]) -> bool:
    return False


def none_forgotten(sight: Sight, records: Iterable[Record]) -> Sight:
    return replace(sight, locked=(sight.locked or frozenset()) | {HANDLE for _ in records})


def no_move_by_an_unpin(sight: Sight, area: Key, value: bytes, *, pin: Delete) -> Request:
    return (), (pin,)


LOCKED, RESTORED = "a locked handle is gone", "a pointer without its blob"


@pytest.mark.parametrize(
    ("changes", "bounds", "finds"),
    [
        ({"lock_request": no_move_by_a_lock}, Bounds(), LOCKED),
        ({"presented": nothing_presented}, Bounds(), LOCKED),
        ({"presented": nothing_presented}, Bounds(operations=4, locks=0), RESTORED),
        ({"presented": no_move_by_a_removal}, Bounds(operations=4, locks=0), RESTORED),
        ({"may_be_locked": never_listed}, Bounds(), LOCKED),
        ({"listed": none_forgotten}, Bounds(), "a handle stays for ever"),
        ({}, Bounds(lists_first=True), LOCKED),
        ({}, Bounds(handle_first=True), "a locked blob is gone"),
        ({}, Bounds(keeps_locks=True), LOCKED),
        ({}, Bounds(locks_anew=True), "a lock is believed that is not there"),
        ({"lock_request": no_move_by_a_lock}, Bounds(pins=True), LOCKED),
        ({"unpin_request": no_move_by_an_unpin}, Bounds(pins=True), "a handle stays for ever"),
    ],
    ids=[
        "a lock moves no anchor",
        "a removal presents no anchor",
        "no write presents an anchor",
        "a removal moves no anchor",
        "the locks are never listed",
        "a lock that is gone stays known",
        "the locks are listed before the anchor is read",
        "a reader reads the handle before the anchor",
        "the locks are not listed again under another anchor",
        "a reader gives two of its locks one key",
        "a pin moves no anchor",
        "the end of a pin moves no anchor",
    ],
)
def test_each_rule_is_needed(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], bounds: Bounds, finds: str
) -> None:
    for rule, weaker in changes.items():
        monkeypatch.setattr(anchor_rules, rule, weaker)
    assert finds in explore(bounds, until=finds)[1]
