"""Brings the queries of a leadership to rest: each finishes its batch and begins no other.

Promise: IDLE is returned only when each stream is between two batches, none has failed, and Spark has noted the last
batch of each as done. There is no time limit while the term is held and no other end is asked for: a hung query passes
the stall timeout of its stream.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from tenure.clock import Clock
from tenure.coordination.term import Term
from tenure.driver.running_queries import RunningQueries
from tenure.driver.stream import FencedStream
from tenure.link.lifecycle import Ended

LOOK_S: Final = 0.01

SETTLE_S: Final = 5.0
"""How long a waiting successor lets Spark note the last batches as done. After that the successor runs them again."""


def finish_batches(
    streams: Sequence[FencedStream],
    running: RunningQueries,
    term: Term,
    *,
    stop: threading.Event,
    finish: threading.Event,
    clock: Clock,
) -> Ended:
    """Let each stream finish its batch and begin no other. `finish`: set when a successor waits.

    Return IDLE, LOST, FAILED, or STOPPED: `stop` was set, or the successor waited for `SETTLE_S`. Raises StorageError.
    """
    for stream in streams:
        stream.finish()
    given_up_s: float | None = None  # None: no successor waits, or a batch goes on
    while True:
        if term.lost:
            return Ended.LOST
        if stop.is_set():
            return Ended.STOPPED
        failed = bool(running.failed) or any(stream.failure is not None for stream in streams)
        if failed and not finish.is_set():  # with `finish` set, the other streams may end their batches
            return Ended.FAILED
        if not any(stream.resting is None for stream in streams):
            if all(stream.last_is_done for stream in streams):
                return Ended.FAILED if failed else Ended.IDLE
            now_s = clock.monotonic_s()
            if given_up_s is None and finish.is_set():
                given_up_s = now_s + SETTLE_S
            if given_up_s is not None and now_s >= given_up_s:
                return Ended.FAILED if failed else Ended.STOPPED
        clock.wait(stop, timeout_s=LOOK_S)
