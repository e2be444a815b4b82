"""The soak's ledger takes each batch once, refuses lower epochs, and holds nobody up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.ledger import Call, Calls, Entry, Ledger, RefusedError, broken, folded


def entry(batch: int, *, epoch: int = 1, query_id: str = "q", rows: list[list[int]] | None = None) -> Entry:
    return Entry("soak", query_id, batch, epoch, rows if rows is not None else [[batch]])


def test_a_batch_is_taken_once(tmp_path: Path) -> None:
    first, second = Ledger(tmp_path), Ledger(tmp_path)
    assert first.put(entry(0))
    assert second.put(entry(1))
    assert not first.put(entry(1, epoch=2))
    assert not second.put(entry(0, epoch=2))
    assert [(one.batch, one.epoch) for one in first.entries()] == [(0, 1), (1, 1)]


def test_a_lower_epoch_is_refused_once_a_higher_one_has_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.put(entry(0, epoch=3))
    with pytest.raises(RefusedError, match="epoch 3 has written"):
        Ledger(tmp_path).put(entry(1, epoch=2))
    with pytest.raises(RefusedError):
        ledger.put(entry(0, epoch=2))
    assert ledger.put(entry(1, epoch=3))


def test_what_was_judged_by_an_older_ledger_is_judged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = Ledger(tmp_path), Ledger(tmp_path)
    known = slow.entries
    overtaken = False

    def late() -> list[Entry]:
        nonlocal overtaken
        found = known()
        if not overtaken:
            overtaken = True
            fast.put(entry(0, epoch=2))
        return found

    monkeypatch.setattr(slow, "entries", late)
    with pytest.raises(RefusedError):
        slow.put(entry(0, epoch=1))
    assert len(fast.entries()) == 1
    assert not list((tmp_path / "ledger").glob(".*")), "nothing hidden is left"


def test_entries_add_up_by_mode() -> None:
    entries = [entry(0, rows=[[1, 10], [2, 20]]), entry(1, rows=[[1, 11]]), entry(2, rows=[])]
    assert folded(entries, mode="append", key=0) == [[1, 10], [2, 20], [1, 11]]
    assert folded(entries, mode="update", key=1) == [[1, 11], [2, 20]]
    assert folded(entries[:2], mode="complete", key=0) == [[1, 11]]
    assert folded([], mode="complete", key=0) == []


def test_a_ledger_that_is_out_of_order_is_reported() -> None:
    assert broken([entry(0), entry(1), entry(2, epoch=4)]) == []
    assert broken([]) == []
    assert broken([entry(1)]) == ["the first batch is 1"]
    assert broken([entry(0), entry(2)]) == ["batch 2 follows batch 0"]
    assert broken([entry(0, epoch=2), entry(1, epoch=1)]) == ["batch 1 of epoch 1 follows epoch 2"]
    assert broken([entry(0), entry(0, query_id="r")]) == ["batch 0 has another query id: everything was begun anew"]


def test_a_call_is_late_when_a_later_leader_had_written(tmp_path: Path) -> None:
    calls = Calls(tmp_path)
    assert calls.read() == []
    calls.note(Call(epoch=2, batch=5, newest=2, ended="", rows=-1))
    calls.note(Call(epoch=2, batch=5, newest=3, ended="", rows=-1))
    assert [call.late for call in calls.read()] == [False, True]
