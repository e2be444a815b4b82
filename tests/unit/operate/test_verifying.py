"""Checkpoints that are verified while nothing, or a leader, moves them; and what damage means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.records import Put
from tenure.errors import UsageError
from tenure.operate import verifying
from tenure.operate.checkpoint_rules import advice
from tenure.operate.verifying import all_kept, known_queries, one_batch, verify
from tenure.rundirs import inspecting
from tests.kit.memory import MemoryServer, MemoryStore
from tests.support.checkpointed import KEPT, QUERY, SCOPE, Checkpointed
from tests.unit.rundirs.made_by_hand import NEWEST


@pytest.fixture
def scope(tmp_path: Path) -> Checkpointed:
    return Checkpointed(MemoryStore(MemoryServer()), tmp_path)


def test_whole_checkpoints(scope: Checkpointed) -> None:
    assert known_queries(scope.context) == [QUERY]
    assert [(one.batch, one.damage, one.advice) for one in verify(scope.context, QUERY)] == [(NEWEST, (), None)]
    assert [(one.batch, one.damage) for one in verify(scope.context, QUERY, chosen=all_kept)] == [
        (batch, ()) for batch in KEPT
    ]
    assert [one.batch for one in verify(scope.context, QUERY, chosen=one_batch(KEPT[0]))] == [KEPT[0]]


def test_damage_is_that_of_its_checkpoint(scope: Checkpointed) -> None:
    (scope.run / "sources" / "0" / str(NEWEST)).unlink()
    older, before, newest = verify(scope.context, QUERY, chosen=all_kept)
    assert (older.damage, before.damage) == ((), ())
    assert newest.damage == (f"{scope.run}/sources/0/{NEWEST} is missing",)
    assert newest.advice == advice(newest=NEWEST, batch=NEWEST, leader=None)


def test_what_damage_means() -> None:
    old = advice(newest=9, batch=8, leader="anna")
    assert "no takeover reads it" in old.meaning
    alone, led = advice(newest=9, batch=9, leader=None), advice(newest=9, batch=9, leader="anna")
    assert "no member can go on" in alone.meaning
    assert "anna goes on, and a takeover would end with exit code 5" in led.meaning
    assert "let anna lead: no switchover" in led.fix


def test_a_leader_is_named(scope: Checkpointed) -> None:
    (scope.run / "metadata").unlink()
    with scope.led("ben"):
        (found,) = verify(scope.context, QUERY)
    assert found.advice is not None
    assert "let ben lead" in found.advice.fix


def test_a_record_that_does_not_decode_is_damage_of_its_own(scope: Checkpointed) -> None:
    key = CHECKPOINTS.child(QUERY).child(checkpoint_name(KEPT[0]))
    record = scope.store.read(SCOPE, key)
    assert record is not None
    scope.store.commit(SCOPE, guards=(), writes=(Put(key, b"{}", replaces=record.version),))
    older, before, newest = verify(scope.context, QUERY, chosen=all_kept)
    assert older.checkpoint is None
    assert len(older.damage) == 1
    assert repr(str(key)) in older.damage[0]
    assert (before.damage, newest.damage) == ((), ())


def test_a_checkpoint_that_goes_meanwhile_is_not_damaged(scope: Checkpointed, monkeypatch: pytest.MonkeyPatch) -> None:
    real = inspecting.damages_of
    calls: list[int] = []

    def gone(url: str, checkpoint: Any) -> list[str]:
        calls.append(checkpoint.batch)
        if checkpoint.batch == KEPT[0]:
            with scope.led() as term:
                scope.plan(term, NEWEST + 1)
            return ["its files went"]
        return real(url, checkpoint)

    monkeypatch.setattr(verifying, "damages_of", gone)
    found = verify(scope.context, QUERY, chosen=all_kept)
    assert [(one.batch, one.damage) for one in found[:2]] == [(KEPT[1], ()), (KEPT[2], ())]
    assert found[2].batch == NEWEST + 1, "they are read anew"
    assert len(calls) == 6


def test_unknown_queries_and_batches(scope: Checkpointed) -> None:
    with pytest.raises(UsageError, match=r"query 'other' has no checkpoint in scope 'rows'; known: \['copy'\]"):
        verify(scope.context, "other")
    with pytest.raises(UsageError, match=r"no checkpoint of that batch in scope 'rows'; kept batches: \[11, 12, 13\]"):
        verify(scope.context, QUERY, chosen=one_batch(3))
