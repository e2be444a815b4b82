"""The staged output of one query beside a Delta table, for the leader's sweep and the end of a pipeline: the engine of
every cleanup (`cleanup/engine.py`) with the rule of `staged_rule.py`.

Promise: the log is read only when there is an attempt that no earlier reading named. Not promised: that a folder whose
attempts the log has named is listed again in the same term.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from pyarrow import fs

from tenure.cleanup.engine import Listable, remove, walk
from tenure.coordination.term import Term
from tenure.errors import StorageError
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.staged_rule import StagedRule, read_rule, staged_in, wide_rule
from tenure.sinks.delta.staging import StagingPath
from tenure.sinks.sink import Attempts
from tenure.storage.reach import reach
from tenure.storage.storage import Entry

_ID_DEPTH: Final = 2


class StagedAttempts:
    """The attempts of one query beside one table. The names are paths below the table; a folder without an attempt ends
    with `/`. Used by one thread."""

    def __init__(self, location: Location, attempts: Attempts, *, storage_options: Mapping[str, str]) -> None:
        self._location = location
        self._attempts = attempts
        self._options = dict(storage_options)
        self._settled: dict[str, int] = {}
        self._committed: set[StagingPath] = set()  # the log names them, and will not forget them soon

    def find(self) -> Sequence[str]:
        """The attempts that no log names, nor ever will, and empty folders. Raises StorageError, StoreError,
        Corrupt."""
        scope = self._attempts.scope
        paths = list(walk(self._storage(), staged_in(scope), wide_rule(self._attempts, settled=self._settled)))
        attempts = {path for path in map(StagingPath.parse, paths) if path is not None}
        self._committed &= attempts
        rule = StagedRule(scope, self._attempts.epoch)
        if attempts - self._committed:
            epoch = self._attempts.epoch
            rule = read_rule(self._location, [self._attempts], scope=scope, epoch=epoch, options=self._options)
            if rule.history is not None:
                self._committed |= rule.history.named_among(attempts)
        self._settle(attempts)
        committed = set(map(str, self._committed))
        paths = [path for path in paths if path not in committed]
        return [path for path, goes in zip(paths, rule.of_paths(paths), strict=True) if goes]

    def remove(self, term: Term, name: str) -> None:
        """Remove an attempt or an empty folder, and the folders above that are empty then. Raises StorageError."""
        remove(self._storage(), name, StagedRule(self._attempts.scope, self._attempts.epoch))

    def _settle(self, attempts: Collection[StagingPath]) -> None:
        """Remember the folders of batches that need no second listing. The newest two of an epoch need one: a fenced
        leader may be staging an attempt at them."""
        if self._attempts.epoch is None or self._location.disk is None:
            return
        batches: dict[str, dict[int, bool]] = {}
        for path in attempts:
            of_epoch = batches.setdefault(str(path).rsplit("/", 2)[0], {})
            of_epoch[path.batch] = of_epoch.get(path.batch, True) and path in self._committed
        for folder, of_epoch in batches.items():
            for batch in sorted(of_epoch)[:-2]:
                if not of_epoch[batch]:
                    break
                self._settled[folder] = batch

    def _storage(self) -> Listable:
        if self._location.disk is not None:
            return reach(self._location.disk)
        return _Objects(self._location, self._options)


class _Objects:
    """The staged files in an object store, with the client and the credentials of the table. There are no empty
    folders."""

    def __init__(self, location: Location, options: Mapping[str, str]) -> None:
        self._location = location
        self._filesystem = location.filesystem(dict(options))
        self._inside: dict[str, dict[str, Entry]] = {}

    def entries(self, path: str = "") -> Sequence[Entry]:
        """The content of a folder. Everything below the folder of a query's id is listed at once: a page of a thousand
        objects costs as much as one folder."""
        if path.count("/") <= _ID_DEPTH:
            self._inside[path] = {}
            selector = fs.FileSelector(path, recursive=path.count("/") == _ID_DEPTH, allow_not_found=True)
            try:
                below = self._filesystem.get_file_info(selector)
            except (OSError, ValueError) as error:
                raise StorageError(f"cannot look for staged files at {self._location}: {error}") from error
            for info in below:
                inner, is_folder = info.path, info.type is fs.FileType.Directory
                while inner != path:
                    folder, _, name = inner.rpartition("/")
                    self._inside.setdefault(folder, {}).setdefault(name, Entry(name, is_folder))
                    inner, is_folder = folder, True
        return list(self._inside.get(path, {}).values())

    def remove(self, path: str) -> None:
        """Remove an attempt."""
        try:
            self._filesystem.delete_dir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot remove {self._location}/{path}: {error}") from error

    def is_empty(self, path: str = "") -> bool:
        return False

    def remove_empty(self, path: str = "") -> None:
        return
