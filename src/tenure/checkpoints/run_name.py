"""The names of run directories: each says in which epoch it may be run in, and by whom.

Promise: `parse` reads what `str` wrote, and takes nothing else for a run directory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tenure.coordination.encoding import new_uid

RUNS = "runs"
"""The folder of the storage below which they lie, in one folder a query."""

_PATH = re.compile(rf"{RUNS}/(?P<query>[^/]+)/e(?P<epoch>\d{{8,}})-(?P<member>[^/]+)-(?P<uid>[0-9a-f]{{12}})")


@dataclass(frozen=True, slots=True)
class RunName:
    """A run directory, or a mirror that may become one: of one query, for one member in one epoch."""

    query: str
    epoch: int
    member: str
    uid: str

    @classmethod
    def new(cls, query: str, *, epoch: int, member: str) -> RunName:
        """One that no other attempt has."""
        return cls(query, epoch, member, new_uid()[:12])

    @classmethod
    def parse(cls, path: str) -> RunName | None:
        """The one at a path below the storage; None: it is none."""
        found = _PATH.fullmatch(path)
        return None if found is None else cls(found["query"], int(found["epoch"]), found["member"], found["uid"])

    def __str__(self) -> str:
        return f"{RUNS}/{self.query}/e{self.epoch:08d}-{self.member}-{self.uid}"
