"""The marks of its owner in a scope's part of a storage: `owner/identity`, put if absent, and a mark for each epoch.

A storage without put-if-absent may accept a second identity, and two copies of a store have the same identity. So the
name of an epoch's mark has the identity and the grant, and a leader lists the marks again after it has put its own. Of
two leaders that mark a storage at once, at least the later sees the other mark, and removes its own.

Promise: a mark is whole and durable when `claim` or `put` returns. Links are followed, as in Spark. Other names are no
marks.
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
    """The marks below a scope's part of the storage. No I/O in the constructor."""

    def __init__(self, storage: str) -> None:
        self._url = f"{storage}/{OWNER}"
        self._folder = reach(self._url)

    def look(self) -> InStorage:
        """The marks that are there. Raises StorageError, OwnerMismatch: the identity does not decode."""
        names = [entry.name for entry in self._folder.entries()]
        marks = tuple(mark for mark in map(Mark.parse, names) if mark is not None)
        # Read only while there is no mark of an epoch, which also names the identity.
        claimed = self._claimed() if not marks and _IDENTITY in names else None
        return InStorage(claimed=claimed, marks=marks)

    def claim(self, identity: str) -> str | None:
        """Put the identity if absent; return the identity there; None: it went. Raises StorageError, OwnerMismatch."""
        try:
            self._put(_IDENTITY, {"identity": identity})
        except BlobExists:
            return self._claimed()
        return identity

    def put(self, mark: Mark, *, holder: str, since: str) -> None:
        """Put the mark of an epoch if absent. `holder`, `since`: for people. Raises StorageError."""
        with suppress(BlobExists):
            self._put(str(mark), {"epoch": mark.epoch, "holder": holder, "since": since})

    def drop(self, mark: Mark) -> None:
        """Remove the mark of an epoch. Raises StorageError."""
        self._folder.delete(str(mark))

    def disclaim(self) -> None:
        """Remove the identity, which nobody reads once there is a mark. Raises StorageError."""
        self._folder.delete(_IDENTITY)

    def _put(self, name: str, fields: dict[str, Any]) -> None:
        self._folder.write(name, json.dumps({"v": _FORMAT, **fields}, sort_keys=True).encode())

    def _claimed(self) -> str | None:
        try:
            return str(json.loads(self._folder.read(_IDENTITY))["identity"])
        except BlobNotFound:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise OwnerMismatch(
                f"{self._url}/{_IDENTITY} does not say whose storage it is in: {error!r}", fix=f"restore it; {ANEW}"
            ) from error
