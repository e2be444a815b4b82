"""One weakness: where the text of the product changes, and which tests must fail then.

Promise: a change that does not fit the sources exactly once is an error, never a mutant that changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.house.tree import ROOT

PACKAGE = ROOT / "src" / "tenure"


class DoesNotApply(Exception):
    """The text to replace is not in the file, or is there more than once: the mutant has to follow the product."""


@dataclass(frozen=True, slots=True)
class Change:
    """In the file below the package, `old` becomes `new`."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """A name, what is weak about it, its changes, and the tests of which each one must fail."""

    name: str
    weakness: str
    changes: tuple[Change, ...]
    tests: tuple[str, ...]
    """Node ids; of a test with parameters that are not named, one case must fail."""


def apply(mutant: Mutant, package: Path = PACKAGE) -> dict[Path, str]:
    """The changed files of the package at `package`, with their new text. Raises DoesNotApply. Writes nothing."""
    texts: dict[Path, str] = {}
    for change in mutant.changes:
        path = package / change.file
        text = texts.get(path) or path.read_text(encoding="utf-8")
        found = text.count(change.old)
        if found != 1:
            raise DoesNotApply(f"mutant {mutant.name!r}: {change.file} has its text {found} times, not once")
        texts[path] = text.replace(change.old, change.new)
        if path.suffix == ".py":
            compile(texts[path], str(path), "exec")
    return texts


def on(test: str, *cases: str) -> tuple[str, ...]:
    """The node ids of these cases of a test with parameters."""
    return tuple(f"{test}[{case}]" for case in cases)
