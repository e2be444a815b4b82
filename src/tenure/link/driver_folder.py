"""A driver's temporary folder: what Python, the JVM and Spark put into the temporary folder of the machine is in it.

A JVM that is killed removes nothing: the libraries that it unpacked (RocksDB's, snappy's, lz4's), Spark's own folders,
shuffles and states stay. So each driver has a folder of its own, `tenure-driver-MEMBER.RANDOM`, which goes as a whole.

Promise: the agent removes it when it buries the driver; of those whose agent ended as well, the next start of any
member of the same user removes what is left. A folder is another's as long as somebody has the kernel's lock on the
file `lock` in it: the agent and the driver's process have, whatever container or scope they belong to. Nothing is
touched that has not that name, that file and that owner. Not promised: what the user's own settings put elsewhere
(`spark.local.dir`, `-Djava.io.tmpdir=...`), which are obeyed; and a temporary folder that several machines share, on a
file system whose locks one does not see of the other (NFS with `local_lock` or `nolock`).
"""

from __future__ import annotations

import errno
import fcntl
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

_NAME: Final = re.compile(r"tenure-driver-[A-Za-z0-9._=-]*\.[0-9a-f]{12}")
_LOCK: Final = "lock"
_FULL: Final = os.strerror(errno.ENOSPC)
_LITTLE_MIB: Final = 64
"""A JVM unpacks some 20 MiB before it has done anything."""
_NAMED_BY: Final = ("TMPDIR", "TEMP", "TMP")
"""As Python's `tempfile` looks for it."""


class DriverFolder:
    """The folder of one driver."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path: Final = path
        self.lock: Final = lock
        """A descriptor: whoever has it, holds the folder. The driver's process is to inherit it."""

    @classmethod
    def make(cls, member: str) -> Self:
        """A new folder, after those that nobody holds were removed. Raises UsageError: the machine's temporary folder
        cannot be used."""
        root = temporary_folder()
        remove_abandoned(root)
        shown = re.sub(r"[^A-Za-z0-9._=-]", "_", member)[:64]
        try:
            while True:
                path = root / f"tenure-driver-{shown}.{new_uid()[:12]}"
                path.mkdir(mode=0o700)
                lock = _locked_anew(path / _LOCK)
                if lock is not None:
                    break
            made = cls(path, lock)
            try:
                os.write(lock, f"{member} {os.getpid()}\n".encode())  # a disk that is full says so here
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
        """What a driver has to find in its environment. Of JVM options those of JAVA_TOOL_OPTIONS come first, so that
        any others, of a user's or of Spark's files, override them."""
        option = shlex.quote(f"-Djava.io.tmpdir={self.path}")
        theirs = os.environ.get("JAVA_TOOL_OPTIONS")
        return {"TMPDIR": str(self.path), "JAVA_TOOL_OPTIONS": option if not theirs else f"{option} {theirs}"}

    def remove(self) -> None:
        """Remove it, and let go of it. What cannot be removed now, the next start of a member finds."""
        with suppress(OSError):
            _remove(self.path)
        os.close(self.lock)


def temporary_folder() -> Path:
    """The machine's temporary folder: the one that the environment names, else as `tempfile` finds it. Raises
    UsageError: there is none."""
    named = next(filter(None, map(os.environ.get, _NAMED_BY)), None)
    try:
        return Path(os.path.abspath(named or tempfile.gettempdir()))
    except FileNotFoundError as error:
        raise UsageError(
            "no temporary folder can be used: all that are tried are full, or cannot be written to",
            fix="make room in /tmp, or set TMPDIR to a folder that can be written to",
        ) from error


def room_to_make(said: str) -> str | None:
    """What to do about an error that speaks of a full disk: neither Spark nor Java says which one it is, so this
    process's temporary folder is named where it has little room left. None: it speaks of something else."""
    if _FULL not in said:
        return None
    folder = temporary_folder()
    free = shutil.disk_usage(folder).free >> 20
    if free >= _LITTLE_MIB:
        return "free space on that disk"
    return f"make room in the temporary folder '{folder}', which has {free} MiB left, or set TMPDIR to another"


def remove_abandoned(root: Path) -> None:
    """Remove the folders of drivers that nobody holds. What cannot be looked at, or removed, stays."""
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
        path.rmdir()  # it was just made, or nearly removed; who has just made it sees that, and makes another
        return
    try:
        if _take(lock):
            _remove(path)
    finally:
        os.close(lock)


def _locked_anew(path: Path) -> int | None:
    """Make the file and lock it; None: somebody took the folder for an abandoned one in between."""
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    with suppress(FileNotFoundError):
        if _take(lock) and os.path.samestat(path.stat(), os.fstat(lock)):
            return lock
    os.close(lock)
    return None


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _remove(path: Path) -> None:
    """The file that says whose it is goes last: whoever dies on the way leaves a folder that can be removed."""
    for entry in list(os.scandir(path)):
        if entry.name == _LOCK:
            continue
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)
    (path / _LOCK).unlink(missing_ok=True)
    path.rmdir()
