"""Retention is a pure function: what it drops, what it keeps, for all inputs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis.strategies import integers, lists, sets

from tenure.checkpoints.batch_rules import falls_out

batches = sets(integers(0, 10_000), max_size=40)


@given(batches, integers(1, 10), sets(integers(0, 10_000)))
def test_what_falls_out_is_the_oldest_surplus_that_nobody_locked(kept: set[int], keep: int, locked: set[int]) -> None:
    adding = max(kept, default=-1) + 1
    out = falls_out(sorted(kept), adding=adding, keep=keep, locked=locked)
    remaining = sorted((kept | {adding}) - set(out))
    assert out == sorted(out)
    assert set(out) <= kept
    assert not set(out) & locked
    assert adding in remaining
    assert remaining[-keep:] == sorted(kept | {adding})[-keep:], "the newest stay, whatever is locked"
    assert all(batch in locked for batch in remaining[:-keep]), "only a lock keeps an old one"


@given(lists(integers(0, 100), unique=True), integers(1, 10))
def test_the_order_of_the_input_does_not_matter(kept: list[int], keep: int) -> None:
    ordered = falls_out(sorted(kept), adding=101, keep=keep)
    assert falls_out(kept, adding=101, keep=keep) == ordered
    assert falls_out(kept[::-1], adding=101, keep=keep) == ordered


@given(batches, integers(1, 10))
def test_the_one_that_is_added_counts_once(kept: set[int], keep: int) -> None:
    adding = max(kept, default=0)
    assert adding not in falls_out(sorted(kept), adding=adding, keep=keep)
    assert falls_out(sorted(kept), adding=adding, keep=keep) == falls_out(
        sorted(kept - {adding}), adding=adding, keep=keep
    )


@given(batches, integers(1, 10))
def test_asked_again_after_its_answer_it_drops_nothing(kept: set[int], keep: int) -> None:
    adding = max(kept, default=-1) + 1
    left = sorted(kept - set(falls_out(sorted(kept), adding=adding, keep=keep)))
    assert falls_out(left, adding=adding, keep=keep) == []


@pytest.mark.parametrize("keep", [0, -1])
def test_at_least_one_is_kept(keep: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        falls_out([1], adding=2, keep=keep)
