"""Which of the files staged beside a Delta table go, in a sweep of any size: the rules of `staged_attempts.py`,
asked once for a folder, by tasks.

Promise (I8): `look` is called when everything was listed; it reads what is planned, and then the table's log. Of the
log's attempts the driver keeps 16 bytes each. Only attempts of earlier epochs than the newest go, of queries of this
scope, under ids that are in its own run directories. Not promised: that empty folders go in which no attempt is: the
leader's sweep removes them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from tenure.cleanable import STAGED
from tenure.errors import StorageError, UsageError
from tenure.sinks.delta.history import Remembered, attempts_named, open_table
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import app_id_of
from tenure.sinks.delta.orphans import QuerySeen, is_over, was_never_planned
from tenure.sinks.delta.staging import StagingPath, folder_of
from tenure.sinks.sink import Attempts, Planned

_ID: Final = pa.binary(16)
_SOME: Final = 50_000


@dataclass(frozen=True, slots=True)
class StagedSeen:
    """What the records and the log of a table say. A `Judge`, which is sent to the tasks."""

    scope: str
    epoch: int
    """Attempts of this one and of later ones are in the making."""
    holder: str
    location: Location
    queries: Mapping[tuple[str, str], QuerySeen]
    """(query, one of its ids) -> what is known of it."""
    committed: pa.Array
    """The attempts that the log names, as `binary(16)`."""
    remembered: Remembered | None
    """None: there is no table, nor was there one."""
    named: Collection[str] = field(default=frozenset(), init=False)

    def of_folders(self, folders: Sequence[str]) -> list[bool | None]:
        """For each whether all in it goes. Raises StorageError."""
        paths = [StagingPath.parse(folder) for folder in folders]
        maybe = {path for path in paths if path is not None and self._is_old(path)}
        ids = pa.array(sorted({bytes.fromhex(path.attempt) for path in maybe}), _ID)
        committed = {one.hex() for one in ids.filter(pc.is_in(ids, value_set=self.committed)).to_pylist()}
        try:
            goes = self._lost({path for path in maybe if path.attempt not in committed})
        except OSError as error:
            raise StorageError(f"cannot look at what is staged at {self.location}: {error}") from error
        return [path in goes for path in paths]

    def of_path(self, path: str) -> bool:
        """Whether one file goes; folders have decided that."""
        raise NotImplementedError

    def kind(self, folder: str) -> str:
        return STAGED

    def unit(self, folder: str) -> str | None:
        """The attempt that a folder is in."""
        found = StagingPath.parse(folder)
        return None if found is None else str(found)

    def _is_old(self, path: StagingPath) -> bool:
        return path.scope == self.scope and path.epoch < self.epoch and (path.query, path.query_id) in self.queries

    def _lost(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """Those of attempts that the log does not name which nobody can commit, and the table never had."""
        filesystem: Any = None
        lost = set()
        for path in attempts:
            seen = self.queries[path.query, path.query_id]
            if not was_never_planned(path, seen):
                if not is_over(path, seen):
                    continue
                if self.remembered is not None:
                    filesystem = filesystem or self.location.filesystem({})
                    if not self.remembered.is_young(path, filesystem):
                        continue
            lost.add(path)
        return lost


def staged_in(scope: str) -> str:
    """The folder of all that a scope's pipeline stages, below a table."""
    return folder_of(scope, "-", "-").partition("/")[0]


def look(location: Location, *, scope: str, epoch: int, holder: str, queries: Mapping[str, Attempts]) -> StagedSeen:
    """Read what decides. `epoch`, `holder`: of whoever leads. `queries`: the scope's, by name.

    Raises UsageError: nothing of the scope is there; StorageError, StoreError, Corrupt.
    """
    planned = {name: attempts.planned() for name, attempts in queries.items()}
    ids = {name: frozenset(attempts.query_ids()) for name, attempts in queries.items()}
    try:
        table = open_table(location, {})
        known = _known(table, scope, planned, ids)
        if table is None:
            if not any(_is_there(location, folder_of(scope, *key)) for key in known):
                raise UsageError(
                    f"{location} is no Delta table, and nothing of scope {scope!r} is staged there",
                    fix="name a table that the pipeline writes to",
                )
            return StagedSeen(scope, epoch, holder, location, known, pa.array([], _ID), None)
        filesystem = location.filesystem({})
        committed = _binary(attempts_named(table, filesystem).unique())
        return StagedSeen(scope, epoch, holder, location, known, committed, Remembered.of(table, filesystem))
    except (DeltaError, OSError, ValueError) as error:
        raise StorageError(f"cannot look for staged files at {location}: {error}") from error


def _known(
    table: DeltaTable | None, scope: str, planned: Mapping[str, Planned], ids: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], QuerySeen]:
    found = {}
    for query, newest in planned.items():
        taken = None if table is None else table.transaction_version(app_id_of(scope, query, newest.query_id))
        seen = QuerySeen(newest, -1 if taken is None else taken)
        found.update({(query, query_id): seen for query_id in ids[query]})
    return found


def _is_there(location: Location, folder: str) -> bool:
    return str(location.filesystem({}).get_file_info([folder])[0].type.name) != "NotFound"


def _binary(attempts: pa.Array) -> pa.Array:
    """Hexadecimal names as bytes."""
    some = (attempts.slice(first, _SOME).to_pylist() for first in range(0, len(attempts), _SOME))
    return pa.concat_arrays([pa.array([], _ID), *(pa.array(map(bytes.fromhex, names), _ID) for names in some)])
