"""Pinned checkpoints: retention, sweeps, a leader that goes on, deaths at each step, and commands at the same time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tenure.checkpoints.run_name import RunName
from tenure.cleanup.claims import orphans_of, read_claims
from tenure.cleanup.ended_pipeline import cleanables_of
from tenure.cleanup.orphans import Claims
from tenure.coordination.candidates import AskedBy
from tenure.errors import CorruptRunDirectory, HandleLocked, StorageError, UsageError
from tenure.handles.pins import Pin, pins_in
from tenure.moves.lost_store import find_lost
from tenure.operate import pinning
from tenure.operate.pinning import pin, unpin
from tenure.operate.verifying import all_kept, one_batch, verify
from tenure.rundirs import seeding
from tests.kit.faulty import FaultyStore, commits, writes_under
from tests.kit.memory import MemoryServer, MemoryStore
from tests.support.checkpointed import KEPT, QUERY, RUN, SCOPE, Checkpointed
from tests.unit.rundirs.made_by_hand import NEWEST, content_of, put

ROOT = AskedBy("root@host", "audit")


class Bench(Checkpointed):
    store: FaultyStore

    def __init__(self, folder: Path) -> None:
        super().__init__(FaultyStore(MemoryStore(MemoryServer())), folder)

    def pin(self, batch: int | None = None, *, asked: AskedBy = ROOT) -> pinning.Pinned:
        return pin(self.context, QUERY, batch, asked=asked)

    @property
    def pins(self) -> list[Pin]:
        return pins_in(self.store.list(SCOPE, "").records)

    @property
    def copies(self) -> set[str]:
        folder = self.run.parent
        return {f"runs/{QUERY}/{one.name}" for one in folder.iterdir() if "-pin-" in one.name}

    def go_on(self, until: int) -> None:
        with self.led() as term:
            for batch in range(self.batches[-1] + 1, until + 1):
                self.plan(term, batch)

    def sweep(self) -> None:
        """As a leader of a later epoch sweeps."""
        with self.led("ben") as term:
            for row in orphans_of(self.context, Claims(term.epoch, term.holder)).values():
                for name in row.find():
                    row.remove(term, name)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_a_pinned_checkpoint_stays_whole_though_its_run_directory_loses_it(bench: Bench) -> None:
    pinned = bench.pin(KEPT[0])
    assert (pinned.batch, pinned.is_new, pinned.pin.whole) == (KEPT[0], True, True)
    assert (pinned.pin.by, pinned.pin.reason) == ("root@host", "audit")
    before = content_of(str(bench.run.parent.parent.parent / pinned.pin.copy))
    assert len(before) == pinned.files
    bench.go_on(NEWEST + 4)
    assert bench.batches == [KEPT[0], NEWEST + 2, NEWEST + 3, NEWEST + 4]
    for old in bench.run.glob("state/0/*/1[0-2]_*"):
        old.unlink()  # as Spark removes the state of old batches
    (found,) = verify(bench.context, QUERY, chosen=one_batch(KEPT[0]))
    assert found.damage == ()
    bench.sweep()
    assert content_of(str(bench.run.parent.parent.parent / pinned.pin.copy)) == before
    assert bench.copies == {pinned.pin.copy}


def test_a_checkpoint_that_is_not_pinned_is_lost_then(bench: Bench) -> None:
    for old in bench.run.glob("state/0/*/1[0-2]_*"):
        old.unlink()
    (found,) = verify(bench.context, QUERY, chosen=one_batch(KEPT[0]))
    assert len(found.damage) == 2


def test_damage_of_a_copy_is_found(bench: Bench) -> None:
    copy = bench.run.parent.parent.parent / bench.pin(KEPT[0]).pin.copy
    (copy / "metadata").unlink()
    older, *others = verify(bench.context, QUERY, chosen=all_kept)
    assert older.damage == (f"{copy}/metadata is missing",)
    assert [one.damage for one in others] == [(), ()]
    bench.pin(NEWEST)
    (bench.run / "metadata").unlink()
    *_, newest = verify(bench.context, QUERY, chosen=all_kept)
    assert newest.damage == (f"{bench.run}/metadata is missing",), "a takeover reads the run directory"


def test_unpinned_it_goes_by_retention_and_its_copy_at_once(bench: Bench) -> None:
    made = bench.pin(KEPT[0]).pin
    assert unpin(bench.context, QUERY, KEPT[0]) == (made, None)
    assert not bench.copies
    assert unpin(bench.context, QUERY, KEPT[0]) == (None, None)
    bench.go_on(NEWEST + 1)
    assert bench.batches == [NEWEST - 1, NEWEST, NEWEST + 1]


def test_a_copy_that_cannot_be_removed_goes_by_the_next_sweep(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.pin(KEPT[0])

    def fails(url: str) -> None:
        raise StorageError("no such right")

    monkeypatch.setattr(pinning, "remove_tree", fails)
    _, failed = unpin(bench.context, QUERY, KEPT[0])
    assert failed is not None
    assert len(bench.copies) == 1
    bench.sweep()
    assert not bench.copies
    assert bench.run.exists()


def test_pinned_twice_it_is_pinned_once(bench: Bench) -> None:
    first = bench.pin()
    assert first.batch == NEWEST
    again = bench.pin(NEWEST, asked=AskedBy("another@host", "also"))
    assert (again.pin, again.is_new) == (first.pin, False)
    assert bench.copies == {first.pin.copy}


@pytest.mark.parametrize("step", ["before the copy", "in the copy", "after the copy"])
def test_a_death_at_any_step_is_completed_by_the_same_command(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real = seeding.seed

    def die(source: str, target: str, *rest: Any) -> int:
        if step == "in the copy":
            Path(target.removeprefix("file://")).mkdir()
        if step == "after the copy":
            real(source, target, *rest)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pinning, "seed", die)
        with pytest.raises(KeyboardInterrupt):
            bench.pin(KEPT[0])
    (half,) = bench.pins
    assert not half.whole
    bench.go_on(NEWEST + 3)
    assert bench.batches[0] == KEPT[0], "from the first step on it stays"
    whole = bench.pin(KEPT[0])
    assert whole.pin.whole
    assert whole.pin.copy != half.copy
    assert bench.pins == [whole.pin]
    bench.sweep()
    assert bench.copies == {whole.pin.copy}


def test_a_sweep_between_the_steps_takes_neither_the_copy_nor_its_source(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = seeding.seed

    def sweep_after(source: str, target: str, *rest: Any) -> int:
        files = real(source, target, *rest)
        with bench.led("ben") as term:  # the newest is retaken: its old run directory is named by the pin alone
            other = f"runs/{QUERY}/e00000009-ben-0123456789ab"
            bench.context.checkpoints(QUERY).retake(term, run_directory=other)
            put(f"{bench.context.storage}/{other}/commits/{NEWEST}", "v1\n{}")
            for one in KEPT[:2]:
                bench.context.checkpoint_handles(QUERY).remove(term, f"{one:012d}")
            named = read_claims(bench.context, Claims(term.epoch, term.holder)).named
        assert {RUN, target.removeprefix(f"{bench.context.storage}/")} <= named
        return files

    monkeypatch.setattr(pinning, "seed", sweep_after)
    assert bench.pin(NEWEST).pin.whole


def test_a_retaken_checkpoint_is_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def retaken(call: Any, proceed: Any) -> Any:
        with bench.led("ben") as term:
            bench.context.checkpoints(QUERY).retake(term, run_directory=RUN)
        return proceed()

    bench.store.script(retaken, when=writes_under("checkpoints"), times=1)
    assert bench.pin(NEWEST).pin.whole
    assert len(bench.pins) == 1


def test_retention_just_before_the_pin_is_one_clear_line(bench: Bench) -> None:
    def drop(call: Any, proceed: Any) -> Any:
        bench.go_on(NEWEST + 1)
        return proceed()

    bench.store.script(drop, when=commits, times=1)
    with pytest.raises(UsageError, match=r"no checkpoint of that batch in scope 'rows'; kept batches: \[12, 13, 14\]"):
        bench.pin(KEPT[0])
    assert not bench.pins
    assert not bench.copies


def test_a_pin_just_before_retention_keeps_the_checkpoint(bench: Bench) -> None:
    def pinned(call: Any, proceed: Any) -> Any:
        bench.pin(KEPT[0])
        return proceed()

    with bench.led() as term:
        checkpoints = bench.context.checkpoints(QUERY)
        checkpoints.newest(term)
        bench.store.script(pinned, when=commits, times=1)
        checkpoints.plan(term, bench.checkpoint(NEWEST + 1, term))
    assert bench.batches == [*KEPT, NEWEST + 1]


def test_a_damaged_checkpoint_is_not_pinned(bench: Bench) -> None:
    (bench.run / "metadata").unlink()
    with pytest.raises(CorruptRunDirectory, match="metadata is missing"):
        bench.pin(KEPT[0])
    assert not bench.pins
    assert not bench.copies


def test_a_storage_that_fails_leaves_a_pin_to_complete(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> int:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(pinning, "seed", fails)
        with pytest.raises(StorageError):
            bench.pin(KEPT[0])
    (half,) = bench.pins
    assert not half.whole
    assert bench.pin(KEPT[0]).pin.whole


def test_of_two_commands_that_copy_the_first_one_gives_up(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real, seeds = seeding.seed, 0

    def other_first(*given: Any) -> int:
        nonlocal seeds
        seeds += 1
        if seeds == 1:
            assert bench.pin(KEPT[0], asked=AskedBy("other", "")).pin.whole
        return real(*given)

    monkeypatch.setattr(pinning, "seed", other_first)
    with pytest.raises(UsageError, match="was unpinned meanwhile, or another command pins it"):
        bench.pin(KEPT[0])
    (one,) = bench.pins
    assert one.whole
    bench.sweep()
    assert bench.copies == {one.copy}


def test_a_pin_that_is_taken_away_while_it_is_copied(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = seeding.seed

    def unpinned(*given: Any) -> int:
        unpin(bench.context, QUERY, KEPT[0])
        return real(*given)

    monkeypatch.setattr(pinning, "seed", unpinned)
    with pytest.raises(UsageError, match="was unpinned meanwhile"):
        bench.pin(KEPT[0])
    assert not bench.pins


def test_what_cannot_be_pinned(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"query 'other' has no checkpoint in scope 'rows'; known: \['copy'\]"):
        pin(bench.context, "other", None, asked=ROOT)
    for verb in (lambda: bench.pin(3), lambda: unpin(bench.context, QUERY, 3)):
        with pytest.raises(UsageError, match=r"kept batches: \[11, 12, 13\]"):
            verb()


def test_an_ended_pipeline_keeps_a_pinned_checkpoint_until_it_is_unpinned(bench: Bench) -> None:
    bench.pin(NEWEST)
    checkpoints = cleanables_of(bench.context)["checkpoints"]
    with bench.led() as term:
        with pytest.raises(HandleLocked, match="is pinned; release it by tenure checkpoints unpin"):
            checkpoints.remove(term, f"{QUERY}/{NEWEST:012d}")
        unpin(bench.context, QUERY, NEWEST)
        checkpoints.remove(term, f"{QUERY}/{NEWEST:012d}")


def test_a_pin_that_names_another_folder_removes_nothing_there(bench: Bench) -> None:
    made = bench.pin(NEWEST).pin
    assert bench.context.pins(QUERY).change(replace(made, copy=RUN)) is not None
    unpin(bench.context, QUERY, NEWEST)
    assert bench.run.exists()


def test_a_lost_store_goes_on_from_no_copy(bench: Bench) -> None:
    bench.pin(KEPT[0])
    (found,) = find_lost(bench.context.storage)
    assert str(found.run) == RUN
    (bench.run / "metadata").unlink()  # no member can have run there
    with pytest.raises(UsageError, match="has no run directory to go on from"):
        find_lost(bench.context.storage)


def test_the_name_of_a_copy() -> None:
    name = RunName.pinned(QUERY)
    assert RunName.parse(str(name)) == name
    assert name.is_pinned
    assert not RunName.new(QUERY, epoch=1, member="pin").is_pinned
