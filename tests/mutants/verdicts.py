"""A pytest plugin: writes down what became of each test, and which package was tested. Loaded by `run.py`."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from typing import Any

import pytest

import tenure

FILE = "TENURE_MUTANTS_VERDICTS"
"""The variable of the environment that names the file."""


def pytest_configure(config: pytest.Config) -> None:
    _note({"package": tenure.__file__})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.failed or report.skipped:
        error = call.excinfo
        words = "" if error is None else str(error.value).strip().splitlines()
        _note(
            {
                "test": report.nodeid,
                "when": report.when,
                "outcome": report.outcome,
                "error": "" if error is None else error.typename,
                "words": words[0] if words else "",
            }
        )
    return report


def _note(line: dict[str, Any]) -> None:
    with open(os.environ[FILE], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
