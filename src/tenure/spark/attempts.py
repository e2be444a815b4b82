"""What is known of the attempts at batches of one query, for whoever looks for what is left of them.

Promise: an id of a query is in the run directory before the first file of an attempt under it, and the run directory
outlives what was staged (`cleanup/plan.py`), so no attempt of this pipeline is overlooked, and none of another one that
writes to the same table is ever touched. Nothing is kept in mind but ids that were read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tenure.checkpoints.run_name import RUNS
from tenure.checkpoints.store import CheckpointStore
from tenure.errors import CorruptRunDirectory
from tenure.spark.run_directory import RunDirectory, read_query_id
from tenure.spark.sinks.sink import Attempts, Planned


def attempts_at(
    query: str,
    *,
    scope: str,
    storage: str,
    checkpoints: Callable[[str], CheckpointStore],
    epoch: int | None,
) -> Attempts:
    """`storage`: URL of the pipeline's storage. `epoch`: of the term, None: the pipeline has ended."""
    known: dict[str, str] = {}

    def query_ids() -> Collection[str]:
        folder = f"{storage}/{RUNS}/{query}"
        for name in RunDirectory(folder).list():
            if name not in known:
                try:
                    known[name] = read_query_id(f"{folder}/{name}")
                except CorruptRunDirectory:  # Spark did not get to it: nothing was staged from there
                    continue
        return set(known.values())

    def planned() -> Planned:
        newest = checkpoints(query).newest()
        return Planned("", -1) if newest is None else Planned(newest.query_id, newest.batch)

    return Attempts(scope, query, query_ids, epoch, planned)
