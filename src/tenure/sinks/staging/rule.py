"""The rule for staged output beside a target: for the leader's sweep, the end of a pipeline and `tenure sweep`, which
asks the rule in Spark's tasks.

Promise (I8): the rule is read after the listing: the newest plans, and then what the target names. The target takes no
second attempt at a batch that it has, so an attempt that it does not name then is never named; and a batch that was not
planned when its epoch ended is never planned in it. The target has every batch of a pipeline that has ended. While a
pipeline goes on, only attempts of earlier epochs go that nothing names (`was_never_planned`, `is_over`: pure). Any
other attempt stays: its leader may be paused before the commit, and wake up. Only directories with Tenure's names are
removed, of queries of this scope, under ids from the scope's run directories. Not promised: the removal of files beside
those that the target names of an attempt, or that are older than its memory of lost files: a table's own clean-up
removes both.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tenure.cleanup.sweep_plan import About
from tenure.sinks.sink import Attempts, Planned
from tenure.sinks.staging.stage import PREFIX, StagingPath, folder_of

_FOLDER = re.compile(rf"{PREFIX}[^/]+(?:/[^/]+(?:/[^/]+(?:/e(?P<epoch>\d{{8,}})(?:/b(?P<batch>\d{{12,}}))?)?)?)?")
"""A folder above attempts."""


class StagedHistory(Protocol):
    """The attempts that a target names. Spark's tasks receive a copy."""

    def named_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts of which the target names a file, or named one earlier."""
        ...

    def young_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """The attempts that were staged so lately that the target would know them if it had ever had them. Raises
        StorageError."""
        ...


@dataclass(frozen=True, slots=True)
class StagedRule:
    """The attempts of a scope that go. Without `queries` and `history` the rule is wide: each attempt goes that can go
    at all."""

    scope: str
    epoch: int | None
    """Attempts of this epoch and of later epochs are in the making. None: the pipeline has ended."""
    queries: Mapping[tuple[str, str], QueryProgress] | None = None
    """(query, query id) -> its progress; None: attempts of any query go."""
    history: StagedHistory | None = None
    """None: there is no target yet."""
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
        """The attempts that nobody can commit, and that the target never had. Raises StorageError."""
        attempts = {path for path in paths if path is not None and self._is_ours(path)}
        if self.queries is None:
            return attempts
        committed = set() if self.history is None else self.history.named_among(attempts)
        progress = {path: self.queries[path.query, path.query_id] for path in attempts - committed}
        never = {path for path, known in progress.items() if was_never_planned(path, known)}
        over = {path for path, known in progress.items() if is_over(path, known)} - never
        return never | (over if self.history is None else self.history.young_among(over))


def staged_in(scope: str) -> str:
    """The folder below a target in which a scope's pipeline stages."""
    return folder_of(scope, "-", "-").partition("/")[0]


def rule_of(about: About) -> StagedRule:
    """The wide rule of a plan of a target."""
    return StagedRule(about.scope, about.epoch)


def wide_rule(attempts: Attempts, *, settled: Mapping[str, int]) -> StagedRule:
    """The wide rule of one query's attempts, for the listing. Raises StorageError."""
    known = {(attempts.query, query_id): QueryProgress(None, -1) for query_id in attempts.query_ids()}
    return StagedRule(attempts.scope, attempts.epoch, known, settled=settled)


@dataclass(frozen=True, slots=True)
class QueryProgress:
    """How far a query is: by the store, and then by the target."""

    planned: Planned | None
    """None: the pipeline has ended, and the target has every planned batch."""
    taken: int
    """The newest batch in the target under the planned query id; -1: the target has none."""


def was_never_planned(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether no leader has planned the batch of the attempt, so that the target never had the attempt."""
    planned = progress.planned
    return planned is not None and path.query_id == planned.query_id and path.batch > planned.batch


def is_over(path: StagingPath, progress: QueryProgress) -> bool:
    """Whether an attempt at a planned batch can never be committed any more. The target may have had it earlier."""
    return progress.planned is None or path.query_id != progress.planned.query_id or path.batch <= progress.taken
