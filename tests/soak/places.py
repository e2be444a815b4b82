"""Where the queries of a run write, by sink: what all targets on one server, or in one catalog, have in common.

Promise: each `rows` is read by code that is not the writer's. A place that is away refuses its writers, or is silent.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from demo.ground import Ground
from tests.crash.truth import Row
from tests.soak.database import Database
from tests.soak.lake import Lake
from tests.soak.mariadb import MariaDb
from tests.soak.plan import ICEBERG, KAFKA, MYSQL, POSTGRES, Query
from tests.soak.topics import Topics


class Place(Protocol):
    """The targets of one sink in one run."""

    def make(self, queries: Sequence[Query]) -> None:
        """Make what the queries need there."""
        ...

    def rows(self, query: Query) -> list[Row]:
        """What a reader of a query's target sees."""
        ...

    def leave(self) -> None:
        """Be away from now on."""
        ...

    def come_back(self) -> None:
        """Answer again; nothing when the place is there."""
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


@runtime_checkable
class Transactional(Place, Protocol):
    """A place whose server tells of transactions."""

    def moves(self) -> bool:
        """Whether somebody is in a transaction of a batch now."""
        ...

    def holds(self) -> bool:
        """Whether somebody who was stopped is in one."""
        ...


@runtime_checkable
class Locking(Place, Protocol):
    """A place whose server tells who waits for whom."""

    longest_wait_s: float
    """For how long a member has waited for a lock, as far as `look` has seen."""

    def look(self) -> None:
        """Look for how long members wait for each other now."""
        ...


def place_of(sink: str, folder: Path, ground: Ground) -> Place | None:
    """The place of a sink in the run of a folder; None: each query has its own, below the folder."""
    if sink == POSTGRES:
        return Database(ground.database, folder.name)
    if sink == MYSQL:
        assert ground.mysql is not None
        return MariaDb(ground.mysql, folder.name)
    if sink == ICEBERG:
        return Lake(folder, ground.lake)
    if sink == KAFKA:
        assert ground.topics is not None
        return Topics(ground.topics, folder)
    return None
