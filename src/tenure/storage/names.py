"""Paths of a storage: lists of names joined by `/`.

Promise: pure functions, except for the random digits of a hidden name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

_UNFINISHED: Final = re.compile(r"\.[0-9a-f]{16}-.+")


def is_relative(path: str) -> bool:
    """Whether a path is a list of names, of which none leads elsewhere."""
    return not any(part in {"", ".", ".."} or "\0" in part for part in path.split("/"))


def checked(path: str) -> str:
    """The path itself. Raises ValueError: it is neither empty nor a list of names."""
    if path and not is_relative(path):
        raise ValueError(f"{path!r} is not a relative path of names")
    return path


def unfinished(full: str) -> str:
    """A new hidden name beside a file, for the content of the file until it is whole. No two writers share a name."""
    folder, _, name = full.rpartition("/")
    return f"{folder}/.{os.urandom(8).hex()}-{name}"


def is_unfinished(name: str) -> bool:
    """Whether a file is the remainder of a write that did not end."""
    return _UNFINISHED.fullmatch(name) is not None


def deepest_first(folders: Iterable[str]) -> list[str]:
    """Folders in an order in which each comes before the folders above it."""
    return sorted(folders, key=lambda folder: (-folder.count("/"), folder))


def above(paths: Iterable[str]) -> set[str]:
    """The folders above these paths, at any height."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found
