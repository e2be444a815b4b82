"""Plans and applies a sweep again and again, in processes that die by SIGKILL at one effect on the disk after another.

Run as `python -m tests.crash.killed_sweep FOLDER`; prints, as JSON, at how many effects each of the two was killed.
Raises AssertionError for the first death after which something was wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tenure.cleanup import planning
from tenure.cleanup.applying import Applied, apply_plan
from tenure.cleanup.orphans import Claims
from tenure.cleanup.sweep_plan import SweepPlan
from tenure.clock import SystemClock
from tenure.errors import UsageError

UID = "0123456789ab"
KEPT = f"runs/q/e00000002-anna-{UID}"
CLAIMS = Claims(epoch=3, holder="anna", members=frozenset({"anna"}), named=frozenset({KEPT}))
NEEDED = (f"{KEPT}/offsets/0", f"{KEPT}/state/0/1.zip", "blobs/e00000003/checkpoints/q/new", "runs/notes.txt")
ORPHANS = (
    *(f"runs/q/e00000001-dead-{UID}/state/0/{number}.zip" for number in range(3)),
    f"runs/q/e00000001-dead-{UID}/offsets/0",
    f"rehearsals/dead/q-{UID}/offsets/0",
    *(f"blobs/e00000001/checkpoints/q/{number:012d}-lost" for number in range(3)),
)
EFFECTS = ("mkdir", "open", "unlink", "rmdir", "replace")
"""Functions of `os` (and the builtin `open`, for writing) before and after each call of which it dies once."""


def die_at(number: int) -> None:
    """Let this process kill itself at its so-manieth effect, from 0."""
    left = [number]

    def count() -> None:
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*positional: Any, **named: Any) -> Any:
            if call is builtin and "r" in (positional[1] if len(positional) > 1 else named.get("mode", "r")):
                return call(*positional, **named)
            count()
            result = call(*positional, **named)
            count()
            return result

        return wrapped

    import builtins

    builtin = builtins.open
    builtins.open = deadly(builtin)
    for name in EFFECTS:
        if name != "open":
            setattr(os, name, deadly(getattr(os, name)))


def in_a_process(work: Callable[[], object], *, dies_at: int) -> bool:
    """Whether it came to its end before that effect."""
    child = os.fork()
    if not child:
        code = 1
        try:
            die_at(dies_at)
            work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "it failed"
    return True


class Scene:
    """A storage and a plan of it, made anew for each death."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "storage"
        self.plan = folder / "plan"

    def begin(self) -> None:
        for folder in (self.root, self.plan):
            shutil.rmtree(folder, ignore_errors=True)
        for path in (*ORPHANS, *NEEDED):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text("xyz")

    def files(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}

    def make(self) -> None:
        planning.make_plan(
            SweepPlan(str(self.plan)),
            planning.Target("rows", str(self.root), lambda: CLAIMS),
            now=lambda: datetime(2030, 1, 1, tzinfo=UTC),
            start_spark=no_spark,
        )

    def apply(self) -> Applied:
        return apply_plan(SweepPlan(str(self.plan)), storage=str(self.root), start_spark=no_spark, clock=SystemClock())


def no_spark() -> Any:
    raise AssertionError("a small tree needs no Spark")


def kill_plans(scene: Scene) -> int:
    """Kill the making of a plan at each effect; return at how many."""
    for number in range(10_000):
        scene.begin()
        ended = in_a_process(scene.make, dies_at=number)
        assert scene.files() == {*ORPHANS, *NEEDED}, "a plan removes nothing"
        try:
            SweepPlan(str(scene.plan)).about()
        except UsageError:
            assert not ended
            scene.make()  # in the same folder
        assert scene.apply().removed == len(ORPHANS)
        assert scene.files() == set(NEEDED)
        if ended:
            return number
    raise AssertionError("it never ends")


def kill_applies(scene: Scene) -> int:
    """Kill the application of a plan at each effect; return at how many."""
    for number in range(10_000):
        scene.begin()
        scene.make()
        ended = in_a_process(scene.apply, dies_at=number)
        assert set(NEEDED) <= scene.files() <= {*ORPHANS, *NEEDED}
        done = scene.apply()
        assert (done.parts, done.failed) == (done.of, 0)
        assert done.removed + done.gone == len(ORPHANS)
        assert scene.files() == set(NEEDED)
        assert scene.apply() == done, "a second one changes nothing"
        if ended:
            return number
    raise AssertionError("it never ends")


def main(folder: str) -> None:
    """Run and print."""
    planning.PART = 3  # type: ignore[misc] # several parts of few files
    scene = Scene(Path(folder))
    sys.stdout.write(json.dumps({"plan": kill_plans(scene), "apply": kill_applies(scene)}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
