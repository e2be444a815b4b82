"""A pytest plugin for `tests.run`: keeps what became of the tests, and their seconds, in the file that `--tally` names.

Promise: the file is there when pytest came to its summary, and only then; a test that passed and whose end failed is
among the failed ones.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

_began_s = pytest.StashKey[float]()


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the tests of one session."""

    passed: int
    failed: tuple[str, ...]
    skipped: int
    folders: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Folder below `tests` -> its tests, and the seconds that they and their fixtures took, of all workers together."""
    seconds: float = 0.0
    """From pytest's start to its summary."""


def read(file: Path) -> Tally | None:
    """None: pytest never came to its summary."""
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    folders = {name: (tests, seconds) for name, (tests, seconds) in found["folders"].items()}
    return Tally(found["passed"], tuple(found["failed"]), found["skipped"], folders, found["seconds"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", type=Path, help="write here what became of the tests (JSON)")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_began_s] = time.monotonic()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    file: Path | None = config.getoption("--tally")
    if file is None:
        return

    def nodes(*words: str) -> dict[str, None]:
        return {report.nodeid: None for word in words for report in terminalreporter.stats.get(word, [])}

    failed = nodes("failed", "error")
    passed = [node for node in nodes("passed") if node not in failed]
    seconds = round(time.monotonic() - config.stash[_began_s], 1)
    skipped = len(nodes("skipped", "xfailed"))
    tally = Tally(len(passed), tuple(failed), skipped, _folders(terminalreporter), seconds)
    file.write_text(json.dumps(asdict(tally)), encoding="utf-8")


def _folders(terminalreporter: pytest.TerminalReporter) -> Mapping[str, tuple[int, float]]:
    tests, seconds = defaultdict[str, set[str]](set), defaultdict[str, float](float)
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    for report in reports:
        if isinstance(report, pytest.TestReport):
            folder = report.nodeid.split("/")[1] if "/" in report.nodeid else ""
            tests[folder].add(report.nodeid)
            seconds[folder] += report.duration
    return {folder: (len(tests[folder]), round(seconds[folder], 1)) for folder in sorted(tests)}
