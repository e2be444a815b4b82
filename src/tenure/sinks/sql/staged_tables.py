"""The staging tables of attempts at batches: their names, and their sweep.

Promise: two attempts never share a table: not those of two scopes that have adopted one copy of a checkpoint, whose
epochs both count from 1. The sweep of a scope drops tables of its own attempts only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenure.coordination.term import Term
from tenure.sinks.sink import Attempts, Batch
from tenure.sinks.sql.table import SqlTable

_DROP: Final = timedelta(seconds=1)
"""For how long the sweep waits for a staging table that is in use."""

_STAGING: Final = re.compile(r"tenure_[0-9a-f]{12}_e(\d+)_b(\d+)\Z")


def staging_name(batch: Batch) -> str:
    """The staging table of an attempt at a batch."""
    return f"{_prefix(batch.scope, batch.query_id)}e{batch.epoch}_b{batch.id}"


def _prefix(scope: str, query_id: str) -> str:
    return f"tenure_{hashlib.sha256(f'{scope} {query_id}'.encode()).hexdigest()[:12]}_"


@dataclass(frozen=True)
class StagedTables:
    """The staging tables of one query whose attempts have ended. The names are those of the tables."""

    database: SqlTable
    attempts: Attempts

    def find(self) -> Sequence[str]:
        """The tables of earlier epochs. Raises StorageError."""
        prefixes = [_prefix(self.attempts.scope, one) for one in self.attempts.query_ids()]
        found = [name for prefix in prefixes for name in self.database.staging_tables(prefix)]
        return [name for name in found if self._has_ended(name)]

    def _has_ended(self, name: str) -> bool:
        match, now = _STAGING.match(name), self.attempts.epoch
        return match is not None and (now is None or int(match[1]) < now)

    def remove(self, term: Term, name: str) -> None:
        """Drop a table. Raises StorageError: somebody uses it."""
        self.database.drop(name, limit=_DROP)
