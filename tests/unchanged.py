"""A pytest plugin for `make check`: leaves out the test files that passed before and see the same sources now.

Promise: a test file is left out only if all of its tests passed, and nothing has changed since in that file, in the
modules that it imports (directly or not; a name in a string counts), in any file that is no module, and in the Python.
The house tests read the whole tree, so any change brings them back. Not promised: anything about installed packages.
The names of the passed files are kept in the virtual environment: a new one begins anew.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.house import tree

KEPT: Final = Path(sys.prefix) / "passed-checks.json"
NAMED: Final = re.compile(r"\b(?:tenure|tests|demo|bench)(?:\.\w+)+")
"""A module that a text names."""

_checks = pytest.StashKey["Checks"]()


@cache
def sources() -> Mapping[str, str]:
    """Module -> its text, of all modules of the project."""
    paths = (path for path in tree.files() if path.suffix == ".py")
    return {tree.name_of(path): path.read_text(encoding="utf-8") for path in paths}


@cache
def digests() -> Mapping[str, str]:
    """Module -> digest of its source."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in sources().items()}


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """Module -> the modules of the project that its text names, and their packages."""
    known = digests().keys()
    return {
        name: frozenset(part for found in set(NAMED.findall(text)) for part in _prefixes(found) if part in known)
        for name, text in sources().items()
    }


def _prefixes(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


@cache
def surroundings() -> str:
    """The digest of every file that is no module, and of the versions of Python."""
    every = hashlib.sha256(sys.version.encode())
    for path in tree.files():
        if path.suffix != ".py":
            every.update(str(path).encode() + path.read_bytes())
    return every.hexdigest()


def key(module: str) -> str:
    """The digest of all that a test module sees."""
    if module.startswith("tests.house"):
        seen = set(digests())
    else:
        seen, todo = set(), [module, "tests.conftest"]
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += imports().get(name, ())
    text = "".join(f"{name} {digests().get(name, '')}\n" for name in sorted(seen))
    return hashlib.sha256((surroundings() + text).encode()).hexdigest()


class Checks:
    """The test files of one session, by their paths below the root."""

    def __init__(self) -> None:
        self.passed_before: dict[str, str] = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
        self.keys: dict[str, str] = {}
        self.failed: set[str] = set()
        self.run: set[str] = set()
        self.unchanged: set[str] = set()

    def is_unchanged(self, path: Path) -> bool:
        """Whether a test file passed before, as it is now."""
        name = path.relative_to(tree.ROOT).as_posix()
        if name not in self.keys:
            self.keys[name] = key(name.removesuffix(".py").replace("/", "."))
        same = self.passed_before.get(name) == self.keys[name]
        if same:
            self.unchanged.add(name)
        return same

    def save(self) -> None:
        """Remember the files that passed."""
        good = {name: self.keys[name] for name in self.run - self.failed if name in self.keys}
        KEPT.write_text(json.dumps({**self.passed_before, **good}), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_checks] = Checks()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if is_test and config.stash[_checks].is_unchanged(collection_path) else None


class Reports:
    """Hears every report, of this process or of the workers."""

    def __init__(self, checks: Checks) -> None:
        self._checks = checks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.split("::")[0]
        self._checks.run.add(name)
        if report.failed:
            self._checks.failed.add(name)


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(Reports(session.config.stash[_checks]))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: Any) -> None:
    if not hasattr(session.config, "workeroutput"):
        checks = session.config.stash[_checks]
        for name in checks.run:
            checks.is_unchanged(tree.ROOT / name)
        checks.save()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    checks = config.stash[_checks]
    if checks.unchanged:
        terminalreporter.write_line("files that passed before and did not change are left out")
