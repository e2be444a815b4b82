"""What the streams of `pipelines/kinds.py` must have written, computed without Spark; and the comparison.

Event i has id i, happens i seconds after the start, and belongs to key i mod 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = 5
_WINDOW_S = 20
_DELAY_S = 10

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an output differs from the truth, as multisets of rows."""

    lost: Counter[Row]
    surplus: Counter[Row]

    @property
    def right(self) -> bool:
        """Whether nothing is lost and nothing is there that should not be."""
        return not self.lost and not self.surplus


def compare(expected: Iterable[Row], found: Iterable[Row]) -> Verdict:
    """The rows that are missing, and those that are there too often or should not be."""
    wanted, got = Counter(expected), Counter(found)
    return Verdict(lost=wanted - got, surplus=got - wanted)


def moment(event: int) -> datetime:
    """When the event happens."""
    return START + timedelta(seconds=event)


def expected(stream: str, events: int) -> list[Row]:
    """The rows of a stream after the events 0 .. events-1, and a watermark that has come to rest."""
    match stream:
        case "passed" | "files":
            return [(i,) for i in range(events)]
        case "windows":
            return _windows(events)
        case "joined":
            return [(i, i + 1) for i in range(events - 1)]
        case "unique":
            return [(half,) for half in range((events + 1) // 2)]
        case "counts":
            mine = {key: range(key, events, KEYS) for key in range(min(KEYS, events))}
            return [(key, len(ids), ids[-1]) for key, ids in mine.items()]
    raise ValueError(stream)


def _windows(events: int) -> list[Row]:
    """The windows whose end the watermark (newest event - delay) has reached."""
    closed_until = events - 1 - _DELAY_S
    starts = range(0, closed_until - _WINDOW_S + 1, _WINDOW_S)
    return [(moment(start), _WINDOW_S, sum(range(start, start + _WINDOW_S))) for start in starts]
