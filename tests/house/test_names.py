"""Tests have the same names in each process: pytest-xdist refuses a run whose workers collected different ones. And
those that mutants name are there."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.house import tree
from tests.kit.waiting import NEVER_S
from tests.mutants.catalogue import MUTANTS


def test_another_process_finds_the_same_names(request: pytest.FixtureRequest) -> None:
    # Later than this one's collection, and with sets in another order: no name may hold a time, a path or a hash.
    other = subprocess.run(
        [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=tree.ROOT,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        timeout=NEVER_S,
    )
    assert other.returncode == 0, other.stdout[-2000:] + other.stderr[-2000:]
    names = set(other.stdout.splitlines())
    assert [item.nodeid for item in request.session.items if item.nodeid not in names] == []
    named = {test for mutant in MUTANTS for test in mutant.tests}
    assert not {test for test in named if test not in names and not any(name.startswith(f"{test}[") for name in names)}
