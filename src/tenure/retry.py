"""The only retry loop.

Promise: a policy is data, and chance is an argument. The caller names the types of errors that are retried.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from tenure.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How many attempts, and how far apart. `attempts` None: without end. `factor` 1: fixed delay."""

    initial: timedelta
    maximum: timedelta
    factor: float = 2.0
    attempts: int | None = None
    jitter: float = 0.1
    """The share of each delay that is drawn at random, 0 to 1."""

    def delays_s(self, *, chance: Callable[[], float] = random.random) -> Iterator[float]:
        """Seconds to wait after each failed attempt; ends when the attempts are used up."""
        delay = self.initial.total_seconds()
        attempt = 1
        while self.attempts is None or attempt < self.attempts:
            yield delay * (1.0 - self.jitter * chance())
            delay = min(delay * self.factor, self.maximum.total_seconds())
            attempt += 1


def exponential_delay(
    *, initial: timedelta = timedelta(seconds=1), maximum: timedelta = timedelta(hours=1), attempts: int | None = None
) -> RetryPolicy:
    """Delays that double up to `maximum`; without end by default."""
    return RetryPolicy(initial=initial, maximum=maximum, attempts=attempts)


def fixed_delay(*, delay: timedelta, attempts: int | None = None) -> RetryPolicy:
    """The same delay each time."""
    return RetryPolicy(initial=delay, maximum=delay, factor=1.0, attempts=attempts, jitter=0.0)


def no_retry() -> RetryPolicy:
    """One attempt."""
    return RetryPolicy(initial=timedelta(0), maximum=timedelta(0), attempts=1)


def retry(
    call: Callable[[], T],
    *,
    policy: RetryPolicy,
    on: type[Exception] | tuple[type[Exception], ...],
    unless: type[Exception] | tuple[type[Exception], ...] = (),
    go_on: Callable[[], bool] = lambda: True,
    clock: Clock,
) -> T:
    """Call, and retry errors `on`, but not `unless`, by `policy` while `go_on()`. Raises the last error."""
    delays = policy.delays_s()
    while True:
        try:
            return call()
        except on as error:
            delay = next(delays, None)
            if delay is None or isinstance(error, unless) or not go_on():
                raise
            clock.sleep(delay)


class Delays:
    """The delays of a policy. They start over after an attempt that lasted more than a minute."""

    _well_s = 60.0

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._delays: Iterator[float] = policy.delays_s()

    def after(self, lasted_s: float) -> float:
        """How long to wait, in seconds, after an attempt that lasted `lasted_s`."""
        if lasted_s > self._well_s:
            self._delays = self._policy.delays_s()
        return next(self._delays)
