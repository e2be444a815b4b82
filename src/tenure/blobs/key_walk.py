"""Walks the keys below a folder in S3, a page of a thousand a call, and divides what a budget does not reach.

What is below a folder is one sequence of keys there, so whoever stops in it can say where to go on; but that is a
single piece again. It is divided by folders instead, level by level along the last key's path, as long as the names
that were seen had some keys each: to ask for the names then costs little beside asking for the keys. Folders that come
one after the other are one piece as long as they are small, since a page may hold hundreds of them: what is behind the
last key of the first one is asked for, until there is a key of another folder. What is directly in one folder, and what
follows a beginning of folders with next to nothing in them, is cut into ranges of keys (`key_ranges.py`).

Promise: each key comes once, in one of the pieces, whatever the order is in which a server lists folders, if the keys
of each come together: nothing is compared but names that were seen. Memory grows with the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from tenure.blobs.key_ranges import PIECES, ranges, up_to
from tenure.blobs.objects import Objects, Page
from tenure.blobs.pieces import Rest

_WORTH = 4
"""Keys for each name: from so many on it is worth it to ask for the names."""


def walk_keys(objects: Objects, piece: Rest, *, budget: int) -> Iterator[Page | Rest]:
    """Pages of keys of a piece; then, if there are more than about `budget`, what is left."""
    if piece.among:
        yield from _walk_among(objects, piece, budget)
        return
    seen = _Seen(piece.folder)
    left = budget
    first = last = ""
    for found, more in objects.paged(piece.folder, after=piece.after):
        page, ends = up_to(found, piece.until)
        left -= len(page)
        if not piece.after:
            seen.add(page)
        if page:
            first, last = first or page[0][0], page[-1][0]
            yield page
        if ends:
            return
        if left <= 0 and more:
            if piece.after:
                yield from ranges(objects, piece, first=first, last=last)
            else:
                yield from seen.divide(objects, last, budget)
            return


def _walk_among(objects: Objects, piece: Rest, budget: int) -> Iterator[Page | Rest]:
    """What is below some folders of one."""
    todo = dict.fromkeys(piece.among)
    left = budget
    while todo and left > 0:
        name = next(iter(todo))
        del todo[name]
        last = ""
        for found in walk_keys(objects, Rest(_join(piece.folder, name)), budget=left):
            if isinstance(found, Rest):
                left = 0
            elif found:
                left -= len(found)
                last = found[-1][0]
            yield found
        if last and todo and left > 0:
            for found in _walk_on(objects, piece.folder, name, todo, after=last, budget=left):
                left = 0 if isinstance(found, Rest) else left - len(found)
                yield found
    if todo:
        done = len(piece.among) - len(todo)
        yield from _shares(piece.folder, list(todo), at_once=done * budget // (budget - left))


def _walk_on(
    objects: Objects, folder: str, name: str, todo: dict[str, None], *, after: str, budget: int
) -> Iterator[Page | Rest]:
    """What is below other folders of a folder, behind the last key of the one with a name, as long as they are those to
    do, from which they are taken."""
    seen: _Seen | None = None
    left = budget
    last = after
    for page, more in objects.paged(folder, after=after):
        left -= len(page)
        ours: list[tuple[str, int]] = []
        strange = False
        for child, below in groupby(page, key=lambda key: _child(key[0], folder)):
            if child in todo:
                del todo[child]
                name, seen = child, _Seen(_join(folder, child))
            strange = child not in (None, name)  # what lies in the folder itself was told when it was divided
            if strange:
                break
            if child is not None and seen is not None:
                keys = list(below)
                seen.add(keys)
                ours += keys
                last = keys[-1][0]
        if ours:
            yield ours
        if strange:
            return
        if left <= 0 and more:
            yield from seen.divide(objects, last, budget) if seen is not None else ()
            return


def _shares(folder: str, names: Sequence[str], *, at_once: int) -> Iterator[Rest]:
    """Folders directly in one, as pieces. `at_once`: so many are listed with one budget, as far as is known."""
    each = max(1, at_once, -(-len(names) // PIECES))
    for first in range(0, len(names), each):
        yield Rest(folder, among=tuple(names[first : first + each]))


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _child(path: str, folder: str) -> str | None:
    """The name of what a path goes through directly in a folder; None: it ends there."""
    name, below, _ = (path[len(folder) + 1 :] if folder else path).partition("/")
    return name if below else None


class _Seen:
    """The keys below a folder that one walk has seen, from the first one on."""

    def __init__(self, folder: str) -> None:
        self._top = folder
        self._names: dict[str, set[str]] = {folder: set()}
        """Folder -> what was seen directly in it; folders end with `/`."""
        self._keys: dict[str, int] = {folder: 0}
        """Folder -> how many keys below it."""
        self._first: dict[str, str] = {}
        """Folder -> the first key below it."""

    def add(self, page: Page) -> None:
        for parent, keys in groupby(page, key=lambda key: key[0].rpartition("/")[0]):
            paths = [path for path, _ in keys]
            names = [path.rpartition("/")[2] for path in paths]
            count = len(names)
            folder = parent
            while True:
                self._first.setdefault(folder, paths[0])
                self._names.setdefault(folder, set()).update(names)
                self._keys[folder] = self._keys.get(folder, 0) + count
                if folder in (self._top, ""):
                    break
                folder, _, name = folder.rpartition("/")
                names = [f"{name}/"]

    def divide(self, objects: Objects, last: str, budget: int) -> Iterator[Page | Rest]:
        """All that comes behind the key `last`, in pieces."""
        way = self._way(last)
        for folder, large in pairwise(way):
            # The folder that is on the way says nothing of the others.
            others, keys = len(self._names[folder]) - 1, self._keys[folder] - self._keys[large]
            names = self._names[folder] | {""}  # what stands for the folder itself
            for page, below in objects.directly_in(folder):
                new = [(path, size) for path, size in page if path.rpartition("/")[2] not in names]
                if new:
                    yield new
                folders = [path.rpartition("/")[2] for path in below]
                # A folder without a name at the root itself cannot be said; Tenure makes none.
                folders = [one for one in folders if f"{one}/" not in names and (folder or one)]
                yield from _shares(folder, folders, at_once=budget * others // max(1, keys))
        yield from ranges(objects, Rest(way[-1]), first=self._first[way[-1]], last=last)

    def _way(self, last: str) -> Sequence[str]:
        """The folders on the way to a key: first those in which it pays to list folder by folder, and then the one in
        which it is gone on behind the key."""
        found = [self._top]
        end = last.rpartition("/")[0]
        while found[-1] != end and self._keys[found[-1]] >= _WORTH * len(self._names[found[-1]]):
            depth = found[-1].count("/") + 1 if found[-1] else 0
            found.append("/".join(end.split("/")[: depth + 1]))
        return found
