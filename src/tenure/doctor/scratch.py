"""The scratch scope and the scratch folder of a doctor, and their removal.

Promise: every scratch record is bound to the doctor's session, so it goes with the session, at its ttl after a kill. A
scratch folder has the host, the process and the time of its doctor in its name. The next doctor removes the folder of a
process of this host that is gone, and any folder that is older than a day. Two doctors never share a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.errors import StorageError
from tenure.storage.storage import Storage

SCRATCH: Final = Scope("tenure-doctor")
"""The scope; in the storage, the folder."""

_NAME: Final = re.compile(r"(?P<host>[A-Za-z0-9_-]+)[.](?P<pid>[0-9]+)[.](?P<began>[0-9]+)")
_OLD: Final = timedelta(days=1)


def name_of(host: str, pid: int, began: datetime) -> str:
    """The name of the folder of a doctor."""
    return f"{word_of(host)}.{pid}.{int(began.timestamp())}"


def word_of(host: str) -> str:
    """The name of a host as one word, for names of files and members."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", host)


def is_abandoned(name: str, *, host: str, runs: Callable[[int], bool], now: datetime) -> bool:
    """Whether the doctor of a folder is gone. `runs`: whether a process of this host runs. Another name is nobody's."""
    found = _NAME.fullmatch(name)
    if found is None:
        return False
    here = found["host"] == word_of(host)
    if here and not runs(int(found["pid"])):
        return True
    return now.timestamp() - int(found["began"]) > _OLD.total_seconds()


def runs(pid: int) -> bool:
    """Whether a process of this host runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def scratch_folder(root: Storage, *, host: str, clock: Clock) -> Iterator[str]:
    """The path of a folder below `root` for the block, which makes it by its first file. The folders of dead doctors go
    first. Raises StorageError, also where the folder cannot be removed."""
    there_before = bool(root.entries()) or root.is_empty()
    for entry in root.entries(SCRATCH):
        if is_abandoned(entry.name, host=host, runs=runs, now=clock.now()):
            root.remove(f"{SCRATCH}/{entry.name}")
    folder = f"{SCRATCH}/{name_of(host, os.getpid(), clock.now())}"
    try:
        yield folder
    except BaseException:
        with suppress(StorageError):  # the error of the block says more
            _remove(root, folder, keep_root=there_before)
        raise
    _remove(root, folder, keep_root=there_before)


def _remove(root: Storage, folder: str, *, keep_root: bool) -> None:
    root.remove(folder)
    root.remove_empty(SCRATCH)
    if not keep_root:
        root.remove_empty()
