"""An agent in small: holds a session under a warden, beside a driver, and obeys lines on its standard input.

Not a test: started by tests. Arguments: the URL of a store, the ttl in seconds. Each answer is one line.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from datetime import timedelta

from tenure.agent.warden import Warden
from tenure.assembly import WARDEN
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import SessionKeeper

SCOPE = Scope("wardens")
CLOCK = SystemClock()


def main() -> None:
    """Say the id of the driver. Then a session, `first`, and after a line another, `second`, until the process is
    killed."""
    url, ttl = sys.argv[1], timedelta(seconds=float(sys.argv[2]))
    driver = subprocess.Popen(
        ["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
    )
    warden = Warden(WARDEN, store=url).start()
    warden.driver_started(driver.pid)
    with closing(open_store(url, clock=CLOCK)) as store:
        for name in ("first", "second"):
            with SessionKeeper(store, ttl=ttl, clock=CLOCK) as keeper, warden.ending(keeper):
                bound = Put(Key(name), b"", None, keeper.session_id)
                store.commit(SCOPE, guards=[], writes=[bound])
                sys.stdout.write(f"{driver.pid}\n")
                sys.stdout.flush()
                sys.stdin.readline()


if __name__ == "__main__":
    main()
