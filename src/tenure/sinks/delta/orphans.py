"""Pure: the attempts at batches of a Delta table that can never be committed any more.

Promise (I8): the rules hold for an attempt of an earlier epoch that no log names and that was listed before
`QueryProgress` was read. The table takes no second attempt at a batch that it has, and a batch that was not planned
when its epoch ended is never planned in it. Any other attempt stays: its leader may be paused before the commit, and
wake up.
"""

from __future__ import annotations

from dataclasses import dataclass

from tenure.sinks.delta.staging import StagingPath
from tenure.sinks.sink import Planned


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How far a query is: by the store, and then by the table's log."""

    planned: Planned | None
    """None: the pipeline has ended, and the table has every planned batch."""
    taken: int
    """The newest batch in the table under the planned query id; -1: the table has none."""


def was_never_planned(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether no leader has planned the batch of the attempt, so that the table never had the attempt."""
    planned = progress.planned
    return planned is not None and path.query_id == planned.query_id and path.batch > planned.batch


def is_over(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether an attempt at a planned batch can never be committed any more. The table may have had it earlier."""
    return progress.planned is None or path.query_id != progress.planned.query_id or path.batch <= progress.taken
