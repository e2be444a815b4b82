"""A process that leads, decides on a write, and is stopped before it leaves; woken, it sends it.

Not a test: started by `test_zombies.py`. Each line on its standard input is the name of a proposal: it wins the office,
stops itself (SIGSTOP) on the way of the write to the store, and says, when it is woken, what became of it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta
from typing import Any

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import commit_under
from tenure.errors import TermLost
from tests.kit.faulty import Call, FaultyStore, Proceed, writes_under


def main() -> None:
    url, scope, ttl_s = sys.argv[1], Scope(sys.argv[2]), float(sys.argv[3])
    clock = SystemClock()
    store = FaultyStore(open_store(url, clock=clock))
    store.script(stop_myself, when=writes_under("proposals"), times=None)
    say("ready")
    for line in sys.stdin:
        with SessionKeeper(store, ttl=timedelta(seconds=ttl_s), clock=clock) as keeper:
            term = Election(store, scope, member="zombie", clock=clock).campaign(keeper, stop=threading.Event())
            assert term is not None
            say(f"leads {term.epoch}")
            try:
                commit_under(store, term, writes=[Put(Key(f"proposals/{line.strip()}"), b"late", None)], clock=clock)
            except TermLost as lost:
                say("unknown" if lost.write_is_unknown else "refused")
            else:
                say("written")


def stop_myself(call: Call, proceed: Proceed) -> Any:
    os.kill(os.getpid(), signal.SIGSTOP)
    return proceed()


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
