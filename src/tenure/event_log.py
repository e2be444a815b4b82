"""The event log: one JSON object a line, of all processes of a member.

Promise: a line is written by one write to the file that the path names at that moment, so another program may rename,
copy or truncate the file at any time. A file that would grow over its limit is renamed first, and the oldest of the
renamed files goes. A rotation loses no line: of processes that write at once, one renames, and none waits for another,
also not for a process that is stopped. Only a file is renamed, never a pipe or a device. Not promised: the limit to the
byte, while processes write at once; a limit where the folder permits no rename; a whole line on a full disk, after
which the next line begins anew.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Final

from tenure.clock import Clock
from tenure.event import Event, event_to_data
from tenure.file_locks import is_at, take_lock

FILES: Final = 4
"""How many files a log has: that of the path, and the renamed files `.1` (the newest) to `.3`."""

_OF_THE_SYSTEM: Final = ("/dev/", "/proc/")
"""A path there names what the caller of the process has opened: the output of the process, for example."""


class JsonLines:
    """A subscriber that appends each event to a file as one JSON line."""

    def __init__(self, path: str, *, clock: Clock, most_bytes: int = 0, files: int = FILES) -> None:
        """`most_bytes`: of a file; 0: it grows without end."""
        self._path = Path(path)
        self._clock = clock
        self._most_bytes = 0 if path.startswith(_OF_THE_SYSTEM) else most_bytes
        self._files = files
        self._lock = threading.Lock()  # guards _torn, and keeps the lines of this process in order
        self._torn = False  # whether the last line may be incomplete

    def __call__(self, event: Event) -> None:
        """Append one event. Raises OSError."""
        fields = event_to_data(event)
        line = (
            json.dumps({"event": fields.pop("event"), "at": self._clock.now().isoformat(), **fields}).encode() + b"\n"
        )
        with self._lock:
            while not self._append(line):
                pass  # the file was renamed, or removed, in between

    def _append(self, line: bytes) -> bool:
        """Append the line; False: not to a file that anybody finds."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            now = os.fstat(descriptor)
            if not stat.S_ISREG(now.st_mode):
                self._write(descriptor, line)
                return True
            is_full = 0 < self._most_bytes < now.st_size + len(line) and now.st_size > 0
            if is_full and self._rotate(descriptor):
                return False
            self._write(descriptor, line)
            return os.fstat(descriptor).st_nlink > 0
        finally:
            os.close(descriptor)

    def _rotate(self, descriptor: int) -> bool:
        """Rename the file of the descriptor, unless another process has done so. False: another process does so now,
        or the file system has no locks or permits no rename; then the file grows on."""
        path = Path(os.path.realpath(self._path))
        try:
            if not take_lock(descriptor):
                return False
            if is_at(path, descriptor):
                for number in reversed(range(1, self._files - 1)):
                    _rename(_numbered(path, number), _numbered(path, number + 1))
                path.rename(_numbered(path, 1))
        except OSError:
            return False
        return True

    def _write(self, descriptor: int, line: bytes) -> None:
        rest = b"\n" * self._torn + line
        self._torn = True
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        self._torn = False


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _rename(path: Path, to: Path) -> None:
    try:
        path.rename(to)
    except FileNotFoundError:
        return  # there are fewer files yet
