"""`python -m tests.support.launch run ...`: the command line, with faults put around agent and driver from outside.

The environment variable TESTING_FAULTS holds a JSON object:
- `pause_when`: path of a file. When it exists at the moment at which a plan is about to be sent, it is removed
  and the member stops itself (SIGSTOP), between deciding and sending.
- `die_at`: the name of a step (BATCH_STEPS, TAKEOVER_STEPS; at the end of a pipeline `before` or `after` a row of the
  cleanup's plan, `dirty`, `clean`); the member kills itself (SIGKILL) there, in the first batch after
  `die_after_batches` batches of this process.
- `order`: path of a file with a JSON object: `step`, `part`, `signal` (KILL or STOP). At that step the file is removed
  and the part is struck: orders can be given while the member runs. `signal` HOLD: only the thread that is at the step
  waits, until the file `until` is there; the others go on, and the session lives.
- `part`: which part of the member is killed or stopped: `host` (agent, driver and JVM: the default), `driver`
  (with its JVM) or `agent`.
- `blindfold`: the member never notices that its session ended, that the office is another's, or that time passed while
  it was stopped.
- `unfenced`: the store judges no guard, and overwrites whatever is there.
- `unswept`: the member begins no sweep while it leads: as if what there is to list took it long.
- `turn`: path of a file that agent and driver lock around each call to the store.

Promise: the product has no hook; every fault is a wrapper or a subscriber.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tenure import assembly, housekeeping
from tenure.agent.child import ChildProcess, become_child
from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.plan import Cleanable
from tenure.cleanup.sweeper import Sweeper
from tenure.cli import main as cli
from tenure.cli import run
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Put
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.driver import spark_driver as driver_module
from tenure.driver import stream as stream_module
from tenure.driver.__main__ import load, serve
from tenure.events import BatchCommitted, Event, QueryStarted, RunDirectorySeeded, TermWon
from tenure.rundirs.seeding import seed_mirrored
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Sink
from tenure.takeover import query_takeover as takeover_module
from tests.kit.faulty import Call, FaultyStore, Proceed, writes_under
from tests.kit.kill_points import DRIVER_WORD, Turn, is_driver, strike
from tests.kit.waiting import wait_until
from tests.support.blindfold import BlindClock, NeverToldStore
from tests.support.seeds import announced
from tests.support.stepped_sinks import stepped
from tests.support.unfenced import UnfencedStore

BATCH_STEPS = (
    "after offsets, before plan",
    "after plan",
    "before staging",
    "after staging",
    "before sink commit",
    "after sink commit",
    "after commits",
)
"""Where a member can die in a batch. Staging and plan overlap, so `after plan` can be within the staging."""

SEED_PARTS = ("offsets", "commits", "sources", "state", "plan", "metadata")

TAKEOVER_STEPS = (
    "after grant",
    *(f"{when} {part}" for part in SEED_PARTS for when in ("before", "after")),
    "after seeding",
    "before retaking",
    "after retaking",
    "after start",
)
"""Where a member can die in a takeover."""

_LONGEST_HOLD = timedelta(seconds=120)


def _removed(path: str) -> bool:
    """Whether this call removed the file; of several, one did."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


class Faults:
    """The faults of one process, as the environment describes them."""

    def __init__(self, description: dict[str, Any]) -> None:
        self._pause_when = description.get("pause_when")
        self._die_at: str | None = description.get("die_at")
        self._die_after = int(description.get("die_after_batches", 0))
        self.blindfold = bool(description.get("blindfold"))
        self._unfenced = bool(description.get("unfenced"))
        self.unswept = bool(description.get("unswept"))
        self._part: str = description.get("part", "host")
        self._order = description.get("order")
        self._batches = 0
        self._turn = Turn(description.get("turn"))

    def at(self, step: str) -> None:
        """Die, or be struck, if this is the step."""
        order = self._taken(step)
        if order is not None:
            self._obey(order)
        if step == self._die_at and self._batches >= self._die_after:
            strike(signal.SIGKILL, self._part)

    def _taken(self, step: str) -> Mapping[str, str] | None:
        """The order, if it is for this step: of the threads that come to it at once, the one that removes the file."""
        if self._order is None:
            return None
        try:
            order: Mapping[str, str] = json.loads(Path(self._order).read_text())
            if order["step"] != step:
                return None
        except FileNotFoundError:
            return None
        return order if _removed(self._order) else None

    def _obey(self, order: Mapping[str, str]) -> None:
        if order["signal"] == "HOLD":
            wait_until(lambda: os.path.exists(order["until"]), _LONGEST_HOLD, what=order["until"])
            return
        with self._turn:
            strike(signal.Signals[f"SIG{order['signal']}"], order["part"])

    def on_event(self, event: Event) -> None:
        """A subscriber: the steps of a takeover that are events; and `before commits`, when nothing is asked any more
        before Spark notes the batch as done."""
        match event:
            case TermWon():
                self.at("after grant")
            case RunDirectorySeeded():
                self.at("after seeding")
            case QueryStarted():
                self.at("after start")
            case BatchCommitted():
                self.at("before commits")
            case _:
                pass

    def wrap_store(self, store: CoordinationStore) -> CoordinationStore:
        """The store with the faults around it."""
        if self._unfenced:
            store = UnfencedStore(store, blind=True)
        if self.blindfold:
            store = NeverToldStore(store)
        faulty = FaultyStore(store)
        faulty.script(self._in_turn, times=None)
        faulty.script(self._around_plan, when=_plans, times=None)
        faulty.script(self._around_retaking, when=_retakes, times=None)
        faulty.script(self._around_result, when=writes_under("results"), times=None)
        return faulty

    def wrap_sink(self, sink: Sink) -> Sink:
        """The sink with the steps of a batch around it."""
        return stepped(sink, self)

    def clock(self) -> SystemClock:
        """The clock that the member looks at."""
        return BlindClock() if self.blindfold else SystemClock()

    def batch_began(self) -> None:
        """Count, and notice that Spark ended the batch before: its commit file is written by now."""
        self.at("after commits")
        self._batches += 1

    def _in_turn(self, call: Call, proceed: Proceed) -> Any:
        """Calls that may hold a lock of the store run one at a time."""
        if call.operation == "wait":
            return proceed()
        with self._turn:
            return proceed()

    def _around_plan(self, call: Call, proceed: Proceed) -> Any:
        if self._pause_when is not None and _removed(self._pause_when):
            strike(signal.SIGSTOP, self._part)
        self.at("after offsets, before plan")
        answer = proceed()
        self.at("after plan")
        return answer

    def _around_retaking(self, call: Call, proceed: Proceed) -> Any:
        self.at("before retaking")
        answer = proceed()
        self.at("after retaking")
        return answer

    def _around_result(self, call: Call, proceed: Proceed) -> Any:
        stage = "dirty" if any(isinstance(one, Put) and one.replaces is None for one in call.writes) else "clean"
        self.at(f"before {stage}")
        answer = proceed()
        self.at(f"after {stage}")
        return answer


