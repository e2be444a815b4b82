"""Retry policies are data; the loop retries what it was told to, and nothing else."""

from __future__ import annotations

from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

from tenure.errors import AccessDenied, GuardFailed, StoreUnavailable, TenureError
from tenure.retry import RetryPolicy, exponential_delay, fixed_delay, no_retry, retry
from tests.kit.clock import ManualClock


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


class Failing:
    """Fails `times` times, then answers."""

    def __init__(self, times: int, error: TenureError | None = None) -> None:
        self.calls = 0
        self._times = times
        self._error = error or StoreUnavailable("away")

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self._times:
            raise self._error
        return "done"


def test_exponential_delays_double_up_to_the_maximum() -> None:
    delays = exponential_delay(maximum=seconds(10)).delays_s(chance=lambda: 0.0)
    assert list(islice(delays, 6)) == [1, 2, 4, 8, 10, 10]


def test_the_defaults() -> None:
    policy = exponential_delay()
    assert (policy.initial, policy.maximum, policy.attempts) == (seconds(1), seconds(3600), None)


def test_fixed_delays_are_the_same() -> None:
    assert list(fixed_delay(delay=seconds(3), attempts=4).delays_s()) == [3, 3, 3]


def test_no_retry_is_one_attempt() -> None:
    call = Failing(1)
    with pytest.raises(StoreUnavailable):
        retry(call, policy=no_retry(), on=StoreUnavailable, clock=ManualClock())
    assert call.calls == 1


@given(floats(0, 1, exclude_max=True), floats(0, 1), integers(2, 20))
def test_jitter_only_shortens(drawn: float, jitter: float, attempts: int) -> None:
    policy = RetryPolicy(initial=seconds(1), maximum=seconds(30), attempts=attempts, jitter=jitter)
    plain = RetryPolicy(initial=seconds(1), maximum=seconds(30), attempts=attempts, jitter=0)
    found = list(policy.delays_s(chance=lambda: drawn))
    assert len(found) == attempts - 1
    assert all(0 <= delay <= full for delay, full in zip(found, plain.delays_s(), strict=True))


def test_it_waits_on_the_clock_between_the_attempts() -> None:
    clock = ManualClock(sleeping_advances=True)
    call = Failing(3)
    policy = fixed_delay(delay=seconds(5), attempts=4)
    assert retry(call, policy=policy, on=StoreUnavailable, clock=clock) == "done"
    assert (call.calls, clock.monotonic_s()) == (4, 15.0)


@pytest.mark.parametrize("attempts", [1, 2, 5])
def test_the_last_error_is_raised_after_exactly_so_many_attempts(attempts: int) -> None:
    call = Failing(99)
    with pytest.raises(StoreUnavailable):
        retry(
            call,
            policy=fixed_delay(delay=seconds(1), attempts=attempts),
            on=(StoreUnavailable,),
            clock=ManualClock(sleeping_advances=True),
        )
    assert call.calls == attempts


def test_what_is_excepted_is_raised_at_once() -> None:
    call = Failing(1, AccessDenied("no right"))
    with pytest.raises(AccessDenied):
        retry(call, policy=exponential_delay(), on=StoreUnavailable, unless=AccessDenied, clock=ManualClock())
    assert call.calls == 1


def test_it_goes_on_while_it_shall() -> None:
    clock = ManualClock(sleeping_advances=True)
    call = Failing(99)
    policy = fixed_delay(delay=seconds(1))
    with pytest.raises(StoreUnavailable):
        retry(call, policy=policy, on=StoreUnavailable, go_on=lambda: clock.monotonic_s() < 3, clock=clock)
    assert (call.calls, clock.monotonic_s()) == (4, 3.0)


def test_other_errors_are_not_retried() -> None:
    call = Failing(1, GuardFailed("a guard", scope="s"))
    with pytest.raises(GuardFailed):
        retry(call, policy=exponential_delay(), on=StoreUnavailable, clock=ManualClock())
    assert call.calls == 1
