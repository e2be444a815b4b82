"""The attempts at batches of one query, for a sink that looks for their staged output.

Promise: no attempt of another pipeline that writes to the same table is among them. The id of a query is in its run
directory before the first staged file of an attempt under that id, and a cleanup removes staged output first
(`cleanup/plan.py`). Not promised: that every attempt is known. A leader may be paused before its first file, have its
run directory swept, wake up, and stage under an id under which nothing was ever planned.
"""

from __future__ import annotations

from collections.abc import Collection

from tenure.checkpoints.run_name import RunName, runs_of
from tenure.errors import CorruptRunDirectory
from tenure.rundirs.run_directory import read_query_id
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Attempts, Planned


def attempts_at(query: str, context: ScopeContext, *, epoch: int | None) -> Attempts:
    """The attempts at batches of a query. `epoch`: of the term; None: the pipeline has ended."""
    known: dict[RunName, str] = {}

    def query_ids() -> Collection[str]:
        for run in runs_of(context.storage, query):
            if run not in known:
                try:
                    known[run] = read_query_id(f"{context.storage}/{run}")
                except CorruptRunDirectory:  # Spark did not write it, so nothing was staged from there
                    continue
        return set(known.values())

    def planned() -> Planned:
        newest = context.checkpoints(query).newest()
        return Planned("", -1) if newest is None else Planned(newest.query_id, newest.batch)

    return Attempts(context.scope, query, query_ids, epoch, planned)
