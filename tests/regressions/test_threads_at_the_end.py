"""A command that applied a plan ended with SIGABRT after its work, once in some hundred times: a thread of Arrow, which
had read the plan, freed Python's bytes while the interpreter ended ("terminate called without an active
exception"). A process that makes, applies and shows plans starts no thread of Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.kit.waiting import NEVER_S

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, sys
from pathlib import Path
from tenure.cleanup.sweep_plan import summary
from tests.crash.killed_sweep import ORPHANS, SweepPlan, Scene

def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
scene = Scene(Path(sys.argv[1]))
scene.begin()
scene.make()
assert scene.apply().removed == len(ORPHANS)
assert summary(SweepPlan(str(scene.plan)), shown=3)["kinds"]
sys.stdout.write(str(threads() - before))
"""


def test_a_sweep_starts_no_thread_of_arrow(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=NEVER_S,
        check=False,
    )
    assert (told.returncode, told.stdout) == (0, "0"), told.stderr
