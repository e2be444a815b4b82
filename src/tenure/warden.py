"""`python -m tenure.warden`: carries out the charge of a dead agent, which stands on the standard input: ends its
drivers, and then its session. Only the shell of `agent/warden.py` starts it.

Promise: the session ends only when no process of a driver is left. Where this cannot be seen, or a process does not
end in time, nothing is sent to the store. Where the store is away, the warden tries again until the ttl of the session
has passed. So the session ends at its ttl if any of this fails. The process ends in bounded time. The client library of
the store is imported when the drivers' processes are gone.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from typing import Final

from tenure.agent.processes import ProcessInfo, processes
from tenure.agent.warden import Charge, DriverMark
from tenure.backends.registry import open_store
from tenure.clock import Clock, SystemClock
from tenure.coordination.store import CoordinationStore
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable, TenureError
from tenure.retry import exponential_delay

GONE_WITHIN_S: Final = 20.0
"""A killed process gives its memory back before it ends."""

_LOOK_S: Final = 0.02
_LOOKS: Final = 2
"""How many looks in a row must find no process: a process that starts another and ends can hide both from one look."""

_AGAIN: Final = exponential_delay(initial=timedelta(milliseconds=100), maximum=timedelta(seconds=2))

Look = Callable[[], Iterable[ProcessInfo]]
Kill = Callable[[int], None]
Open = Callable[[str], CoordinationStore]


def kill_process(pid: int) -> None:
    """Kill a process, which may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def remains(driver: DriverMark, running: Sequence[ProcessInfo]) -> list[ProcessInfo]:
    """The processes of a driver's session that may still run. While there is one, the kernel gives the id of the driver
    to no other process."""
    if any(one.pid == driver.pid and one.began != driver.began for one in running):
        return []
    return [one for one in running if one.session == driver.pid and not _has_ended(one)]


def _has_ended(one: ProcessInfo) -> bool:
    """Whether it runs no further. A process is a zombie, too, when only its first thread has ended."""
    return one.state in "ZX" and one.threads <= 1


def carry_out(
    charge: Charge, *, open_store: Open, clock: Clock, look: Look = processes, kill: Kill = kill_process
) -> str:
    """End the drivers, then the session. Return a line for people."""
    what = f"the agent has died; session {charge.session}"
    if not end_drivers(charge.drivers, clock=clock, look=look, kill=kill):
        return f"{what} ends at its ttl: processes of the driver may still run"
    try:
        end_session(charge, open_store=open_store, clock=clock)
    except TenureError as failed:
        return f"{what} ends at its ttl: {failed}"
    return f"{what} was ended, after the driver's processes"


def end_drivers(
    drivers: Sequence[DriverMark], *, clock: Clock, look: Look = processes, kill: Kill = kill_process
) -> bool:
    """Kill the remaining processes of the drivers, and wait for their end. False: they cannot be seen, or do not end in
    time."""
    until_s = clock.monotonic_s() + GONE_WITHIN_S
    empty = 0
    while True:
        running = list(look())
        if not any(one.pid == os.getpid() for one in running):
            return False
        left = [one for driver in drivers for one in remains(driver, running)]
        empty = 0 if left else empty + 1
        if empty == _LOOKS:
            return True
        for one in left:
            kill(one.pid)
        if clock.monotonic_s() > until_s:
            return False
        clock.sleep(_LOOK_S)


def end_session(charge: Charge, *, open_store: Open, clock: Clock) -> None:
    """End the session. Raises StoreUnavailable, OutcomeUnknown: not within its ttl; AccessDenied; UsageError."""
    until_s = clock.monotonic_s() + charge.ttl_s
    delays = _AGAIN.delays_s()
    while True:
        try:
            with closing(open_store(charge.store)) as store:
                store.end_session(charge.testament)
                return
        except AccessDenied:
            raise
        except (StoreUnavailable, OutcomeUnknown):
            if clock.monotonic_s() > until_s:
                raise
        clock.sleep(next(delays))


_MORE_S: Final = 30.0
"""How much longer than its waits the process may take, with a store that hangs."""


def main() -> None:
    """Read the charge and carry it out."""
    charge, clock = Charge.from_json(sys.stdin.readline()), SystemClock()
    signal.setitimer(signal.ITIMER_REAL, GONE_WITHIN_S + charge.ttl_s + _MORE_S)  # SIGALRM ends the process
    said = carry_out(charge, open_store=partial(open_store, clock=clock, existing=True), clock=clock)
    with suppress(OSError):  # the terminal is gone
        sys.stderr.write(f"tenure: {said}\n")
        sys.stderr.flush()
    os._exit(0)  # waits for no thread of a client


if __name__ == "__main__":
    main()
