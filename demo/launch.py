"""`python -m demo.launch run ...`: the command line, with a leader that stops itself when it is asked to.

The environment variable DEMO_PAUSE names a file. When it exists at the moment at which a leader sends the plan of a
batch, the leader removes it and stops (SIGSTOP): agent, driver and JVM. It sends the plan when it is woken.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tenure import assembly
from tenure.agent.child import ChildProcess, become_child
from tenure.cli import main as cli
from tenure.cli import run
from tenure.clock import SystemClock
from tenure.coordination.store import CoordinationStore
from tenure.driver.__main__ import load, serve
from tests.kit.faulty import Call, FaultyStore, Proceed, writes_under
from tests.kit.kill_points import DRIVER_WORD, Turn, is_driver, strike

_PAUSE = Path(os.environ["DEMO_PAUSE"])
_TURN = Turn(os.environ["DEMO_TURN"])
"""Agent and driver call the store in turn, so that neither is stopped inside of a transaction of SQLite."""


def _in_turn(call: Call, proceed: Proceed) -> Any:
    if call.operation == "wait":
        return proceed()
    with _TURN:
        return proceed()


def _before_plan(call: Call, proceed: Proceed) -> Any:
    if _PAUSE.exists():
        _PAUSE.unlink()
        strike(signal.SIGSTOP, "host")
    return proceed()


def wrap_store(store: CoordinationStore) -> CoordinationStore:
    """The store, with the pause in front of it."""
    faulty = FaultyStore(store)
    faulty.script(_in_turn, times=None)
    faulty.script(_before_plan, when=writes_under("checkpoints"), times=None)
    return faulty


def main() -> None:
    """Run the command line, or its driver."""
    if is_driver():
        clock = SystemClock()
        link = become_child(*(int(argument) for argument in sys.argv[-2:]))
        os._exit(serve(link, load=lambda begin: load(begin, wrap_store=wrap_store, clock=clock), clock=clock))
    assemble = assembly.assemble

    def assemble_with_pauses(*positional: Any, **named: Any) -> assembly.Assembled:
        command = (sys.executable, "-m", "demo.launch", DRIVER_WORD)
        named["wrap_store"] = wrap_store
        named["start_driver"] = lambda member: ChildProcess(command, member=member)
        return assemble(*positional, **named)

    with patch.object(run, "assemble", assemble_with_pauses):
        cli.main()


if __name__ == "__main__":
    main()
