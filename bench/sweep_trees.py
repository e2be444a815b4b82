"""The trees of `bench.sweep`, and its watch. Only the standard library: the peers are run by another Python.

For each shape the same number of files, all of which nobody needs: `flat`: blobs, all in one folder. `deep`: run
directories of which each is one chain of folders. `skewed`: one run directory with nearly all files, and many with a
few.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

KEPT: Final = "runs/q/e00000002-anna-0123456789ab"
"""A run directory that is needed."""
_IN_A_CHAIN: Final = 1000
_DEPTH: Final = 50
_LONG_AGO_S: Final = 1_600_000_000


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return round(time.perf_counter() - began, 3)


def flat(count: int) -> Iterator[str]:
    """Names of files."""
    return (f"blobs/e00000001/checkpoints/q/{number:012d}-lost" for number in range(count))


def deep(count: int) -> Iterator[str]:
    """As `flat`."""
    for number in range(count):
        chain, place = divmod(number, _IN_A_CHAIN)
        below = "/".join(f"{level:02d}" for level in range(place % _DEPTH + 1))
        yield f"runs/q/e00000001-anna-{chain:012x}/state/{below}/{place}.zip"


def skewed(count: int) -> Iterator[str]:
    """As `flat`."""
    few = min(count // 100, 10_000)
    for number in range(count - few):
        yield f"runs/q/e00000001-anna-{0:012x}/state/0/{number % 4}/{number}.zip"
    for number in range(few):
        yield f"runs/q/e00000001-anna-{number // 10 + 1:012x}/offsets/{number % 10}"


SHAPES: Final[Mapping[str, Callable[[int], Iterator[str]]]] = {"flat": flat, "deep": deep, "skewed": skewed}


def kept() -> Iterator[str]:
    """Names of files that are needed."""
    return (f"{KEPT}/offsets/{number}" for number in range(100))


def make_tree(root: str, shape: str, count: int, *, old: bool = False) -> None:
    """Empty files, and a few that are needed. `old`: last changed years ago."""
    made: set[str] = set()
    for names in (kept(), SHAPES[shape](count)):
        for name in names:
            path = f"{root}/{name}"
            folder = path.rpartition("/")[0]
            if folder not in made:
                os.makedirs(folder, exist_ok=True)
                made.add(folder)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
            if old:
                os.utime(path, (_LONG_AGO_S, _LONG_AGO_S))
