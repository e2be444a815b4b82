"""The attempts at batches of one query, for a sink that looks for their staged output.

Promise: no attempt of another pipeline that writes to the same table is among them. The id of a query is in its run
directory before the first staged file of an attempt under that id, and a cleanup removes staged output first
(`cleanup/plan.py`). Not promised: that every attempt is known. A leader may be paused before its first file, have its
run directory swept, wake up, and stage under an id under which nothing was ever planned.
"""

from __future__ import annotations

from collections.abc import Collection

from tenure.checkpoints.run_name import RUNS, RunName
from tenure.errors import CorruptRunDirectory
from tenure.scope_context import ScopeContext
from tenure.sinks.sink import Attempts, Planned
from tenure.takeover.run_directory import RunDirectory, read_query_id


def attempts_at(query: str, context: ScopeContext, *, epoch: int | None) -> Attempts:
    """The attempts at batches of a query. `epoch`: of the term; None: the pipeline has ended."""
    known: dict[str, str] = {}

    def query_ids() -> Collection[str]:
        folder = f"{context.storage}/{RUNS}/{query}"
        for name in RunDirectory(folder).list():
            if name not in known and RunName.parse(f"{RUNS}/{query}/{name}") is not None:
                try:
                    known[name] = read_query_id(f"{folder}/{name}")
                except CorruptRunDirectory:  # Spark did not write it, so nothing was staged from there
                    continue
        return set(known.values())

    def planned() -> Planned:
        newest = context.checkpoints(query).newest()
        return Planned("", -1) if newest is None else Planned(newest.query_id, newest.batch)

    return Attempts(context.scope, query, query_ids, epoch, planned)
