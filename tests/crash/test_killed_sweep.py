"""`tenure sweep` is killed at each of its effects on a disk; the next one goes on, and nothing needed is gone (I9)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.crash.killed_sweep import ORPHANS
from tests.kit.waiting import NEVER_S

ROOT = Path(__file__).resolve().parents[2]


def test_whatever_effect_it_was_killed_at_the_next_one_goes_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.crash.killed_sweep", str(tmp_path)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=NEVER_S * NEVER_S)
    assert told.returncode == 0, told.stderr
    killed = json.loads(told.stdout)
    assert killed["apply"] > 2 * len(ORPHANS)
    assert killed["plan"] > 10