def _plans(call: Call) -> bool:
    """Matches the plan of a batch, and no removal."""
    return any(one.replaces is None for one in _checkpoints(call))


def _retakes(call: Call) -> bool:
    """Matches what puts a new term into a checkpoint."""
    return any(one.replaces is not None for one in _checkpoints(call))


def _checkpoints(call: Call) -> list[Put]:
    """The checkpoints that are written: `checkpoints/QUERY/BATCH`; above them are the anchors."""
    puts = [one for one in call.writes if isinstance(one, Put) and one.key.is_under("checkpoints")]
    return [one for one in puts if one.key.count("/") == 2]


class _SteppedCleanable:
    """One row of the plan that dies at a step."""

    def __init__(self, row: str, cleanables: Cleanable, faults: Faults) -> None:
        self._row = row
        self._cleanables = cleanables
        self._faults = faults
        self._last: str | None = None  # None: nothing was found

    def find(self) -> Sequence[str]:
        self._faults.at(f"before {self._row}")
        found = self._cleanables.find()
        self._last = found[-1] if found else None
        return found

    def remove(self, term: Term, name: str) -> None:
        self._cleanables.remove(term, name)
        if name == self._last:
            self._faults.at(f"after {self._row}")


def main() -> None:
    """Run the command line, or its driver, with the faults of TESTING_FAULTS."""
    faults = Faults(json.loads(os.environ.get("TESTING_FAULTS", "{}")))
    if is_driver():
        _drive(faults)
    assemble = assembly.assemble

    def assemble_with_faults(*positional: Any, **named: Any) -> assembly.Assembled:
        named["subscribers"] = (*named.get("subscribers", ()), faults.on_event)
        named["clock"] = faults.clock()
        named["wrap_store"] = faults.wrap_store
        command = (sys.executable, "-m", "tests.support.launch", DRIVER_WORD)
        named["start_driver"] = lambda member: ChildProcess(command, member=member)
        return assemble(*positional, **named)

    with ExitStack() as around:
        around.enter_context(patch.object(run, "assemble", assemble_with_faults))
        if faults.blindfold:
            around.enter_context(patch.object(Election, "attend", lambda *positional, **named: None))
        cli.main()


def _drive(faults: Faults) -> None:
    """Be the driver."""
    clock = faults.clock()

    class SteppedStream(stream_module.FencedStream):
        """The stream of the product, its sink wrapped."""

        def __init__(self, declared: Any, context: ScopeContext, **named: Any) -> None:
            super().__init__(replace(declared, sink=faults.wrap_sink(declared.sink)), context, **named)

        def start(self) -> Any:
            """The term is the member's, and what it declares is recorded; it has not looked what there is to do."""
            faults.at("before taking over")
            return super().start()

    link = become_child(*(int(argument) for argument in sys.argv[-2:]))

    def stepped_cleaner(cleanables: Mapping[str, Cleanable], **named: Any) -> Cleaner:
        return Cleaner({row: _SteppedCleanable(row, one, faults) for row, one in cleanables.items()}, **named)

    def stepped_seed(*positional: Any, **named: Any) -> int:
        with announced(faults.at):
            return seed_mirrored(*positional, **named)

    with (
        patch.object(Sweeper, "start", lambda sweeper, **named: None) if faults.unswept else nullcontext(),
        patch.object(driver_module, "FencedStream", SteppedStream),
        patch.object(takeover_module, "seed_mirrored", stepped_seed),
        patch.object(housekeeping, "Cleaner", stepped_cleaner),
    ):
        code = serve(
            link,
            load=lambda begin: load(begin, subscribers=(faults.on_event,), wrap_store=faults.wrap_store, clock=clock),
            clock=clock,
        )
    os._exit(code)


if __name__ == "__main__":
    main()
