"""The rests between rehearsals: as long as the requests were too many, and no longer than the standby's life."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from tenure.takeover.rehearsal import Pace
from tests.kit.clock import ManualClock


@pytest.mark.parametrize(("requests", "took_s", "rest_s"), [(28, 0, 20), (28, 8, 12), (28, 30, 0), (0, 0, 0)])
def test_a_rest_makes_up_for_the_requests(requests: int, took_s: float, rest_s: float) -> None:
    clock = ManualClock(sleeping_advances=True)
    made = 1000
    pace = Pace(lambda: made, clock)
    for _ in range(2):
        pace.begin()
        made += requests
        clock.advance(timedelta(seconds=took_s))
        before_s = clock.monotonic_s()
        pace.rest(threading.Event())
        assert clock.monotonic_s() - before_s == pytest.approx(rest_s)


def test_a_rest_ends_with_the_standby() -> None:
    clock, stop = ManualClock(), threading.Event()
    counts = iter((0, 10**9))
    pace = Pace(lambda: next(counts), clock)
    pace.begin()
    stop.set()
    pace.rest(stop)
    assert clock.monotonic_s() == 0
