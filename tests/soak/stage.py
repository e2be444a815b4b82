"""A scene with one query whose members can be killed, stopped or held at an exact step, by themselves.

Promise: who is ordered to do something at a step has come there when `come` returns. Members that end stay down, until
the story starts others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.ground import Ground
from tests.kit.members import MemberProcess
from tests.soak.checks import check_quiet
from tests.soak.plan import Plan
from tests.soak.scene import Scene
from tests.soak.slots import Slot

LAUNCH: Final = (sys.executable, "-m", "tests.support.launch")
_STEP_S: Final = 150.0
"""For a JVM that starts on a busy machine."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a member was told to do at a step. The file `given` goes when it has come there; one that is held goes on
    when `until` appears."""

    step: str
    given: Path
    until: Path


class Stage(Scene):
    """One story. Used by one thread."""

    def __init__(
        self, folder: Path, plan: Plan, *, environment: Mapping[str, str], ground: Ground | None = None
    ) -> None:
        """`plan`: of one query, and without ends."""
        super().__init__(folder, plan, environment=environment, ground=ground)
        self._faults: dict[str, dict[str, Any]] = {}
        self._orders = 0

    @property
    def here(self) -> frozenset[str]:
        """The input files that are where they were put."""
        return frozenset(str(path) for path in (self.folder / "input").rglob("[0-9]*.json"))

    def process(self, name: str, folder: Path, arguments: Sequence[str]) -> MemberProcess:
        faults = {word: str(self.folder / f"{name}.{word}") for word in ("turn", "order")}
        described = json.dumps({**faults, **self._faults.get(name, {})})
        environment = {**self.environment(), "TESTING_FAULTS": described}
        return MemberProcess(name, folder=folder, arguments=arguments, command=LAUNCH, environment=environment)

    def member(self, name: str, *, until_idle: bool = False, **faults: Any) -> Slot:
        """Start a member with these faults (see `tests.support.launch`), and wait until it can lead, or has ended."""
        self._faults[name] = faults
        self.start(name, until_idle=until_idle)
        slot = self.slots[name]
        slot.stay_down = True
        slot.expect |= {-9}
        self.wait(lambda: slot.was_ready(self.journal) or not slot.running, seconds=_STEP_S, what=f"{name} to be ready")
        return slot

    def order(self, name: str, step: str, what: str, *, part: str = "host") -> Order:
        """Tell a member to do something to a part of itself at a step: KILL, STOP, or HOLD (one thread of it)."""
        self._orders += 1
        given, until = self.folder / f"{name}.order", self.folder / f"{self._orders}.go-on"
        hidden = given.with_suffix(".hidden")
        hidden.write_text(json.dumps({"step": step, "part": part, "signal": what, "until": str(until)}))
        hidden.rename(given)
        return Order(step, given, until)

    def come(self, order: Order) -> None:
        """Wait until a member has come to the step of its order."""
        self.wait(lambda: not order.given.exists(), seconds=_STEP_S, what=f"the step {order.step!r}")
        self.log(f"somebody is at {order.step!r}")

    def go_on(self, order: Order) -> None:
        """Let one that is held go on."""
        order.until.touch()

    def feed(self, files: int = 1, *, but: Sequence[str] = ()) -> None:
        """Release files of each source, but of these."""
        for source in self.inputs[0].sources:
            for _ in range(0 if source in but else files):
                self.inputs[0].release(source)

    def told(self, kind: str, *, by: str, batch: int | None = None, since: int = 0) -> None:
        """Wait until a member has told that, of this batch."""

        def found() -> bool:
            return any(
                event.kind == kind and event.member == by and batch in (None, event.fields.get("batch"))
                for event in self.journal.events[since:]
            )

        self.wait(found, seconds=_STEP_S, what=f"{kind} by {by}")

    def quiet(self) -> None:
        """Wait until everything is in the output, and Spark has noted it. Raises WrongError."""
        check_quiet(self)

    def kill(self, slot: Slot) -> None:
        """Kill agent, driver and JVM."""
        slot.kill("host", self.journal)
        self.log(f"{slot.name} killed")

    def stop(self, slot: Slot) -> None:
        """Stop agent, driver and JVM."""
        slot.pause("host", self.journal)
        self.log(f"{slot.name} stopped")

    def wake(self, slot: Slot) -> None:
        """Wake it up, the driver first."""
        slot.wake()
        self.log(f"{slot.name} woken")

    def let_write(self, name: str) -> None:
        """Wait until a zombie has noted its batch, or was refused, or has ended."""
        mark = len(self.journal.events)
        slot = self.slots[name]

        def over() -> bool:
            told = [event for event in self.journal.events[mark:] if event.member == name]
            ended = ("WriteRefused", "TermEnded", "DriverEnded")
            return not slot.running or any(event.kind in ended for event in told) or self.noted_by(told)

        self.wait_softly(over, seconds=60)

    def move_shown(self) -> None:
        """Move the inputs away by hand that the output shows."""
        moved = self.inputs[0].move_away(self.outputs[0].shown())
        self.log(f"{moved} files were moved away")
        assert moved > 0, "nothing could be moved away"

    def ends_well(self, *names: str) -> None:
        """Start members that are started again whenever they end, feed once more, and wait for the right output."""
        for name in names:
            self._faults[name] = {}
            self.start(name)
        self.feed()
        self.wait(lambda: self.leader() is not None, seconds=_STEP_S, what="a leader")
        self.quiet()
