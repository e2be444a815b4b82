"""Cuts what is behind a key into ranges of keys, so that a single large folder in S3 is listed by several at once.

Nobody tells how many keys there are between two, but the first one behind any path can be asked for. So it is asked
where paths differ: for the first one with another sign at a place, and so on, from the first place to the last one at
which those that were seen differed, since all that shares more than that is small. Numbers, hexadecimal digits and
UUIDs are cut about evenly so; a range that turns out to be large is cut again by whoever lists it.

Promise: a range ends with a key that was there, which it has, and behind which the next one begins; so each key comes
once, as long as that key stays. When it goes meanwhile, the range ends with the first key that is behind it in both
orders that servers have, by bytes and by the names of folders; no key is missing, and one that these orders put in
different places may come twice. From a server with neither order nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from tenure.blobs.objects import Objects, Page
from tenure.blobs.pieces import Rest
from tenure.blobs.side_by_side import AT_ONCE, begin

PIECES: Final = 16
"""Into so many, or a few more, what is left of a piece is divided at once."""


def ranges(objects: Objects, piece: Rest, *, first: str, last: str) -> Iterator[Rest]:
    """What is left of a piece behind the path `last`, as pieces. `first`: the first one that was seen with it."""
    cuts = _cuts(objects, piece, first, last)
    for after, until in pairwise([last, *cuts, piece.until]):
        yield Rest(piece.folder, after, until)


def up_to(page: Page, until: str) -> tuple[Page, bool]:
    """What of a page is not behind a path (empty: the end of all), and whether it is the last page for that."""
    if until:
        for number, (path, _) in enumerate(page):
            if path == until:
                return page[: number + 1], True
            if _is_behind(path, until):
                return page[:number], True
    return page, False


def _cuts(objects: Objects, piece: Rest, first: str, last: str) -> Sequence[str]:
    """Keys behind the path `last`, in their order."""
    if not _is_behind(last, first):
        return ()
    start = len(piece.folder) + 1 if piece.folder else 0
    known = _shared(last, piece.until) if piece.until else 0  # all that is between them begins with that
    places = range(max(start, known), _shared(first, last) + 1)

    def ask(some: range) -> dict[int, list[str]]:
        return {place: _with_another_sign(objects, piece, last, place) for place in some}

    asked = [begin(partial(ask, places[number::AT_ONCE])) for number in range(min(AT_ONCE, len(places)))]
    found = {place: keys for one in asked for place, keys in one.result().items()}
    cuts: list[str] = []
    for place in places:  # the ranges of the first places are the large ones, and the last ones in order
        if len(cuts) < PIECES:
            cuts = [*found[place], *cuts]
    return cuts


def _with_another_sign(objects: Objects, piece: Rest, last: str, place: int) -> list[str]:
    """The first keys that are like the path `last` before a place, and have a sign behind its own there."""
    stem, sign = last[:place], last[place]
    found: list[str] = []
    while len(found) < PIECES and (sign := _next(sign)):
        path = objects.next_path(piece.folder, after=stem + sign)
        if not path.startswith(stem) or path[place : place + 1] < sign:
            break
        if not _is_behind(path, found[-1] if found else last) or (piece.until and not _is_behind(piece.until, path)):
            break
        found.append(path)
        sign = path[place]
    return found


def _is_behind(path: str, other: str) -> bool:
    """Whether a path comes after another one in each order that servers have."""
    return path > other and path.split("/") > other.split("/")


def _shared(one: str, other: str) -> int:
    """How many signs both begin with."""
    return next((number for number, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


def _next(sign: str) -> str:
    """The sign behind another one in a name; empty: there is none."""
    number = ord(sign) + 1
    if chr(number) == "/":
        number += 1
    return chr(number) if number < 0xD800 else ""  # behind are the surrogates, which are no signs
