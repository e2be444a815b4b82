"""Durations as people write them (`500ms`, `5s`, `2m`, `1h`), and the ages that people read."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)\Z")


def parse_duration(value: object) -> timedelta:
    """`500ms`, `5s`, `2m`, `1h` as a timedelta. Raises ValueError."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.match(str(value).strip())
    if match is None:
        raise ValueError("a duration is a number with a unit: 500ms, 5s, 2m, 1h")
    try:
        return timedelta(seconds=float(match.group(1)) * _UNITS[match.group(2)])
    except OverflowError:
        raise ValueError("the duration is longer than anybody can wait") from None


def ago(since: str, *, now: datetime) -> str:
    """How long before `now` a time in ISO 8601 was, in its largest unit: 12 s ago, 3 d ago. A text that is no time is
    returned as it is."""
    seconds = seconds_since(since, now=now)
    return since if seconds is None else f"{lasting(seconds)} ago"


def seconds_since(since: str, *, now: datetime) -> float | None:
    """How long before `now` a time in ISO 8601 was, at least 0; None: the text is no time, or has no zone."""
    try:
        return max(0.0, (now - datetime.fromisoformat(since)).total_seconds())
    except (ValueError, TypeError):
        return None


def clock_time(text: str, *, now: datetime) -> str:
    """A time in ISO 8601 for people: 06:53:53 of the day of `now` (UTC), else 2030-01-01 06:53:53. A text that is no
    time is returned as it is."""
    try:
        at = datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return text
    return f"{at:%H:%M:%S}" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d %H:%M:%S}"


def lasting(seconds: float) -> str:
    """A duration in its largest unit: 12 s, 3 min, 5 h, 2 d."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds) // size} {unit}"
    return f"{int(seconds)} s"
