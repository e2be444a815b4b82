"""A pytest plugin for `tests.run`: keeps what became of the tests in the file that `--tally` names.

Promise: the file is there when pytest came to its summary, and only then; a test that passed and whose end failed is
among the failed ones.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Tally:
    """What became of the tests of one session."""

    passed: int
    failed: tuple[str, ...]
    skipped: int


def read(file: Path) -> Tally | None:
    """None: pytest never came to its summary."""
    if not file.exists():
        return None
    found = json.loads(file.read_text(encoding="utf-8"))
    return Tally(found["passed"], tuple(found["failed"]), found["skipped"])


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tally", type=Path, help="write here what became of the tests (JSON)")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    file: Path | None = config.getoption("--tally")
    if file is None:
        return

    def nodes(*words: str) -> dict[str, None]:
        return {report.nodeid: None for word in words for report in terminalreporter.stats.get(word, [])}

    failed = nodes("failed", "error")
    passed = [node for node in nodes("passed") if node not in failed]
    tally = Tally(len(passed), tuple(failed), len(nodes("skipped", "xfailed")))
    file.write_text(json.dumps(asdict(tally)), encoding="utf-8")
