"""A storage that only says that it has files, for `bench.sweep --synthetic`: how much memory does a plan of very many
need?

`synthetic://N` has N files in run directories of a thousand each, beside one that is needed. fsspec has to know it in
Spark's workers as well: `for_workers` makes a folder for their PYTHONPATH.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec

from bench.sweep_trees import KEPT

_IN_A_FOLDER = 1000


class Synthetic(fsspec.AbstractFileSystem):  # type: ignore[misc] # fsspec ships no types
    """Read only; there is nothing in its files."""

    protocol = "synthetic"

    def ls(self, path: str, detail: bool = True, **named: Any) -> list[Any]:
        """What is in a folder."""
        count, _, folder = self._strip_protocol(path).partition("/")
        if folder == "runs":
            names, kind = ["q"], "directory"
        elif folder == "runs/q":
            folders = range(int(count) // _IN_A_FOLDER)
            names = [KEPT.rpartition("/")[2], *(f"e00000001-anna-{number:012x}" for number in folders)]
            kind = "directory"
        elif folder.startswith("runs/q/"):
            names, kind = [f"{number}.zip" for number in range(_IN_A_FOLDER)], "file"
        else:
            raise FileNotFoundError(path)
        found = [f"{count}/{folder}/{name}" for name in names]
        return [{"name": one, "size": 1, "type": kind} for one in found] if detail else found


def register() -> None:
    """Make it known to fsspec."""
    fsspec.register_implementation("synthetic", Synthetic, clobber=True)


def for_workers(folder: Path) -> str:
    """A folder whose `sitecustomize` makes it known to each Python that has it on its path."""
    folder.mkdir(parents=True)
    text = "from bench.sweep_synthetic import register\nregister()\n"
    (folder / "sitecustomize.py").write_text(text, encoding="utf-8")
    return str(folder)
