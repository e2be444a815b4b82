"""A driver's temporary folder: holds the temporary files of its Python, its JVM and Spark.

A killed JVM removes nothing: the libraries that it unpacked (RocksDB's, snappy's, lz4's), Spark's own folders, shuffles
and states stay. So each driver has a folder of its own, `tenure-driver-MEMBER.RANDOM`, which is removed as a whole.

Promise: the agent removes the folder after the driver's end. Where the agent ended as well, the next start of any
member of the same user removes the folder. The agent and the driver's process hold the kernel's lock on the file `lock`
in the folder; a locked folder is never removed, also across containers and scopes. Nothing is touched that
lacks the name, the lock file or the owner. Not promised: files that your own settings put elsewhere (`spark.local.dir`,
`-Djava.io.tmpdir=...`); and a temporary folder that several machines share on a file system without common locks (NFS
with `local_lock` or `nolock`).
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from tenure.coordination.encoding import new_uid
from tenure.errors import UsageError
from tenure.file_locks import make_locked, take_lock

_NAME: Final = re.compile(r"tenure-driver-[A-Za-z0-9._=-]*\.[0-9a-f]{12}")
_LOCK: Final = "lock"
_FULL: Final = os.strerror(errno.ENOSPC)
_LITTLE_MIB: Final = 64
"""A JVM unpacks some 20 MiB at its start."""
_NAMED_BY: Final = ("TMPDIR", "TEMP", "TMP")
"""The order in which Python's `tempfile` looks."""


class DriverFolder:
    """The folder of one driver."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path: Final = path
        self.lock: Final = lock
        """The descriptor of the locked file. A process that has it holds the folder; the driver is to inherit it."""

    @classmethod
    def make(cls, member: str) -> Self:
        """Remove the folders that no process holds, and make a new folder. Raises UsageError: the machine's temporary
        folder cannot be used."""
        root = temporary_folder()
        remove_abandoned(root)
        shown = re.sub(r"[^A-Za-z0-9._=-]", "_", member)[:64]
        try:
            while True:
                path = root / f"tenure-driver-{shown}.{new_uid()[:12]}"
                path.mkdir(mode=0o700)
                with suppress(FileNotFoundError):  # another member took the folder for abandoned in between
                    if (lock := make_locked(path / _LOCK, mode=0o600)) is not None:
                        break
            made = cls(path, lock)
            try:
                os.write(lock, f"{member} {os.getpid()}\n".encode())  # fails here when the disk is full
            except OSError:
                made.remove()
                raise
            return made
        except OSError as error:
            raise UsageError(
                f"the temporary folder {str(root)!r} cannot be used: {error.strerror}",
                fix="make room in it, or set TMPDIR to a folder that can be written to",
            ) from error

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the driver. A JVM reads JAVA_TOOL_OPTIONS first, so options of yours or of Spark's files
        override it."""
        option = shlex.quote(f"-Djava.io.tmpdir={self.path}")
        others = os.environ.get("JAVA_TOOL_OPTIONS")
        return {"TMPDIR": str(self.path), "JAVA_TOOL_OPTIONS": option if not others else f"{option} {others}"}

    def remove(self) -> None:
        """Remove the folder and release its lock. The next start of a member removes any rest."""
        with suppress(OSError):
            _remove(self.path)
        os.close(self.lock)


def temporary_folder() -> Path:
    """The machine's temporary folder: from the environment, else from `tempfile`. Raises UsageError: there is none."""
    named = next(filter(None, map(os.environ.get, _NAMED_BY)), None)
    try:
        return Path(os.path.abspath(named or tempfile.gettempdir()))
    except FileNotFoundError as error:
        raise UsageError(
            "no temporary folder can be used: all that are tried are full, or cannot be written to",
            fix="make room in /tmp, or set TMPDIR to a folder that can be written to",
        ) from error


def full_disk_fix(error: str) -> str | None:
    """How to fix an error that speaks of a full disk; None: it speaks of something else. Neither Spark nor Java names
    the disk, so this process's temporary folder is named where it has little room."""
    if _FULL not in error:
        return None
    folder = temporary_folder()
    free = shutil.disk_usage(folder).free >> 20
    if free >= _LITTLE_MIB:
        return "free space on that disk"
    return f"make room in the temporary folder '{folder}', which has {free} MiB of free space, or set TMPDIR to another"


def remove_abandoned(root: Path) -> None:
    """Remove the drivers' folders that no process holds. A folder that cannot be read or removed stays."""
    with suppress(OSError):
        for name in os.listdir(root):
            if _NAME.fullmatch(name):
                with suppress(OSError):
                    _remove_if_abandoned(root / name)


def _remove_if_abandoned(path: Path) -> None:
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        return
    try:
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        path.rmdir()  # it is new, or nearly removed; its maker notices, and makes another
        return
    try:
        if take_lock(lock):
            _remove(path)
    finally:
        os.close(lock)


def _remove(path: Path) -> None:
    """Remove the lock file last: after a crash on the way the folder can still be removed."""
    for entry in list(os.scandir(path)):
        if entry.name == _LOCK:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    (path / _LOCK).unlink(missing_ok=True)
    path.rmdir()
