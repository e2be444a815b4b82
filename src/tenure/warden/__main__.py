"""`python -m tenure.warden`: carries out the charge of a dead agent, which stands on the standard input.

Promise: it ends in bounded time. The client library of the store is imported when the drivers' processes are gone.
Only the shell of `agent/warden.py` starts it.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import partial
from typing import Final

from tenure.agent.warden import Charge
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.warden.ending import GONE_WITHIN_S, carry_out

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
