"""Files and folders as listings return them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or a folder in a folder. A symbolic link is a file."""

    name: str
    folder: bool
    size: int | None = None
    """In bytes, 0 for a folder; None: the caller did not ask for sizes."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A folder that the budget of a walk did not reach, with everything below it."""

    folder: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Some of the files directly in a folder. On a local disk and in HDFS an empty folder has a file with an empty
    name; in an object store such a name is the object that stands for the folder."""

    folder: str
    names: Sequence[str]
    sizes: Sequence[int] | None
    """In bytes; None: the listing has no sizes, ask `Storage.sizes`."""

    @property
    def paths(self) -> list[str]:
        """Below the root."""
        return [f"{self.folder}/{name}" if self.folder else name for name in self.names]
