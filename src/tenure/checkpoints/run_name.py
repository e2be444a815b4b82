"""The names of run directories: each names the epoch and the member that may run in it.

Promise: `parse` reads the paths of `str`, and takes no other path for a run directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenure.coordination.encoding import new_uid

RUNS = "runs"
"""The folder of the storage that holds the run directories, in a folder for each query."""

_PATH = re.compile(rf"{RUNS}/(?P<query>[^/]+)/e(?P<epoch>\d{{8,}})-(?P<member>[^/]+)-(?P<uid>[0-9a-f]{{12}})")


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
    def parse(cls, path: str) -> RunName | None:
        """The name at a path below the storage; None: the path is not that of a run directory."""
        found = _PATH.fullmatch(path)
        return None if found is None else cls(found["query"], int(found["epoch"]), found["member"], found["uid"])

    def __str__(self) -> str:
        return f"{RUNS}/{self.query}/e{self.epoch:08d}-{self.member}-{self.uid}"
