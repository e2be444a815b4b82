"""Cuts what is behind a key into ranges of keys, so that what is below a folder in S3 is listed by several at once.

Nobody tells how many keys there are between two, but the first one behind any path can be asked for. So it is asked
where the last key that was seen could go on otherwise: for the first one with another sign at a place, from the place
at which the last page's keys differ (what shares more than that is small) to the beginning; then, from the beginning,
for those with further signs. Numbers, hexadecimal digits, UUIDs and folders are cut about evenly so; a range that turns
out to be large is cut again by whoever lists it.

Promise: a range ends with a key that was there, which it has, and behind which the next one begins; so each key comes
once, as long as that key stays. That takes cuts in the server's order. Servers have one of two, by bytes and by the
names of folders, and of two cuts each is behind the one before in both; from a server that has not shown that it has
one of them nothing is cut. When a range's last key goes meanwhile, it ends with the first key that is behind it in
both orders: no key is missing, and one that they put in different places may come twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

from tenure.storage.parallel_walk import AT_ONCE, begin
from tenure.storage.s3 import Objects, Page
from tenure.storage.unlisted import Rest

PIECES: Final = 16
"""Into so many, or a few more, what is left of a piece is divided at once."""


def ranges(objects: Objects, piece: Rest, *, page: Page) -> Iterator[Rest]:
    """What is left of a piece behind the last key of a page, as pieces."""
    seen = [path for path, _ in page]
    cuts = _cuts(objects, piece, seen[0], seen[-1]) if _is_order_known(seen) else ()
    ends = [seen[-1]]
    for path in cuts:
        if _is_behind(path, ends[-1]) and (not piece.until or _is_behind(piece.until, path)):
            ends.append(path)
    for after, until in pairwise([*ends, piece.until]):
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


def _is_order_known(paths: Sequence[str]) -> bool:
    """Whether paths that follow one another can only come from a server with one of the two orders: which of `a` and
    `a/b`, or of `a-b` and `a/b`, comes first tells nothing, as orders differ there; signs of names tell."""
    ups: list[bool] = []
    for one, other in pairwise(paths):
        place = _shared(one, other)
        signs = one[place : place + 1], other[place : place + 1]
        if "" not in signs and "/" not in signs:
            ups.append(signs[0] < signs[1])
    return bool(ups) and all(ups)


def _cuts(objects: Objects, piece: Rest, first: str, last: str) -> Sequence[str]:
    """Keys behind the path `last`, in their order. `first`: another one, from about a page before it."""
    start = len(piece.folder) + 1 if piece.folder else 0
    if piece.until:
        start = max(start, _shared(last, piece.until))  # all that is between them begins with that
    others: dict[int, str] = {}
    place = min(_shared(first, last), len(last) - 1)
    while place >= start and (path := _beyond(objects, piece, last, place)):
        place = min(place, _shared(path, last))  # at those between, nothing has a sign behind
        if place >= start:
            others[place] = path
        place -= 1

    def with_further(place: int) -> list[str]:
        paths = [others[place]]
        while len(paths) < PIECES and (path := _beyond(objects, piece, paths[-1], place)):
            if not path.startswith(last[:place]):
                break
            paths.append(path)
        return paths

    large = list(others)[-AT_ONCE:]  # the ranges of the first places
    asked = [begin(partial(with_further, place)) for place in large]
    return [path for one in asked for path in one.result()][-PIECES:]


def _beyond(objects: Objects, piece: Rest, path: str, place: int) -> str:
    """The first key behind all that are like a path up to a place, which they have as well; empty: none is known."""
    sign = _next(path[place : place + 1])
    return objects.next_path(piece.folder, after=path[:place] + sign) if sign else ""


def _is_behind(path: str, other: str) -> bool:
    """Whether a path comes after another one in each order that servers have."""
    return path > other and path.split("/") > other.split("/")


def _shared(one: str, other: str) -> int:
    """How many signs both begin with."""
    signs = enumerate(zip(one, other, strict=False))
    return next((number for number, (a, b) in signs if a != b), min(len(one), len(other)))


def _next(sign: str) -> str:
    """The sign behind another one in a name; empty: there is none."""
    if not "" < sign < "\ud7ff":  # behind are the surrogates, which are no signs
        return ""
    return "0" if sign == "." else chr(ord(sign) + 1)
