"""The machine's clock: monotonic, in UTC, and awake when an event is set."""

from __future__ import annotations

import threading
import time
from datetime import timedelta

from tenure.clock import SystemClock
from tests.kit.waiting import NEVER_S


def test_monotonic_never_goes_back_and_counts_in_seconds() -> None:
    clock = SystemClock()
    readings = [clock.monotonic_s() for _ in range(1000)]
    assert readings == sorted(readings)
    before = clock.monotonic_s()
    clock.sleep(0.02)
    assert 0.02 <= clock.monotonic_s() - before < NEVER_S


def test_it_counts_while_the_machine_is_suspended_where_the_kernel_can() -> None:
    assert SystemClock._clock_id == getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def test_the_wall_clock_is_utc() -> None:
    assert SystemClock().now().utcoffset() == timedelta(0)


def test_waiting_ends_with_the_event_or_the_timeout() -> None:
    clock = SystemClock()
    event = threading.Event()
    assert not clock.wait(event, timeout_s=0.01)
    assert not clock.wait(event, timeout_s=-5)
    threading.Timer(0.02, event.set).start()
    before = clock.monotonic_s()
    assert clock.wait(event, timeout_s=NEVER_S)
    assert clock.monotonic_s() - before < NEVER_S / 2
    assert clock.wait(event, timeout_s=0)
