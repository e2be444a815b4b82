"""Pure: whether a query reads the sources that the positions in its checkpoint belong to. No I/O, no clock.

Promise: Spark knows the sources of a query by their position, or by their names where the query names them; so does
this comparison. Two sources in each other's place, another path or topic, another format: each is a difference. Not
promised: that a source has the content that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.source import FILES, Source

_MOVED: Final = "that goes on only if its files only moved, with the same names and times"


@dataclass(frozen=True, slots=True)
class Differences:
    """How the sources of a query differ from those of its checkpoint."""

    told: tuple[str, ...] = ()
    """A sentence a source; empty: they do not differ."""
    may_be_allowed: bool = True
    """Whether Spark would go on with these sources at all."""

    def __bool__(self) -> bool:
        return bool(self.told)


def differences(query: str, was: Sequence[Source], now: Sequence[Source]) -> Differences:
    """Compare the sources of a declared query with the sources of its checkpoint. Empty `was`: an older version has not
    recorded them, and any are taken."""
    if not was or not now:
        return Differences()
    if all(source.is_named for source in (*was, *now)):
        known = {source.folder: source for source in was}
        pairs = [(known[source.folder], source) for source in now if source.folder in known]
    elif len(was) != len(now):
        return Differences((_count(query, was, now),), may_be_allowed=False)
    else:
        pairs = list(zip(was, now, strict=True))
    places = dict(enumerate(was))
    return Differences(
        tuple(_sentence(query, place, one, other, places) for place, (one, other) in enumerate(pairs) if one != other)
    )


def _sentence(query: str, place: int, was: Source, now: Source, known: Mapping[int, Source]) -> str:
    name = now.folder if now.is_named else str(place)
    if was.reads == now.reads:
        return (
            f"source {name} of query {query!r}, [{now.told}], had the folder {was.folder} of the checkpoint, and has "
            f"the folder {now.folder}"
        )
    hint = ""
    if elsewhere := [other for other, one in known.items() if one.reads == now.reads]:
        hint = f", which was source {elsewhere[0]}"
    elif was.kind == now.kind == FILES:
        hint = f" ({_MOVED})"
    return f"source {name} of query {query!r} was [{was.told}], and would go on from there with [{now.told}]{hint}"


def _count(query: str, was: Sequence[Source], now: Sequence[Source]) -> str:
    return (
        f"query {query!r} had {len(was)} sources [{_list(was)}], and has {len(now)} [{_list(now)}]: Spark goes on only "
        "with as many; a query with others needs a new name"
    )


def _list(sources: Sequence[Source]) -> str:
    return "; ".join(source.told for source in sources)
