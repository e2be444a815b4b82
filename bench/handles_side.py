"""What every contender of `bench.handles` does, and what it is checked against.

Promise: a side keeps its own book of the handles that it wrote; what it reads back is compared with the book, and a
difference ends the bench. Handles are numbered; a payload tells its handle and how often that was replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

PAYLOAD_BYTES = 1024


class WrongResult(Exception):
    """A contender did not do what it said."""


class Side(Protocol):
    """One contender. Each call returns the seconds that the work took, without its checks."""

    def add(self, count: int) -> float:
        """Add the next handles, one commit each."""
        ...

    def replace(self, count: int) -> float:
        """Replace the newest handles, one commit each."""
        ...

    def add_drop(self, count: int) -> float:
        """Add the next handles, and drop the oldest one with each."""
        ...

    def get_all(self) -> float:
        """Read all payloads."""
        ...

    def remove_all(self) -> float:
        """Remove all handles."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def name_of(number: int) -> str:
    """As Flink names a checkpoint."""
    return f"{number:019d}"


def payload_of(number: int, change: int) -> bytes:
    """The state of a handle that was replaced `change` times."""
    word = f"{number}.{change};".encode()
    return (word * (PAYLOAD_BYTES // len(word) + 1))[:PAYLOAD_BYTES]


class Stopwatch:
    """Seconds within `with` blocks."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of this block."""
        start = time.perf_counter()
        yield
        self.seconds += time.perf_counter() - start


class Book:
    """A side in this process: it knows what must be there. The subclasses do the work."""

    def __init__(self, files: Path) -> None:
        self.files = files
        """Where the side's files are, and nobody else's."""
        self.changes: dict[int, int] = {}  # handle -> how often it was replaced, the oldest first
        self._next = 0

    def add(self, count: int) -> float:
        """See `Side`."""
        work = [(number, payload_of(number, 0)) for number in range(self._next, self._next + count)]
        watch = Stopwatch()
        with watch.running():
            for number, payload in work:
                self.do_add(number, payload)
        self.changes.update({number: 0 for number, _ in work})
        self._next += count
        return watch.seconds

    def replace(self, count: int) -> float:
        """See `Side`."""
        newest = list(self.changes)[-count:]
        work = [(number, payload_of(number, self.changes[number] + 1)) for number in newest]
        watch = Stopwatch()
        with watch.running():
            for number, payload in work:
                self.do_replace(number, payload)
        for number in newest:
            self.changes[number] += 1
        return watch.seconds

    def add_drop(self, count: int) -> float:
        """See `Side`."""
        oldest = list(self.changes)[:count]
        new = range(self._next, self._next + count)
        work = [(number, payload_of(number, 0), old) for number, old in zip(new, oldest, strict=True)]
        watch = Stopwatch()
        with watch.running():
            for number, payload, old in work:
                self.do_add_drop(number, payload, old)
        self.changes = {number: change for number, change in self.changes.items() if number not in set(oldest)}
        self.changes.update(dict.fromkeys(new, 0))
        self._next += count
        return watch.seconds

    def get_all(self) -> float:
        """See `Side`."""
        watch = Stopwatch()
        with watch.running():
            found = self.do_get_all()
        wanted = {name_of(number): payload_of(number, change) for number, change in self.changes.items()}
        if found != wanted:
            wrong = [name for name in wanted if found.get(name) != wanted[name]]
            raise WrongResult(f"{self}: {len(found)} payloads, {len(wanted)} wanted, wrong: {wrong[:3]}")
        return watch.seconds

    def remove_all(self) -> float:
        """See `Side`."""
        watch = Stopwatch()
        with watch.running():
            self.do_remove_all(list(self.changes))
        self.changes.clear()
        left = self.do_get_all()
        files = [path for path in self.files.rglob("*") if path.is_file()]
        if left or files:
            raise WrongResult(f"{self}: {len(left)} handles and {len(files)} files are left")
        return watch.seconds

    def do_add(self, number: int, payload: bytes) -> None:
        """One add."""
        raise NotImplementedError

    def do_replace(self, number: int, payload: bytes) -> None:
        """One replace."""
        raise NotImplementedError

    def do_add_drop(self, number: int, payload: bytes, drop: int) -> None:
        """One add, and one removal."""
        raise NotImplementedError

    def do_get_all(self) -> Mapping[str, bytes]:
        """All payloads by name."""
        raise NotImplementedError

    def do_remove_all(self, numbers: Sequence[int]) -> None:
        """Remove these, which are all."""
        raise NotImplementedError

    def __str__(self) -> str:
        return f"{type(self).__name__} in {self.files.name}"


def write_durably(path: Path, data: bytes) -> None:
    """The least that a durable file needs: temporary file, fsync, rename, fsync of the directory."""
    part = f"{path}.part"
    with open(part, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(part, path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
