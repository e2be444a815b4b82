"""The rule for staged output beside a Delta table: for the leader's sweep, the end of a pipeline and `tenure sweep`,
which asks the rule in Spark's tasks.

Promise (I8): `read_rule` is called after the listing; it reads the newest plans, and then the table's log. The table
takes no second attempt at a batch that it has, so an attempt that the log does not name then is never named; and a
batch that was not planned when its epoch ended is never planned in it. The table has every batch of a pipeline that has
ended. While a pipeline goes on, only attempts of earlier epochs go that no log names (`was_never_planned`, `is_over`:
pure). Any other attempt stays: its leader may be paused before the commit, and wake up. Only directories with Tenure's
names are removed, of queries of this scope, under ids from the scope's run directories. Not promised: the removal of
files beside those that the log names of an attempt, or that are older than the log's memory of lost files: the table's
VACUUM removes both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deltalake.exceptions import DeltaError

from tenure.cleanup.sweep_plan import About
from tenure.errors import StorageError, UsageError
from tenure.sinks.delta.history import TableHistory
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import app_id_of, open_table
from tenure.sinks.delta.staging import PREFIX, StagingPath, folder_of
from tenure.sinks.sink import Attempts, Planned
from tenure.storage.engines import delta_options

_FOLDER = re.compile(rf"{PREFIX}[^/]+(?:/[^/]+(?:/[^/]+(?:/e(?P<epoch>\d{{8,}})(?:/b(?P<batch>\d{{12,}}))?)?)?)?")
"""A folder above attempts."""


@dataclass(frozen=True, slots=True)
class StagedRule:
    """The attempts of a scope that go. Without `queries` and `history` the rule is wide: each attempt goes that can go
    at all."""

    scope: str
    epoch: int | None
    """Attempts of this epoch and of later epochs are in the making. None: the pipeline has ended."""
    queries: Mapping[tuple[str, str], QueryProgress] | None = None
    """(query, query id) -> its progress; None: attempts of any query go."""
    history: TableHistory | None = None
    """None: there is no table."""
    settled: Mapping[str, int] = field(default_factory=dict)
    """Folder of an epoch -> a batch: nothing goes in the folders of batches up to this batch."""
    named: Collection[str] = field(default=(), init=False)
    whole: bool = field(default=False, init=False)

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        """Raises StorageError."""
        paths = [StagingPath.parse(folder) for folder in folders]
        lost = self._lost(paths)
        return [
            (None if self._is_above(folder) else False) if path is None else path in lost
            for path, folder in zip(paths, folders, strict=True)
        ]

    def of_paths(self, paths: Sequence[str]) -> Sequence[bool]:
        """Raises StorageError."""
        attempts = [StagingPath.parse(path) for path in paths]
        lost = self._lost(attempts)
        return [
            self._is_unused(path) if attempt is None else attempt in lost
            for path, attempt in zip(paths, attempts, strict=True)
        ]

    def unit(self, folder: str) -> str | None:
        """The attempt of a folder."""
        attempt = StagingPath.parse(folder)
        return None if attempt is None else str(attempt)

    def stays(self, path: str) -> int:
        """While a pipeline goes on, its leader stages in the folder of the query."""
        return 0 if self.epoch is None else 3

    def _is_above(self, folder: str) -> bool:
        """Whether the folder has a name of Tenure's, and can hold attempts that go."""
        found = _FOLDER.fullmatch(folder)
        if found is None or not self._is_known("/".join(folder.split("/")[:3])):
            return False
        if found["batch"] is not None and int(found["batch"]) <= self.settled.get(folder.rpartition("/")[0], -1):
            return False
        return found["epoch"] is None or self._is_old(int(found["epoch"]))

    def _is_unused(self, path: str) -> bool:
        """Whether the path is an empty folder in which nobody stages any more."""
        folder, is_empty = path.rstrip("/"), path.endswith("/")
        return is_empty and self._is_above(folder) and (folder.count("/") >= self.stays(path))

    def _is_known(self, folder: str) -> bool:
        """Whether a folder is the folder of a known query, or above it."""
        if self.queries is None:
            return folder.split("/", maxsplit=1)[0] == staged_in(self.scope)
        return any(f"{folder_of(self.scope, *key)}/".startswith(f"{folder}/") for key in self.queries)

    def _is_old(self, epoch: int) -> bool:
        return self.epoch is None or epoch < self.epoch

    def _is_ours(self, path: StagingPath) -> bool:
        is_known = self.queries is None or (path.query, path.query_id) in self.queries
        return path.scope == self.scope and self._is_old(path.epoch) and is_known

    def _lost(self, paths: Iterable[StagingPath | None]) -> set[StagingPath]:
        """The attempts that nobody can commit, and that the table never had. Raises StorageError."""
        attempts = {path for path in paths if path is not None and self._is_ours(path)}
        if self.queries is None:
            return attempts
        committed = set() if self.history is None else self.history.named_among(attempts)
        progress = {path: self.queries[path.query, path.query_id] for path in attempts - committed}
        never = {path for path, known in progress.items() if was_never_planned(path, known)}
        over = {path for path, known in progress.items() if is_over(path, known)} - never
        if self.history is None:
            return never | over
        try:
            return never | self.history.young_among(over)
        except OSError as error:
            raise StorageError(f"cannot look at the staged files at {self.history.location}: {error}") from error


def staged_in(scope: str) -> str:
    """The folder below a table in which a scope's pipeline stages."""
    return folder_of(scope, "-", "-").partition("/")[0]


def rule_of(about: About) -> StagedRule:
    """The wide rule of a plan of a table."""
    return StagedRule(about.scope, about.epoch)


def wide_rule(attempts: Attempts, *, settled: Mapping[str, int]) -> StagedRule:
    """The wide rule of one query's attempts, for the listing. Raises StorageError."""
    known = {(attempts.query, query_id): QueryProgress(None, -1) for query_id in attempts.query_ids()}
    return StagedRule(attempts.scope, attempts.epoch, known, settled=settled)


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
