"""Reads the rule for staged output beside a Delta table (`sinks/staging/rule.py`): the newest plans, then the log.

Not promised: the removal of files beside those that the log names of an attempt, or that are older than the log's
memory of lost files: the table's VACUUM removes both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltalake.exceptions import DeltaError

from tenure.cleanup.engine import Listable
from tenure.errors import StorageError, UsageError
from tenure.sinks.delta.history import TableHistory
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import app_id_of, open_table
from tenure.sinks.sink import Attempts
from tenure.sinks.staging.rule import QueryProgress, StagedRule
from tenure.sinks.staging.stage import folder_of
from tenure.sinks.staging.staged_attempts import Beside, StagedObjects
from tenure.storage.engines import delta_options
from tenure.storage.reach import reach


def beside(location: Location, options: Mapping[str, str]) -> Beside:
    """Where a query stages beside a table."""
    disk = location.disk

    def storage() -> Listable:
        if disk is not None:
            return reach(disk)
        return StagedObjects(location.filesystem(dict(options)), str(location))

    def read(attempts: Attempts) -> StagedRule:
        return read_rule(location, [attempts], scope=attempts.scope, epoch=attempts.epoch, options=options)

    return Beside(storage, read, on_disk=disk is not None)


def read_rule(
    location: Location, queries: Collection[Attempts], *, scope: str, epoch: int | None, options: Mapping[str, str]
) -> StagedRule:
    """The rule of the attempts of a scope's queries. Raises StorageError, StoreError, Corrupt."""
    planned = {one.query: None if epoch is None else one.planned() for one in queries}
    ids = {one.query: frozenset(one.query_ids()) for one in queries}
    known = {}
    try:
        table = open_table(location, options)
        history = None if table is None else TableHistory.of(table, location, options)
        for query, newest in planned.items():
            taken = None
            if table is not None and newest is not None:
                taken = table.transaction_version(app_id_of(scope, query, newest.query_id))
            progress = QueryProgress(newest, -1 if taken is None else taken)
            known.update({(query, query_id): progress for query_id in ids[query]})
    except (DeltaError, OSError, ValueError) as error:
        raise StorageError(f"cannot look for staged files at {location}: {error}") from error
    return StagedRule(scope, epoch, known, history)


def look(location: Location, queries: Collection[Attempts], *, scope: str, epoch: int) -> StagedRule:
    """As `read_rule`, for a table that an operator has named. Raises UsageError: the scope has nothing there;
    StorageError, StoreError, Corrupt."""
    options = delta_options(location.table, {})
    rule = read_rule(location, queries, scope=scope, epoch=epoch, options=options)
    folders = [folder_of(scope, *key) for key in rule.queries or ()]
    if rule.history is None and not any(_is_there(location, folder, options) for folder in folders):
        raise UsageError(
            f"{location} is no Delta table, and nothing of scope {scope!r} is staged there",
            fix="name a table that the pipeline writes to",
        )
    return rule


def _is_there(location: Location, folder: str, options: dict[str, str]) -> bool:
    return str(location.filesystem(options).get_file_info([folder])[0].type.name) != "NotFound"
