"""Looks at the storage: does it keep the contract that checkpoints and blobs rest on, has it room, whose is it.

Promise: all files lie in the scratch folder, which is removed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tenure.coordination.examination import Grade, Remark
from tenure.doctor import rules
from tenure.doctor.case import Case
from tenure.doctor.of_store import examination_of
from tenure.doctor.scratch import scratch_folder
from tenure.errors import BlobExists
from tenure.opening import scope_context
from tenure.storage.disk import free_space
from tenure.storage.reach import reach
from tenure.storage.storage import Storage

_RACES: Final = 5
"""How often two writers create one file at the same time."""


def look_at_storage(case: Case) -> Iterator[Remark]:
    """Write, list, replace, remove. Raises UsageError, StorageError."""
    storage = reach(case.storage_url)
    with scratch_folder(storage, host=socket.gethostname(), clock=case.clock) as folder:
        began_s = case.clock.monotonic_s()
        storage.write(f"{folder}/first", b"one")
        took_s = case.clock.monotonic_s() - began_s
        yield Remark(Grade.OK, f"{storage.url} takes a file in {1000 * took_s:.0f} ms")
        yield from _faults(storage, folder)


def _faults(storage: Storage, folder: str) -> Iterator[Remark]:
    if [entry.name for entry in storage.entries(folder)] != ["first"]:
        yield Remark(
            Grade.BAD,
            "a listing does not show a file that was just written",
            "a takeover would miss the newest files of the state",
            "use a storage whose listings are consistent",
        )
    why = _not_exclusive(storage, folder)
    if why is not None:
        yield Remark(
            Grade.BAD,
            f"the storage creates no file exclusively: {why}",
            "two leaders would write one blob, and a checkpoint would name the bytes of the other",
            "use a storage with conditional puts (S3: If-None-Match), or a disk with hard links",
        )
    storage.replace(f"{folder}/first", b"two")
    if storage.read(f"{folder}/first") != b"two":
        yield Remark(
            Grade.BAD,
            "a file that was replaced has its old content",
            "a takeover would go on with an old state",
            "use a storage whose reads are consistent",
        )


def _not_exclusive(storage: Storage, folder: str) -> str | None:
    """How the storage let two writers create one file; None: it refused the second writer each time."""

    def creates(path: str, data: bytes) -> bool:
        try:
            storage.write(path, data)
        except BlobExists:
            return False
        return True

    if creates(f"{folder}/first", b"other") or storage.read(f"{folder}/first") != b"one":
        return "a second write replaced the first"
    with ThreadPoolExecutor(2, thread_name_prefix="tenure-doctor") as pool:
        for race in range(_RACES):
            path = f"{folder}/race-{race}"
            won = list(pool.map(creates, (path, path), (b"a", b"b")))
            if sum(won) != 1:
                return f"of two writers at the same time, {sum(won)} succeeded"
    return None


def look_at_space(case: Case) -> Iterator[Remark]:
    """The free space of the disks that the storage and the store are on. Raises NotMade."""
    local = reach(case.storage_url).local_folder
    if local is None:
        yield Remark(Grade.NOTE, f"the space of {case.storage_url} was not looked at: it is not a disk of this host")
    else:
        yield rules.about_space(f"the storage {local}", free_space(local))
    if case.found_store is None:
        return
    examination = examination_of(case)
    folder = None if examination is None else examination.local_folder
    if folder is not None:
        yield rules.about_space(f"the folder of the store {folder}", free_space(folder))


def look_at_owner(case: Case) -> Iterator[Remark]:
    """Whether the storage is that of the store's scope (I10). Raises OwnerMismatch, StoreError, StorageError,
    Corrupt."""
    _ = case.storage_url
    context = scope_context(case.settings, case.store, case.scope, clock=case.clock)
    mark = context.owner().check()
    if mark is None:
        yield Remark(Grade.OK, f"no pipeline has marked {context.storage} yet")
    else:
        yield Remark(Grade.OK, f"{context.storage} belongs to the scope, marked in epoch {mark.epoch}")
