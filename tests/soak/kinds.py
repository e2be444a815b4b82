"""The kinds of queries: what each one reads, and what it must have written. Pure; computed without Spark.

Event i of a source has id i, happens i seconds after the start, and belongs to key i mod 5. A source is a folder of
files of consecutive events, so whatever an output shows, it was made from a prefix of each source: `shown` says which.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal

from tests.crash.truth import KEYS, START, Row, expected, moment

OutputMode = Literal["append", "complete", "update"]

EVENTS_A_FILE: Final = 21
"""Odd: what belongs together is cut in two."""

WINDOW: Final = timedelta(seconds=20)
DELAY: Final = timedelta(seconds=10)

Prefixes = Mapping[str, int]
"""Source -> how many of its events, from the first one on."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of query. `rows(fed)`: what it must have written once it has read these events, and its watermark has
    come to rest. `shown(rows)`: which events certainly were read, by what the output shows."""

    sources: tuple[str, ...]
    mode: OutputMode
    columns: tuple[str, ...]
    key: tuple[str, ...]
    """By which a row replaces an earlier one, in update mode."""
    rows: Callable[[Prefixes], list[Row]]
    shown: Callable[[Sequence[Row]], Prefixes]


def _counted(fed: Prefixes) -> list[Row]:
    """(key, how many, the sum of their ids, the largest id) of each key."""
    mine = [(key, range(key, fed["a"], KEYS)) for key in range(min(KEYS, fed["a"]))]
    return [(key, len(ids), sum(ids), ids[-1]) for key, ids in mine]


def _after(values: Collection[int]) -> int:
    """How many events there are up to the largest of these ids."""
    return max(values, default=-1) + 1


def _numbers(rows: Sequence[Row], column: int) -> list[int]:
    return [number for row in rows if isinstance(number := row[column], int)]


def _window_shown(rows: Sequence[Row]) -> Prefixes:
    """A window that is closed shows its events, and no later one."""
    ends = [(row[0] - START + WINDOW) // timedelta(seconds=1) for row in rows if isinstance(row[0], type(START))]
    return {"a": max(ends, default=0)}


TAGS: Final = (("a", "a"), ("again", "a"), ("b", "b"), ("c", "c"))
"""The four readings of `twice`: its tag, and the source."""


def _twice_rows(fed: Prefixes) -> list[Row]:
    return [(tag, i) for tag, source in TAGS for i in range(fed[source])]


def _twice_shown(rows: Sequence[Row]) -> Prefixes:
    def of(tag: str) -> int:
        return _after(_numbers([row for row in rows if row[0] == tag], 1))

    return {"a": min(of("a"), of("again")), "b": of("b"), "c": of("c")}


_COUNTS: Final = ("key", "rows", "ids", "largest")

KINDS: Final[Mapping[str, Kind]] = {
    "passed": Kind(
        ("a",), "append", ("id",), (),
        lambda fed: [(i,) for i in range(fed["a"])],
        lambda rows: {"a": _after(_numbers(rows, 0))},
    ),
    "windows": Kind(
        ("a",), "append", ("at", "rows", "ids"), (),
        lambda fed: expected("windows", fed["a"]),
        _window_shown,
    ),
    "unique": Kind(
        ("a",), "append", ("half",), (),
        lambda fed: expected("unique", fed["a"]),
        lambda rows: {"a": max(0, 2 * _after(_numbers(rows, 0)) - 1)},  # of its last pair, one event was read
    ),
    "counts": Kind(("a",), "update", _COUNTS, ("key",), _counted, lambda rows: {"a": _after(_numbers(rows, 3))}),
    "totals": Kind(("a",), "complete", _COUNTS, (), _counted, lambda rows: {"a": _after(_numbers(rows, 3))}),
    "joined": Kind(
        ("left", "right"), "append", ("id", "other"), (),
        lambda fed: [(i, i + 1) for i in range(min(fed["left"], fed["right"] - 1))],
        lambda rows: {"left": _after(_numbers(rows, 0)), "right": _after(_numbers(rows, 1))},
    ),
    "twice": Kind(("a", "b", "c"), "append", ("tag", "id"), (), _twice_rows, _twice_shown),
    "numbered": Kind(
        ("a",), "append", ("id", "number"), (),
        lambda fed: [(i, i // KEYS) for i in range(fed["a"])],
        lambda rows: {"a": _after(_numbers(rows, 0))},
    ),
}  # fmt: skip
"""`windows`, `counts`, `totals`: aggregates; `unique`: without doubles; `joined`: two streams; `twice`: a folder that
is read twice, and two others; `numbered`: a function in Python numbers the events of each key, by its state."""

KINDS_ASKED_FOR: Final = ("numbered",)
"""Kinds that have to be asked for, so that a seed draws what it always drew."""

__all__ = [
    "DELAY",
    "EVENTS_A_FILE",
    "KEYS",
    "KINDS",
    "KINDS_ASKED_FOR",
    "TAGS",
    "WINDOW",
    "Kind",
    "Prefixes",
    "Row",
    "moment",
]
