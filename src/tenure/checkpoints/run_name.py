"""The run directories of the queries: each is named by the epoch and the member that may run in it.

Promise: `parse` reads the paths of `str`, and takes no other path for a run directory. The folder of a query may be a
link. Listings raise StorageError.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tenure.coordination.encoding import new_uid
from tenure.storage.reach import reach

RUNS = "runs"
"""The folder of the storage that holds the run directories, in a folder for each query."""

_PATH = re.compile(rf"{RUNS}/(?P<query>[^/]+)/e(?P<epoch>\d{{8,}})-(?P<member>[^/]+)-(?P<uid>[0-9a-f]{{12}})")

_OF_PINS: Final = 0
"""The epochs of terms begin at 1."""


@dataclass(frozen=True, slots=True)
class RunName:
    """The run directory of a query, for one member in one epoch; or a mirror that may become such a directory."""

    query: str
    epoch: int
    member: str
    uid: str

    @classmethod
    def new(cls, query: str, *, epoch: int, member: str) -> RunName:
        """A name that no other attempt has."""
        return cls(query, epoch, member, new_uid()[:12])

    @classmethod
    def pinned(cls, query: str) -> RunName:
        """The name of a copy that a pin keeps. It is of no epoch, so a sweep removes it once no pin names it."""
        return cls.new(query, epoch=_OF_PINS, member="pin")

    @property
    def is_pinned(self) -> bool:
        """Whether it is the name of a pin's copy, on which no member ever runs."""
        return self.epoch == _OF_PINS

    @classmethod
    def parse(cls, path: str) -> RunName | None:
        """The name at a path below the storage; None: the path is not that of a run directory."""
        found = _PATH.fullmatch(path)
        return None if found is None else cls(found["query"], int(found["epoch"]), found["member"], found["uid"])

    def __str__(self) -> str:
        return f"{RUNS}/{self.query}/e{self.epoch:08d}-{self.member}-{self.uid}"


def run_queries(storage: str) -> list[str]:
    """The names of the folders of queries in a scope's part of the storage."""
    return [entry.name for entry in reach(f"{storage}/{RUNS}").entries()]


def runs_of(storage: str, query: str) -> list[RunName]:
    """The run directories of a query, and its mirrors, which may become such; the oldest epoch first."""
    folder = f"{RUNS}/{query}"
    names = [RunName.parse(f"{folder}/{entry.name}") for entry in reach(f"{storage}/{folder}").entries()]
    return sorted((name for name in names if name is not None), key=lambda name: name.epoch)


def newest_logged(run_directory: str, log: str) -> int | None:
    """The newest batch in one of Spark's logs there: `offsets`, planned; `commits`, done. None: there is no batch."""
    entries = reach(f"{run_directory}/{log}").entries()
    return max((int(entry.name) for entry in entries if entry.name.isdigit()), default=None)
