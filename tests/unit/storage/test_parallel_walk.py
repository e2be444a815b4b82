"""Several walks at a time find what one after the other would."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.storage import parallel_walk as module
from tenure.storage.parallel_walk import side_by_side
from tenure.storage.unlisted import Rest
from tenure.testing.waiting import NEVER_S


@dataclass(frozen=True)
class Some:
    names: Sequence[str]


def walk_of(counts: dict[str, int]) -> Callable[[Sequence[Rest], int], Iterator[Some | Rest]]:
    """Folders of so many files, two of which come at once; what is left of one goes on behind its last file."""

    def walk(pieces: Sequence[Rest], budget: int) -> Iterator[Some | Rest]:
        for piece in pieces:
            done = int(piece.after or 0)
            end = min(counts[piece.folder], done + max(budget, 1))
            for first in range(done, end, 2):
                yield Some([f"{piece.folder}/{number}" for number in range(first, min(first + 2, end))])
            if end < counts[piece.folder]:
                yield Rest(piece.folder, str(end))

    return walk


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 60), st.integers(1, 9))
def test_all_comes_once_whatever_the_budgets_are(counts: list[int], budget: int, share: int) -> None:
    folders = {f"f{number}": count for number, count in enumerate(counts)}
    walk = walk_of(folders)
    found: list[str] = []
    left = [Rest(folder) for folder in folders]
    with patch.object(module, "SHARE", share):
        while left:
            told = list(side_by_side(walk, left, budget=budget))
            names = [name for one in told if isinstance(one, Some) for name in one.names]
            left = [one for one in told if isinstance(one, Rest)]
            assert len(names) <= budget
            assert len(names) == budget or not left, "nothing is left as long as there is room"
            found += names
    assert sorted(found) == sorted(f"{folder}/{number}" for folder, count in folders.items() for number in range(count))


def test_several_walk_at_a_time_and_no_more_than_that() -> None:
    together = threading.Barrier(module.AT_ONCE)
    running: list[str] = []
    most: list[int] = []

    def walk(pieces: Sequence[Rest], budget: int) -> Iterator[Some | Rest]:
        running.append(pieces[0].folder)
        most.append(len(running))
        together.wait(NEVER_S)
        running.remove(pieces[0].folder)
        yield Some([pieces[0].folder])

    folders = [f"f{number}" for number in range(2 * module.AT_ONCE)]
    found = list(side_by_side(walk, [Rest(folder) for folder in folders], budget=10**9))
    assert sorted(name for one in found if isinstance(one, Some) for name in one.names) == sorted(folders)
    assert max(most) <= module.AT_ONCE


def test_what_one_raises_is_raised_and_nobody_waits_for_the_others() -> None:
    hangs = threading.Event()

    def walk(pieces: Sequence[Rest], budget: int) -> Iterator[Some | Rest]:
        if pieces[0].folder == "bad":
            raise OSError("refused")
        assert hangs.wait(NEVER_S)
        yield Some([])

    try:
        with pytest.raises(OSError, match="refused"):
            list(side_by_side(walk, [Rest("hangs"), Rest("bad")], budget=10**9))
        assert not hangs.is_set()
        waiting = [thread for thread in threading.enumerate() if thread.name == "tenure-listing"]
        assert all(thread.daemon for thread in waiting), "or the process would not end"
        assert waiting
    finally:
        hangs.set()
    for thread in waiting:
        thread.join(NEVER_S)
