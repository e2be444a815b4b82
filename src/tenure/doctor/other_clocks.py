"""The wall clocks of others beside this host's.

Promise: a clock that is shown in whole seconds is taken for exact to half a second. No member is waited for longer
than two seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Final
from urllib.request import urlopen

from tenure.clock import Clock

_ANSWERS_S: Final = 2.0
_HALF_A_SECOND: Final = timedelta(seconds=0.5)


def ahead_of(clock: Clock, time: Callable[[], datetime | None]) -> tuple[float, float] | None:
    """By how many seconds another clock is ahead of this host's, and how exact that is; None: it is not shown."""
    before = clock.now()
    found = time()
    after = clock.now()
    if found is None:
        return None
    middle, half = before + (after - before) / 2, abs(after - before) / 2
    if found.microsecond == 0:  # in whole seconds, rounded down
        found, half = found + _HALF_A_SECOND, half + _HALF_A_SECOND
    return (found - middle).total_seconds(), half.total_seconds()


def time_at(address: str) -> datetime | None:
    """The time of the member whose probes are at `HOST:PORT`; None: no member answers there."""
    try:
        with urlopen(f"http://{address}/livez", timeout=_ANSWERS_S) as answer:
            return parsedate_to_datetime(answer.headers["Date"])
    except (OSError, HTTPException, ValueError, TypeError):
        return None
