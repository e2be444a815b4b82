"""Walks the keys below a folder in S3, a page of a thousand a call, and leaves what a budget does not reach to others.

What is below a folder is one sequence of keys there, through all folders in it, so whoever stops says behind which key
to go on. That is a single piece again; it is cut into ranges of keys (`key_ranges.py`), each of which is one.

Promise: each key comes once, in one of the pieces, whatever the order is in which a server lists them. A walk that
leaves something has listed a key, so walks end. Memory grows with a page.
"""

from __future__ import annotations

from collections.abc import Iterator

from tenure.storage.key_ranges import ranges, up_to
from tenure.storage.s3 import Objects, Page
from tenure.storage.unlisted import Rest


def walk_keys(objects: Objects, piece: Rest, *, budget: int) -> Iterator[Page | Rest]:
    """Pages of keys of a piece; then, if there are more than about `budget`, what is left."""
    left = budget
    for found, more in objects.paged(piece.folder, after=piece.after):
        page, ends = up_to(found, piece.until)
        left -= len(page)
        if page:
            yield page
        if ends:
            return
        if page and left <= 0 and more:
            yield from ranges(objects, piece, page=page)
            return
