"""What is looked at when a pipeline is quiet, and at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.soak.journal import Told
from tests.soak.ledger import Calls, Ledger, broken
from tests.soak.scene import Finding, Scene

_PATIENCE_S: Final = {"BatchCommitted": 90.0, "BatchStarted": 90.0, "QueryStarted": 60.0, "TermWon": 60.0}
"""Event -> for how long, when it was the last one of these, nothing may follow while nobody waits for a processor;
after that nothing more will come."""
_LONGEST_S: Final = 300.0
_MOST_S: Final = 1800.0
"""By the clock, on any machine."""
_PRESSURE: Final = Path("/proc/pressure/cpu")


class WrongError(Exception):
    """An output is wrong: the run ends."""


def check_quiet(scene: Scene) -> None:
    """With the feeder at rest: wait until all that was fed is in the outputs, and Spark has noted it. What is not, when
    nothing is written any more, is wrong. Raises WrongError."""
    if not _settled(scene):
        wrong = scene.wrong()
        scene.findings += [Finding("wrong", f"{query}: {words}") for query, words in wrong.items()]
        if not wrong:
            scene.findings.append(Finding("stuck", "a batch is in its sink, and Spark never notes it"))
        raise WrongError
    check_calls(scene)
    scene.note_done()


def _settled(scene: Scene) -> bool:
    """Whether it comes to be right. It has until nothing was told for a while under a leader. What the machine owes to
    the processes on it does not count: with three soaks on two cores, Spark took minutes to plan 700 files."""
    last: tuple[int, Told] | None = None
    end_s = scene.clock.monotonic_s() + _MOST_S
    quiet_since_s = began_s = scene.clock.monotonic_s() - waited_s()
    while scene.wrong() or not scene.noted():
        scene.rest(0.3)
        now, now_s = scene.journal.last(*_PATIENCE_S), scene.clock.monotonic_s() - waited_s()
        # Members that have all ended by idleness tell no more.
        alive = scene.leader() is not None or not any(slot.running for slot in scene.slots.values())
        if now != last or not alive:
            last, quiet_since_s = now, now_s
        patience_s = _PATIENCE_S["TermWon" if last is None else last[1].kind]
        late = scene.clock.monotonic_s() > end_s
        if late or now_s - quiet_since_s > patience_s or now_s - began_s > _LONGEST_S:
            return False
    return True


def waited_s() -> float:
    """For how long there was a process that waited for a processor, since the machine started; 0: Linux says nothing of
    it here."""
    if not _PRESSURE.exists():
        return 0.0
    return int(_PRESSURE.read_text().split("total=")[1].split()[0]) / 1e6


def check_calls(scene: Scene) -> None:
    """The functions: none was called for a batch that was done when the pipeline was quiet last; and their ledgers are
    in order."""
    for query in scene.plan.queries:
        if query.sink != "ledger":
            continue
        output = scene.folder / "output" / query.name
        lines, done = scene.done.get(query.name, (0, -1))
        again = [call for call in Calls(output).read()[lines:] if not call.ended and call.batch <= done]
        scene.findings += [
            Finding("again", f"{query.name}: called by epoch {call.epoch} for batch {call.batch}, which was done")
            for call in again
        ]
        scene.findings += [Finding("ledger", f"{query.name}: {line}") for line in broken(Ledger(output).entries())]


def late_calls(scene: Scene) -> int:
    """How often a function was called after a later leader had written: a process that is stopped inside the call may
    do that, and is refused."""
    ledgers = [query for query in scene.plan.queries if query.sink == "ledger"]
    calls = [call for query in ledgers for call in Calls(scene.folder / "output" / query.name).read()]
    return sum(not call.ended and call.late for call in calls)
