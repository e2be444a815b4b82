"""Reads the rule for staged output beside plain files (`sinks/staging/rule.py`): the newest plans, and then the log,
which forgets no file."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tenure.coordination.term import Term
from tenure.sinks.files.log import FileLog, attempt_of, staged_by
from tenure.sinks.sink import Attempts
from tenure.sinks.staging.rule import QueryProgress, StagedRule
from tenure.sinks.staging.stage import StagingPath
from tenure.sinks.staging.staged_attempts import Beside
from tenure.storage.storage import Listed, Storage


@dataclass(frozen=True, slots=True)
class LogHistory:
    """The attempts of which the log names a file."""

    named: frozenset[str]

    def named_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """See `StagedHistory`."""
        return {path for path in attempts if path.attempt in self.named}

    def young_among(self, attempts: Collection[StagingPath]) -> set[StagingPath]:
        """See `StagedHistory`."""
        return set(attempts)


def beside(storage: Storage, url: str) -> Beside:
    """Where a query stages beside its folders of batches."""
    return Beside(lambda: storage, lambda attempts: _read_rule(storage, url, attempts), on_disk=storage.keeps_folders)


class FilesAmongOthers:
    """The files of attempts that lie among the files that the log names. The names are paths below the folder.

    The folder is listed once a term, and what earlier terms left is judged again until it is named or gone. A leader
    that is elected later finds what a paused leader leaves after the listing.
    """

    def __init__(self, storage: Storage, url: str, attempts: Attempts) -> None:
        self._storage = storage
        self._url = url
        self._attempts = attempts
        self._left: dict[StagingPath, list[str]] | None = None  # files of attempts that may go; None: not listed yet

    def find(self) -> Sequence[str]:
        """The files of attempts that no log names, nor ever will. Raises StorageError, StoreError, Corrupt."""
        left = self._left = self._listed() if self._left is None else self._left
        if not left:
            return ()
        rule = _read_rule(self._storage, self._url, self._attempts)
        assert rule.history is not None
        named = rule.history.named_among(left)
        self._left = {attempt: files for attempt, files in left.items() if attempt not in named}
        attempts = list(self._left)
        goes = rule.of_paths([str(attempt) for attempt in attempts])
        return [path for attempt, gone in zip(attempts, goes, strict=True) if gone for path in left[attempt]]

    def remove(self, term: Term, name: str) -> None:
        """Remove a file. Raises StorageError."""
        self._storage.delete(name)
        for attempt, files in list((self._left or {}).items()):
            if name in files:
                files.remove(name)
                if not files and self._left is not None:
                    del self._left[attempt]

    def _listed(self) -> dict[StagingPath, list[str]] | None:
        """The files of attempts of earlier epochs; None: the folder is no query's yet."""
        owner, now = FileLog(self._storage, where=self._url).owner(), self._attempts.epoch
        found: dict[StagingPath, list[str]] = {}
        if owner is None:
            return None
        for listed in self._storage.walk([""], budget=sys.maxsize):
            assert isinstance(listed, Listed), "the budget has no end"
            for path in listed.paths:
                attempt = attempt_of(path, of=owner.query)
                if attempt is not None and (now is None or attempt.epoch < now):
                    found.setdefault(attempt, []).append(path)
        return found


def _read_rule(storage: Storage, url: str, attempts: Attempts) -> StagedRule:
    epoch, query = attempts.epoch, attempts.query
    newest = None if epoch is None else attempts.planned()
    log = FileLog(storage, where=url)
    named = frozenset(found[1] for found in map(staged_by, log.urls()) if found is not None)
    owner = log.owner()
    is_its_own = newest is not None and owner is not None and owner.query.query_id == newest.query_id
    progress = QueryProgress(newest, log.newest if is_its_own else -1)
    known = {(query, query_id): progress for query_id in attempts.query_ids()}
    return StagedRule(attempts.scope, epoch, known, LogHistory(named))
