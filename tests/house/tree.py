"""The project's tree as the house tests read it: its files, and its modules parsed once."""

from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("src", "tests", "demo", "bench")


@dataclass(frozen=True)
class Module:
    """One Python file, parsed."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """Dotted, as imported: `tenure.sinks.sink`, `tests.house.tree`."""
        return name_of(self.path)

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))


def name_of(path: Path) -> str:
    """The dotted name of the module in a file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    if parts[0] == "src":
        parts.pop(0)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


@cache
def files() -> tuple[Path, ...]:
    """Every file that is or would be committed: what git does not ignore; without git, all but dot-folders."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,  # a checkout that belongs to another user makes git refuse: then the walk below
        )
        if listing.returncode == 0:
            paths = (ROOT / name for name in listing.stdout.split("\0") if name)
            return tuple(sorted(path for path in paths if path.is_file()))
    hidden = {path for path in ROOT.iterdir() if path.name.startswith(".") and path.name != ".ci"}
    skipped = hidden | {ROOT / "build", ROOT / "dist"}
    walked = (path for path in ROOT.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return tuple(sorted(path for path in walked if not skipped.intersection(path.parents) and path not in skipped))


@cache
def modules() -> tuple[Module, ...]:
    """Every Python module of the project."""
    found = (path for path in files() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in CODE)
    texts = ((path, path.read_text(encoding="utf-8")) for path in found)
    return tuple(Module(path, text, ast.parse(text, str(path))) for path, text in texts)


def product() -> tuple[Module, ...]:
    """The modules of the package itself."""
    return tuple(module for module in modules() if str(module).startswith("src/"))


def imports(module: Module, *, with_types: bool) -> Iterator[tuple[str, int]]:
    """Dotted names that the module imports, with their lines; `with_types` False leaves out TYPE_CHECKING blocks."""
    yield from _imports(module.tree.body, with_types=with_types)


def _imports(body: list[ast.stmt], *, with_types: bool) -> Iterator[tuple[str, int]]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            yield from _imports([*(node.body if with_types else []), *node.orelse], with_types=with_types)
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _imports(getattr(node, field, []), with_types=with_types)
            for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                yield from _imports(handler.body, with_types=with_types)
