"""One run: its plan is carried out from the start of its members to the comparison with the truth."""

from __future__ import annotations

import json
import shutil
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from demo.ground import Ground
from tests.kit.members import MemberProcess
from tests.soak.checks import WrongError, check_quiet, late_calls
from tests.soak.ends import strike
from tests.soak.plan import SINK_AWAY, Plan
from tests.soak.scene import NAMES, TTL_S, Finding, Scene, StuckError

_START_S: Final = 180.0
_WAIT_S: Final = 5.0
"""For so much longer than the ttl, nobody may wait for a transaction."""
_KEPT: Final = ("plan.json", "timeline.txt")
"""What is kept of a run that was right."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run. `loud`: why members ended because inputs were gone, where that is right. `late`: calls of
    functions that came after a later leader had written, and were refused."""

    seed: int
    ends: Mapping[str, int]
    findings: tuple[Finding, ...]
    loud: tuple[str, ...]
    late: int
    fed: int
    batches: int
    seconds: float

    @classmethod
    def of(cls, scene: Scene, ends: Mapping[str, int], *, seconds: float) -> Result:
        """What came of a scene, at its end."""
        for database in scene.databases:
            scene.log(f"the longest wait for a lock of the database: {database.longest_wait_s:.2f} s")
            if database.longest_wait_s > TTL_S + _WAIT_S:
                waited = f"a member waited {database.longest_wait_s:.2f} s for another one's transaction"
                scene.findings.append(Finding("waited", waited))
        for finding in scene.findings:
            scene.log(f"{finding.kind.upper()}: {finding.text}")
        return cls(
            seed=scene.plan.seed,
            ends=dict(ends),
            findings=tuple(scene.findings),
            loud=tuple(scene.loud),
            late=late_calls(scene),
            fed=sum(sum(one.fed.values()) for one in scene.inputs),
            batches=sum(event.kind == "BatchCommitted" for event in scene.journal.events),
            seconds=seconds,
        )

    @property
    def right(self) -> bool:
        return not self.findings

    @property
    def word(self) -> str:
        """`right`, or the kinds of what was found."""
        return " ".join(sorted({finding.kind.upper() for finding in self.findings})) or "right"


def carry_out(
    plan: Plan,
    folder: Path,
    *,
    environment: Mapping[str, str],
    keep: bool = False,
    store: str | None = None,
    ground: Ground | None = None,
) -> Result:
    """Run a plan in an empty folder. What was right is removed again, but for its timeline, unless `keep`. `store`: the
    URL of an empty store; None: a file in the folder. `ground`: where members read from and write to; None: there."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(asdict(plan), indent=1))
    done: Counter[str] = Counter()
    with Scene(folder, plan, environment=environment, store=store, ground=ground) as scene:
        began_s = scene.clock.monotonic_s()
        try:
            _carry_out(scene, done)
        except WrongError:
            scene.log("an output is wrong")
        except StuckError as stuck:
            scene.findings.append(Finding("stuck", f"{stuck} ({_members(scene)})"))
        except Exception:
            scene.log(traceback.format_exc())
            raise
        result = Result.of(scene, done, seconds=scene.clock.monotonic_s() - began_s)
    if result.right and not keep:
        tidy(folder)
    return result


def _carry_out(scene: Scene, done: Counter[str]) -> None:
    scene.mover.start()
    scene.feeder.start()
    for name in NAMES:
        scene.start(name)
    scene.wait(
        lambda: scene.journal.last("BatchCommitted") is not None, seconds=_START_S, what="the first batch of a run"
    )
    if any(query.habit == SINK_AWAY for query in scene.plan.queries):
        # A target that never answered may have a wrong address: its query ends its member.
        scene.wait(scene.all_committed, seconds=_START_S, what="the first batch of each query")
        scene.troubler.start()
    for number, end in enumerate(scene.plan.ends, start=1):
        said = strike(scene, end)
        done[end.kind] += 1
        scene.log(f"end {number}: {end.kind}: {said}, {end.at.after} + {end.at.delay_ms} ms")
    with scene.fasting():
        check_quiet(scene)


def _members(scene: Scene) -> str:
    def told(name: str, member: MemberProcess) -> str:
        return f"{name}: {'runs' if member.running else f'ended with {member.exit_code}'}"

    return ", ".join(told(name, slot.member) for name, slot in scene.slots.items())


def tidy(folder: Path) -> None:
    """Remove all of a run but its timeline and its plan."""
    for path in folder.iterdir():
        if path.name in _KEPT:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
