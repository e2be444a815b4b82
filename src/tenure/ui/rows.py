"""Pure: the pictures of all scopes -> the rows of the page of all pipelines.

Promise: each scope has one row, with the same verdict as `tenure status`. A scope whose records do not decode has a row
with its trouble. A row names its fields one by one: nothing else of a picture is sent. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tenure.coordination.records import Scope
from tenure.errors import Corrupt
from tenure.operate.picture import ScopePicture
from tenure.operate.verdict import Level, Verdict, verdict

MOST: Final = 500
"""How many scopes a page shows: the worst."""

_ORDER: Final = (Level.BAD, Level.WARN, Level.OK)
_NAMED: Final = 3


def row_of(scope: Scope, picture: ScopePicture | Corrupt) -> dict[str, Any]:
    """The row of one scope."""
    if isinstance(picture, Corrupt):
        return {"scope": scope, "level": Level.BAD.value, "sentence": "a record does not decode", "cause": str(picture)}
    found, snapshot = verdict(picture), picture.snapshot
    worst = found.findings[0]
    times = [query.planned_at for query in snapshot.queries if query.planned_at]
    return {
        "scope": scope,
        "level": found.level.value,
        "sentence": worst.sentence,
        "cause": worst.cause,
        "do": worst.do,
        "leader": snapshot.leader,
        "epoch": snapshot.epoch,
        "standbys": len(picture.standbys),
        "ready": sum(one.ready for one in picture.standbys),
        "planned_at": max(times, default=None),
        "is_paused": snapshot.paused,
        "has_ended": picture.result is not None,
    }


def rows_of(pictures: Iterable[tuple[Scope, ScopePicture | Corrupt]]) -> Sequence[dict[str, Any]]:
    """The rows, the worst first, at most `MOST`."""
    rows = [row_of(scope, picture) for scope, picture in pictures]
    return sorted(rows, key=lambda row: (_ORDER.index(Level(row["level"])), row["scope"]))[:MOST]


def verdict_of_all(rows: Sequence[Mapping[str, Any]], *, total: int) -> dict[str, Any]:
    """One line for all scopes. `rows`: the worst first; `total`: how many scopes there are."""
    counts = {level: sum(row["level"] == level for row in rows) for level in _ORDER}
    worst = next((level for level in _ORDER if counts[level]), Level.OK)
    bad = [row["scope"] for row in rows if row["level"] == Level.BAD]
    named = ", ".join(bad[:_NAMED]) + (f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else "")
    if not rows:
        sentence = "no pipeline is in this store"
    elif bad:
        sentence = f"{len(bad)} of {_pipelines(total)} {'needs' if len(bad) == 1 else 'need'} you: {named}"
    elif counts[Level.WARN]:
        sentence = f"{counts[Level.WARN]} of {_pipelines(total)} to look at; the output of all goes on or waits for you"
    else:
        sentence = f"all is well with {_pipelines(total)}"
    return {
        "level": worst.value,
        "sentence": sentence,
        "total": total,
        "shown": len(rows),
        **{level.value: counts[level] for level in _ORDER},
    }


def findings_of(found: Verdict) -> list[dict[str, str]]:
    """The lines of a verdict."""
    return [
        {"rule": one.rule, "level": one.level.value, "sentence": one.sentence, "cause": one.cause, "do": one.do}
        for one in found.findings
    ]


def _pipelines(count: int) -> str:
    return f"{count} pipeline" if count == 1 else f"{count} pipelines"
