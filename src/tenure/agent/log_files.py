"""The log files of a member: checked before the start, and not left behind empty.

Promise: a check leaves no file. A file that this member's run has made, and to which nothing was written, is removed.
Not promised: anything for a file that several members share, while none of them has written to it.
"""

from __future__ import annotations

import os
from contextlib import suppress

from tenure.errors import UsageError


class LogFile:
    """The file at `path`, which the flag `flag` names."""

    def __init__(self, path: str, *, flag: str) -> None:
        self._path = path
        self._flag = flag
        self._was_there = True
        """Whether the file was there before the run; also until `check` knows better."""

    def check(self) -> None:
        """Check that the file can be written to. Raises UsageError."""
        try:
            try:
                made = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            except FileExistsError:
                with open(self._path, "a", encoding="utf-8"):
                    return
            os.close(made)
            os.unlink(self._path)
            self._was_there = False
        except OSError as error:
            raise UsageError(
                f"{self._flag} {self._path!r} cannot be written: {error.strerror}",
                fix="name a file in a directory that exists",
            ) from error

    def remove_if_empty(self) -> None:
        """Remove the file if the run has made it and it is empty. Called when nobody writes to it any more."""
        if self._was_there:
            return
        with suppress(OSError):  # it is not there, or can no longer be removed: an empty file does no harm
            if os.path.getsize(self._path) == 0:
                os.unlink(self._path)
