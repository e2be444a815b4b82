"""Walks the keys below a folder in S3, a page of a thousand a call, and divides what a budget does not reach.

What is below a folder is one sequence of keys there, so whoever stops in it can say where to go on; but that is a
single piece again. It is divided by folders instead, level by level along the last key's path, as long as the folders
that were seen had a page of keys each: smaller ones are cheaper to list together.

What follows a beginning of small folders is not divided any more, however large it is.

Promise: each key comes once, in one of the pieces, whatever the order is in which a server lists folders: nothing is
compared but names that were seen. What is directly in one folder stays one piece. Memory grows with the budget.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tenure.blobs.objects import AT_ONCE, Objects, Page
from tenure.blobs.pieces import Rest


def walk_keys(objects: Objects, folder: str, *, after: str, budget: int) -> Iterator[Page | Rest]:
    """Pages of keys below a folder, behind `after` (empty: all); then, if there are more than about `budget`, what is
    left."""
    seen = _Seen(folder)
    left = budget
    last = after
    for page in objects.pages(folder, after=after):
        if left <= 0:
            yield from (seen.divide(objects, last) if not after else [Rest(folder, last)])
            return
        left -= len(page)
        if not after:
            seen.add(page)
        last = page[-1][0] if page else last
        yield page


class _Seen:
    """The keys below a folder that one walk has seen, from the first one on."""

    def __init__(self, folder: str) -> None:
        self._top = folder
        self._names: dict[str, set[str]] = {folder: set()}
        """Folder -> what was seen directly in it; folders end with `/`."""
        self._keys: dict[str, int] = {folder: 0}
        """Folder -> how many keys below it."""

    def add(self, page: Page) -> None:
        for parent, keys in groupby(page, key=lambda key: key[0].rpartition("/")[0]):
            names = [path.rpartition("/")[2] for path, _ in keys]
            count = len(names)
            folder = parent
            while True:
                self._names.setdefault(folder, set()).update(names)
                self._keys[folder] = self._keys.get(folder, 0) + count
                if folder in (self._top, ""):
                    break
                folder, _, name = folder.rpartition("/")
                names = [f"{name}/"]

    def divide(self, objects: Objects, last: str) -> Iterator[Page | Rest]:
        """All that comes behind the key `last`, in pieces."""
        for folder in self._way(last)[:-1]:
            names = self._names[folder] | {""}  # what stands for the folder itself
            for page, below in objects.directly_in(folder):
                new = [(path, size) for path, size in page if path.rpartition("/")[2] not in names]
                if new:
                    yield new
                yield from (Rest(one) for one in below if f"{one.rpartition('/')[2]}/" not in names)
        yield Rest(self._way(last)[-1], last)

    def _way(self, last: str) -> Sequence[str]:
        """The folders on the way to a key: first those in which it pays to list folder by folder, and then the one in
        which it is gone on behind the key."""
        found = [self._top]
        end = last.rpartition("/")[0]
        while found[-1] != end and self._keys[found[-1]] >= AT_ONCE * len(self._names[found[-1]]):
            depth = found[-1].count("/") + 1 if found[-1] else 0
            found.append("/".join(end.split("/")[: depth + 1]))
        return found
