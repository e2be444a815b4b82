"""The batches that Spark has noted as done in the run directories of a storage.

Promise: the newest such batch of each query in the given run directories, as it was at some moment of the call. Links
are followed. A server that hangs does not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final

from tenure.checkpoints.run_name import RunName, newest_logged, run_queries, runs_of
from tenure.ownership.rules import Done

_AT_ONCE: Final = 8
"""Listings at a time, where a server answers them."""


def newest_done(storage: str, *, since: Callable[[str], int]) -> Mapping[str, Done]:
    """By query. `since`: run directories of epochs before are skipped. Raises StorageError."""
    by_query = {query: runs_of(storage, query) for query in run_queries(storage)}
    runs = [run for query, all_runs in by_query.items() for run in all_runs if run.epoch >= since(query)]
    shares = [share for first in range(_AT_ONCE) if (share := runs[first::_AT_ONCE])]
    found: dict[str, Done] = {}
    for listing in [_begin(storage, share) for share in shares]:
        for query, done in listing.result():
            if query not in found or done.batch > found[query].batch:
                found[query] = done
    return found


def _begin(storage: str, runs: Sequence[RunName]) -> Future[list[tuple[str, Done]]]:
    """`_all_done` in a daemon thread. An executor's threads would keep the process until they end."""
    answer: Future[list[tuple[str, Done]]] = Future()

    def do() -> None:
        try:
            answer.set_result(_all_done(storage, runs))
        except Exception as error:  # noqa: BLE001 - `newest_done` raises it
            answer.set_exception(error)

    threading.Thread(target=do, name="tenure-listing", daemon=True).start()
    return answer


def _all_done(storage: str, runs: Sequence[RunName]) -> list[tuple[str, Done]]:
    found = []
    for run in runs:
        newest = newest_logged(f"{storage}/{run}", "commits")
        if newest is not None:
            found.append((run.query, Done(newest, f"{run}/commits/{newest}")))
    return found
