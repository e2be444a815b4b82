"""Lets the drivers of one user on a machine fetch packages one after the other.

Ivy, by which spark-submit fetches packages, keeps them in one folder, without locks: of two drivers that start with an
empty folder, each destroys the downloads of the other, and both fail. Promise: a driver that fetches holds the kernel's
lock, which ends with its process, until its Spark is up. Not promised: anything where the folder of the lock cannot be
written to; nor between Tenure and other programs.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from tenure.link.connectors import PACKAGES

_IVY: Final = "spark.jars.ivy"


@contextmanager
def fetching_alone(arguments: Collection[str], settings: Mapping[str, str]) -> Iterator[None]:
    """Wait until no other driver fetches, and let none fetch in the block. Does nothing without packages. `arguments`:
    of spark-submit. `settings`: of Spark, which may name Ivy's folder."""
    flag, setting = PACKAGES
    with ExitStack() as held:
        if flag in arguments or setting in settings:
            with suppress(OSError):  # spark-submit has its own words for a folder that cannot be written to
                held.callback(os.close, _locked(Path(settings.get(_IVY) or _cache())))
        yield


def _cache() -> str:
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "tenure")


def _locked(folder: Path) -> int:
    """The descriptor of the locked file. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / "tenure-packages.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        os.close(lock)
        raise
    return lock
