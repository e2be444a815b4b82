"""Pure: which attempts at batches of a Delta table nobody can commit any more, while a pipeline goes on or later.

Promise (I8): of an attempt that is of an earlier epoch, was listed before `QueryProgress` was read, and is named by no
log. A batch that the table has is taken from nobody else, and what was not planned when its epoch was over never will
be. What is between the two stays: its leader may be paused before its commit, and wake up.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.sinks.delta.staging import StagingPath
from tenure.sinks.sink import Planned


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """What the store says of a query, and then the table's log."""

    planned: Planned | None
    """None: the pipeline has ended, and the table has every batch that was planned."""
    taken: int
    """The newest batch that the table has under the id that is planned; -1: none."""


def was_never_planned(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether no leader came so far as to commit it, nor ever will: the table never had it."""
    planned = progress.planned
    return planned is not None and path.query_id == planned.query_id and path.batch > planned.batch


def is_over(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether nobody can commit it any more, if it was planned. The table may have had it once."""
    return progress.planned is None or path.query_id != progress.planned.query_id or path.batch <= progress.taken
