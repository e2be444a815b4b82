"""The engine of every cleanup: a rule decides, a walk lists, a removal removes.

A `Rule` names the paths below a root that nobody needs: `Everything` when a pipeline has ended, `OrphanRule`
(`orphans.py`) in the storage of a pipeline that goes on, `StagedRule` (`sinks/staging/rule.py`) beside what a sink has
committed. There are four callers. The leader's sweep beside its batches (`sweeper.py`) and the end of a pipeline
(`ended_pipeline.py`) walk to the folders that go as a whole: each `Leftovers` is a row of their plan, and so is what
sinks have staged (`sinks/staging/staged_attempts.py`). `tenure sweep` lists each file, asks the same rules, and removes
by a plan (`planning.py`, `applying.py`); Spark distributes the three steps where there are many files (`spark.py`).

Promise: the storage is listed first, by a wide rule, which needs no records and names each path that can go at all.
Then `look` reads the records, and its narrower rule decides. The walk does not list a folder that goes as a whole, nor
a folder in which nothing goes, and follows no link. A removal includes the empty folders above, down to a depth that
stays, and may be repeated. Not promised: that the caller may remove; `Cleaner` asks the store for the term after the
listing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tenure.coordination.term import Term
from tenure.errors import StorageError
from tenure.storage.storage import Entry


class Rule(Protocol):
    """The paths below a root that go. A path that ends with `/` is an empty folder. Spark's tasks receive copies of
    rules."""

    @property
    def named(self) -> Collection[str]:
        """These files stay, also in a folder of which everything else goes."""
        ...

    @property
    def whole(self) -> bool:
        """Whether all folders go as well, and must be gone in the end."""
        ...

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        """For each folder whether its content goes, at any depth. None: the names in the folder decide."""
        ...

    def of_paths(self, paths: Sequence[str]) -> Sequence[bool]:
        """For each path whether it goes by its own name: a unit, or a path whose folder does not decide."""
        ...

    def unit(self, folder: str) -> str | None:
        """The folder that goes as a whole: this folder or a folder above. None: each file goes by itself."""
        ...

    def stays(self, path: str) -> int:
        """Folders above this path stay up to this depth, also when they are empty."""
        ...


def verdicts(rule: Rule, paths: Sequence[str]) -> list[bool]:
    """For each file, link or empty folder whether it goes, by its folder or by its name."""
    folders = [path.rpartition("/")[0] for path in paths]
    known = list(dict.fromkeys(folders))
    rulings = dict(zip(known, rule.of_folders(known), strict=True))
    unruled = [path for path, folder in zip(paths, folders, strict=True) if rulings[folder] is None]
    by_name = dict(zip(unruled, rule.of_paths(unruled), strict=True))
    return [
        path not in rule.named and (by_name[path] if (ruling := rulings[folder]) is None else ruling)
        for path, folder in zip(paths, folders, strict=True)
    ]


class Listable(Protocol):
    """A storage as the walk and the removal need it: `Storage`, or a sink's own client."""

    def entries(self, path: str = "") -> Sequence[Entry]: ...
    def remove(self, path: str) -> None: ...
    def is_empty(self, path: str = "") -> bool: ...
    def remove_empty(self, path: str = "") -> None: ...


def walk(storage: Listable, folder: str, rule: Rule) -> Iterator[str]:
    """The paths that go of a folder directly below the root, the deepest first. Raises StorageError."""
    entries = storage.entries(folder)
    is_there = bool(entries) or storage.is_empty(folder)
    if is_there or (rule.whole and any(entry.name == folder for entry in storage.entries())):  # S3 has no empty folders
        yield from _inside(storage, folder, entries, rule)


def _inside(storage: Listable, folder: str, entries: Sequence[Entry], rule: Rule) -> Iterator[str]:
    files = [f"{folder}/{entry.name}" for entry in entries if not entry.folder] if entries else [f"{folder}/"]
    yield from (path for path, goes in zip(files, verdicts(rule, files), strict=True) if goes)
    folders = [f"{folder}/{entry.name}" for entry in entries if entry.folder]
    for path, goes in zip(folders, rule.of_folders(folders), strict=True):
        if goes and rule.unit(path) == path:
            yield path
        elif goes is not False:
            yield from _inside(storage, path, storage.entries(path), rule)
    if entries and rule.whole:
        yield f"{folder}/"


def remove(storage: Listable, name: str, rule: Rule) -> None:
    """Remove a path that goes, and the folders above it that are empty then. Raises StorageError."""
    folder = name.rstrip("/")
    if folder == name:
        storage.remove(name)
        folder = name.rpartition("/")[0]
    while folder and folder.count("/") >= rule.stays(name):
        storage.remove_empty(folder)
        folder = folder.rpartition("/")[0]
    if rule.whole and name.endswith("/") and storage.entries(name[:-1]):
        raise StorageError(f"{name} is not empty yet")


class Leftovers:
    """A row of the plan: the paths that go of one folder of a storage."""

    def __init__(self, storage: Listable, folder: str, rule: Rule, *, look: Callable[[], Rule] | None = None) -> None:
        """`look`: reads the rule that decides, after a listing by the wide `rule`; None: `rule` decides."""
        self._storage = storage
        self._folder = folder
        self._rule = rule
        self._look = look

    def find(self) -> Sequence[str]:
        """Raises StorageError, StoreError, Corrupt."""
        paths = list(walk(self._storage, self._folder, self._rule))
        if not paths or self._look is None:
            return paths
        return [path for path, goes in zip(paths, self._look().of_paths(paths), strict=True) if goes]

    def remove(self, term: Term, name: str) -> None:
        """Remove a path, and the folders above it that are empty then. Raises StorageError."""
        remove(self._storage, name, self._rule)


@dataclass(frozen=True, slots=True)
class Everything:
    """The rule of a pipeline that has ended. `depth`: of the folders that go as a whole."""

    depth: int
    named: Collection[str] = ()
    whole: bool = True

    def of_folders(self, folders: Sequence[str]) -> Sequence[bool | None]:
        return [True if self.unit(folder) else None for folder in folders]

    def of_paths(self, paths: Sequence[str]) -> Sequence[bool]:
        return [True] * len(paths)

    def unit(self, folder: str) -> str | None:
        parts = folder.split("/")
        return "/".join(parts[: self.depth]) if len(parts) >= self.depth else None

    def stays(self, path: str) -> int:
        return 0
