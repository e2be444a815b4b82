"""System calls on a local disk: folders made durable, and opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


def make_folders(folder: str) -> None:
    """Make a folder and those above it; their names are durable on return."""
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    make_folders(parent)
    with suppress(FileExistsError):
        os.mkdir(folder)
    sync_path(parent)


def sync_path(path: str) -> None:
    """Return when a file's content, or the names in a folder, are durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """A folder, which is no link, for calls with `dir_fd`: a long path is looked up once for all files in it.
    Raises OSError."""
    descriptor = os.open(path, os.O_DIRECTORY | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield descriptor
    finally:
        os.close(descriptor)
