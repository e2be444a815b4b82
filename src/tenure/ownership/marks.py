"""The marks of its owner in a scope's part of a storage: `owner/identity`, put if absent, and one for each epoch.

A storage that does not put if absent may take the second identity for the first one, and two copies of one store have
one identity. So the name of an epoch's mark has the identity and the grant, and whoever has put one lists them again:
of two that mark a storage at once, at least the later one sees the other, and removes its own mark.

Promise: a mark is whole and durable when `claim` or `put` returns. Links are followed: Spark would, too. What does not
look like a mark is none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from tenure.coordination.identity import ANEW
from tenure.errors import BlobExists, BlobNotFound, OwnerMismatch
from tenure.ownership.rules import InStorage, Mark
from tenure.storage.reach import reach

OWNER: Final = "owner"
"""The folder below a scope's storage."""

_IDENTITY: Final = "identity"
_FORMAT: Final = 1


class Marks:
    """The marks below one scope's part of the storage. No I/O in the constructor."""

    def __init__(self, storage: str) -> None:
        self._url = f"{storage}/{OWNER}"
        self._folder = reach(self._url)

    def look(self) -> InStorage:
        """What is there. Raises StorageError, OwnerMismatch: what is there says nothing."""
        names = [entry.name for entry in self._folder.entries()]
        marks = tuple(mark for mark in map(Mark.parse, names) if mark is not None)
        # It is asked for only while nobody has led yet: a mark of an epoch says the same.
        claimed = self._claimed() if not marks and _IDENTITY in names else None
        return InStorage(claimed=claimed, marks=marks)

    def claim(self, identity: str) -> str | None:
        """Put the identity, unless one is there; return whose it is then; None: it was removed meanwhile.
        Raises StorageError, OwnerMismatch."""
        try:
            self._put(_IDENTITY, {"identity": identity})
        except BlobExists:
            return self._claimed()
        return identity

    def put(self, mark: Mark, *, holder: str, since: str) -> None:
        """Put the mark of an epoch; fine when it is there. `holder`, `since`: for people. Raises StorageError."""
        with suppress(BlobExists):
            self._put(str(mark), {"epoch": mark.epoch, "holder": holder, "since": since})

    def drop(self, mark: Mark) -> None:
        """Remove the mark of an epoch. Raises StorageError."""
        self._folder.delete(str(mark))

    def disclaim(self) -> None:
        """Remove the identity, which says nothing any more once there is a mark. Raises StorageError."""
        self._folder.delete(_IDENTITY)

    def _put(self, name: str, fields: dict[str, Any]) -> None:
        self._folder.write(name, json.dumps({"v": _FORMAT, **fields}, sort_keys=True).encode())

    def _claimed(self) -> str | None:
        try:
            found = json.loads(self._folder.read(_IDENTITY))
            return str(found["identity"])
        except BlobNotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise OwnerMismatch(
                f"{self._url}/{_IDENTITY} does not say whose storage it is in: {error!r}",
                fix=f"restore it; {ANEW}",
            ) from error
