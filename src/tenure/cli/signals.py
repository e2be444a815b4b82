"""Signals that end a command which goes on until it is stopped.

Promise: the first signal asks the command to end by itself; a second SIGINT interrupts it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tenure.cli.output import ERASE, Json, json_line, replaces, writes_json
from tenure.clock import Clock


@contextmanager
def stop_on_signals(stop: threading.Event, *, clock: Clock) -> Iterator[set[int]]:
    """Let SIGINT, SIGTERM and SIGHUP set `stop`, and a second SIGINT interrupt. Yields the received signals."""
    came: set[int] = set()
    words = "stopping; interrupt again to end at once"
    stopping: Json = ("info", "stopping", {"message": words})
    text = f"{ERASE if replaces() else ''}tenure: {words}"

    def asked(number: int, frame: object) -> None:
        if number == signal.SIGINT:
            if number in came:
                raise KeyboardInterrupt
            line = json_line(stopping, clock=clock) if writes_json() else text
            os.write(2, f"{line}\n".encode())  # no buffer: this is a signal handler
        came.add(number)
        stop.set()

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
