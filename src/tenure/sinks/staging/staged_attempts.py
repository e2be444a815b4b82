"""The staged output of one query beside its target, for the leader's sweep and the end of a pipeline: the engine of
every cleanup (`cleanup/engine.py`) with the rule of `rule.py`.

Promise: the target is read only when there is an attempt that no earlier reading named. Not promised: that a folder
whose attempts the target has named is listed again in the same term.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyarrow import fs

from tenure.cleanup.engine import Listable, remove, walk
from tenure.coordination.term import Term
from tenure.errors import StorageError
from tenure.sinks.sink import Attempts
from tenure.sinks.staging.rule import StagedRule, staged_in, wide_rule
from tenure.sinks.staging.stage import StagingPath
from tenure.storage.storage import Entry

_ID_DEPTH: Final = 2


@dataclass(frozen=True, slots=True)
class Beside:
    """Where a sink stages: beside what it has committed."""

    storage: Callable[[], Listable]
    """The target's folder, listed anew by each."""
    read_rule: Callable[[Attempts], StagedRule]
    """Reads the newest plans, and then the target. Raises StorageError, StoreError, Corrupt."""
    on_disk: bool
    """Whether folders exist by themselves, and are listed one by one."""


class StagedAttempts:
    """The attempts of one query beside one target. The names are paths below the target; a folder without an attempt
    ends with `/`. Used by one thread."""

    def __init__(self, beside: Beside, attempts: Attempts) -> None:
        self._beside = beside
        self._attempts = attempts
        self._settled: dict[str, int] = {}
        self._committed: set[StagingPath] = set()  # the target names them, and will not forget them soon

    def find(self) -> Sequence[str]:
        """The attempts that nothing names, nor ever will, and empty folders. Raises StorageError, StoreError,
        Corrupt."""
        scope = self._attempts.scope
        paths = list(walk(self._beside.storage(), staged_in(scope), wide_rule(self._attempts, settled=self._settled)))
        attempts = {path for path in map(StagingPath.parse, paths) if path is not None}
        self._committed &= attempts
        rule = StagedRule(scope, self._attempts.epoch)
        if attempts - self._committed:
            rule = self._beside.read_rule(self._attempts)
            if rule.history is not None:
                self._committed |= rule.history.named_among(attempts)
        self._settle(attempts)
        committed = set(map(str, self._committed))
        paths = [path for path in paths if path not in committed]
        return [path for path, goes in zip(paths, rule.of_paths(paths), strict=True) if goes]

    def remove(self, term: Term, name: str) -> None:
        """Remove an attempt or an empty folder, and the folders above that are empty then. Raises StorageError."""
        remove(self._beside.storage(), name, StagedRule(self._attempts.scope, self._attempts.epoch))

    def _settle(self, attempts: Collection[StagingPath]) -> None:
        """Remember the folders of batches that need no second listing. The newest two of an epoch need one: a fenced
        leader may be staging an attempt at them."""
        if self._attempts.epoch is None or not self._beside.on_disk:
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


class StagedObjects:
    """The staged files in an object store, with the client and the credentials of the target. There are no empty
    folders."""

    def __init__(self, filesystem: Any, where: str) -> None:
        """`filesystem`: pyarrow's, with the target as its root. `where`: the target, for people."""
        self._filesystem = filesystem
        self._where = where
        self._inside: dict[str, dict[str, Entry]] = {}

    def entries(self, path: str = "") -> Sequence[Entry]:
        """The content of a folder. Everything below the folder of a query's id is listed at once: a page of a thousand
        objects costs as much as one folder."""
        if path.count("/") <= _ID_DEPTH:
            self._inside[path] = {}
            for info in self._below(path, recursive=path.count("/") == _ID_DEPTH):
                inner, is_folder = info.path, info.type is fs.FileType.Directory
                while inner != path:
                    folder, _, name = inner.rpartition("/")
                    self._inside.setdefault(folder, {}).setdefault(name, Entry(name, is_folder))
                    inner, is_folder = folder, True
        return list(self._inside.get(path, {}).values())

    def _below(self, path: str, *, recursive: bool) -> list[Any]:
        below = fs.FileSelector(path, recursive=recursive, allow_not_found=True)
        try:
            return list(self._filesystem.get_file_info(below))
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot look for staged files at {self._where}: {error}") from error

    def remove(self, path: str) -> None:
        """Remove an attempt."""
        try:
            self._filesystem.delete_dir(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(f"cannot remove {self._where}/{path}: {error}") from error

    def is_empty(self, path: str = "") -> bool:
        return False

    def remove_empty(self, path: str = "") -> None:
        return
