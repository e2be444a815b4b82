"""Durations as people write them: `500ms`, `5s`, `2m`, `1h`."""

from __future__ import annotations

import re
from datetime import timedelta

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
