"""How the queries of a leadership come to rest: no batch is begun any more, and those that have begun are done.

Promise: IDLE is said only when each stream is between two batches, none has failed, and Spark has noted the last batch
of each as done. No time limits that while the term is held and nobody asks for another end: a query that hangs passes
the limit that its stream declares.
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
"""How long another leader waits until Spark has noted that a batch is done; past that it runs the batch again."""


def finish_batches(
    streams: Sequence[FencedStream],
    running: RunningQueries,
    term: Term,
    *,
    stop: threading.Event,
    finish: threading.Event,
    clock: Clock,
) -> Ended:
    """Let each stream finish its batch and begin no other. Returns IDLE, or what kept them from it: LOST, STOPPED (also
    where another leader has waited long enough, which `finish` says is there), FAILED. Raises StorageError."""
    for stream in streams:
        stream.finish()
    given_up_s: float | None = None  # None: nobody waits for another leader, or a batch goes on
    while True:
        if term.lost:
            return Ended.LOST
        if stop.is_set():
            return Ended.STOPPED
        failed = bool(running.failed) or any(stream.failure is not None for stream in streams)
        if failed and not finish.is_set():  # else the others may end their batches
            return Ended.FAILED
        if not any(stream.in_batch for stream in streams):
            if all(stream.settled() for stream in streams):
                return Ended.FAILED if failed else Ended.IDLE
            now_s = clock.monotonic_s()
            if given_up_s is None and finish.is_set():
                given_up_s = now_s + SETTLE_S
            if given_up_s is not None and now_s >= given_up_s:
                return Ended.FAILED if failed else Ended.STOPPED
        clock.wait(stop, timeout_s=LOOK_S)
