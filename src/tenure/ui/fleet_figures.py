"""Pure: the pictures of all scopes -> the figures of `tenure ui` for Prometheus, by which a scope without a live member
is seen, too.

Promise: a figure is of the store alone, at the moment of the scrape. A scope whose records do not decode has a level
and no other figure. `SCOPE_METRICS` has every figure. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from tenure.coordination.records import Scope
from tenure.errors import Corrupt
from tenure.operate.picture import ScopePicture
from tenure.operate.verdict import Level, verdict

_LEVELS: Final[Mapping[Level, int]] = {Level.OK: 0, Level.WARN: 1, Level.BAD: 2}


def _planned_s(picture: ScopePicture) -> float | None:
    times = [query.planned_at for query in picture.snapshot.queries if query.planned_at]
    try:
        return datetime.fromisoformat(max(times)).timestamp() if times else None
    except ValueError:  # a record of an unknown version
        return None


_OF_PICTURE: Final[Mapping[str, tuple[str, Callable[[ScopePicture], float | None]]]] = {
    "scope_led": ("1 while a member leads the scope", lambda picture: float(picture.led)),
    "scope_members": ("The live members of the scope", lambda picture: len(picture.snapshot.members)),
    "scope_paused": ("1 while no member is elected", lambda picture: float(picture.snapshot.paused)),
    "scope_ended": ("1 after the pipeline has ended for good", lambda picture: float(picture.result is not None)),
    "scope_epoch": ("The newest epoch; 0: no member ever led", lambda picture: picture.snapshot.epoch),
    "scope_last_plan_timestamp_seconds": ("When the newest batch was planned", _planned_s),
}

LEVEL: Final = "scope_level"

SCOPE_METRICS: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    LEVEL: ("gauge", "The verdict of tenure status: 0 ok, 1 warn, 2 bad", ()),
    **{name: ("gauge", what, ()) for name, (what, _) in _OF_PICTURE.items()},
}
"""Each figure, without `tenure_`: its type, what it says, and its labels beside `scope`."""


def fleet_page(pictures: Iterable[tuple[Scope, ScopePicture | Corrupt]]) -> str:
    """The page in Prometheus' text format. The name of a scope needs no quoting."""
    values: dict[str, list[str]] = {name: [] for name in SCOPE_METRICS}
    for scope, picture in pictures:
        for name, value in _values(picture):
            values[name].append(f'tenure_{name}{{scope="{scope}"}} {value!r}\n')
    return "".join(
        f"# HELP tenure_{name} {what}\n# TYPE tenure_{name} {kind}\n{''.join(values[name])}"
        for name, (kind, what, _) in SCOPE_METRICS.items()
    )


def _values(picture: ScopePicture | Corrupt) -> Iterator[tuple[str, float]]:
    if isinstance(picture, Corrupt):
        yield LEVEL, _LEVELS[Level.BAD]
        return
    yield LEVEL, _LEVELS[verdict(picture).level]
    for name, (_, of) in _OF_PICTURE.items():
        if (found := of(picture)) is not None:
            yield name, found
