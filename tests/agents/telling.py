"""The command line in a process that tells the names of its threads: `python -m tests.agents.telling run ...`.

Not a test: started by the tests beside it. At SIGUSR1 it writes the names into the file `THREADS`, as JSON. Its drivers
run no Spark. An idle client of ZooKeeper closes its connection of requests after half a second.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path

from tenure.backends.zookeeper import store
from tests.regressions import sparkless

COMMAND = (sys.executable, "-m", __name__)


def tell(*of_the_signal: object) -> None:
    """kazoo gives its thread no name: the name of its function stands for that."""
    names = sorted(thread.name.rpartition("(")[2].rstrip(")") for thread in threading.enumerate())
    file = Path(os.environ["THREADS"])
    made = file.with_suffix(".new")
    made.write_text(json.dumps(names))
    made.replace(file)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, tell)
    store.IDLE_S = 0.5  # type: ignore[misc] # Final for the product
    sparkless.main()
