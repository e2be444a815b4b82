#!/usr/bin/env python3
"""Count what makes the package large or hard to enter, now or at a revision: `scripts/counts.py [REVISION ...]`.

Prints one column for the working tree and one for each revision. It needs Python and git, and changes nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "src/tenure/"
MOST_OF_CONSTRUCTORS: Final = 7
MOST_OF_FUNCTIONS: Final = 6
KIND: Final = re.compile(
    r"\bis_(?:local|s3|hdfs)\b|isinstance\([^)]*\b(?:Local|S3|Hdfs)\w*\)|startswith\(\"(?:s3|hdfs)"
)
"""A branch on a kind of storage."""
KIT_OF_TESTS: Final = ("testing/", "backends/memory.py")
"""Where revisions have `tests/kit` that had it in the package."""
STORAGE_ROOMS: Final = ("storage/", "blobs/")
ENGINE: Final = re.compile(r"^\s*from tenure\.cleanup\.engine import", flags=re.MULTILINE)
"""An import of the engine of the cleanup."""


def sources(revision: str | None) -> dict[str, str]:
    """Path below the package -> text, of the working tree (None) or of a revision."""
    if revision is None:
        found = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.glob(f"{PACKAGE}**/*.py")}
    else:
        names = _git("ls-tree", "-r", "--name-only", revision, PACKAGE).splitlines()
        found = {name: _git("show", f"{revision}:{name}") for name in names if name.endswith(".py")}
    texts = {name.removeprefix(PACKAGE): text for name, text in found.items() if "_pb2" not in name}
    return {name: text for name, text in texts.items() if not name.startswith(KIT_OF_TESTS)}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def arguments(text: str) -> Iterator[tuple[int, str, int]]:
    """For each function how many arguments it takes, its name, and its line; `self` and commands are left out."""
    tree = ast.parse(text)
    methods = {id(node) for kind in ast.walk(tree) if isinstance(kind, ast.ClassDef) for node in kind.body}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_command(node):
            continue
        taken = node.args
        count = (
            len(taken.posonlyargs) + len(taken.args) + len(taken.kwonlyargs) + bool(taken.vararg) + bool(taken.kwarg)
        )
        is_static = any(ast.unparse(decorator) == "staticmethod" for decorator in node.decorator_list)
        yield count - (id(node) in methods and not is_static), node.name, node.lineno


def _is_command(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether Typer takes its arguments from the command line."""
    return any(".command(" in ast.unparse(decorator) for decorator in node.decorator_list)


def counts(texts: Mapping[str, str]) -> dict[str, int]:
    """What is counted, by name."""
    functions = [(count, name) for text in texts.values() for count, name, _ in arguments(text)]
    constructors = [count for count, name in functions if name == "__init__"]
    others = [count for count, name in functions if name != "__init__"]
    outside = [text for name, text in texts.items() if not name.startswith(STORAGE_ROOMS)]
    return {
        "modules": len(texts),
        "lines": sum(text.count("\n") for text in texts.values()),
        "largest module": max(text.count("\n") for text in texts.values()),
        "largest constructor": max(constructors),
        f"constructors with more than {MOST_OF_CONSTRUCTORS}": sum(
            count > MOST_OF_CONSTRUCTORS for count in constructors
        ),
        "largest function": max(others),
        f"functions with more than {MOST_OF_FUNCTIONS}": sum(count > MOST_OF_FUNCTIONS for count in others),
        "branches on kinds outside storage": sum(len(KIND.findall(text)) for text in outside),
        "modules that call the cleanup engine": sum(bool(ENGINE.search(text)) for text in texts.values()),
    }


def main(revisions: Sequence[str]) -> None:
    """Print the table."""
    columns = {"now": counts(sources(None)), **{name: counts(sources(name)) for name in revisions}}
    print(f"{'':40}" + "".join(f"{name:>12}" for name in columns))  # noqa: T201 - it is a command
    for row in columns["now"]:
        print(f"{row:40}" + "".join(f"{column[row]:12,}" for column in columns.values()))  # noqa: T201 - the same


if __name__ == "__main__":
    main(sys.argv[1:])
