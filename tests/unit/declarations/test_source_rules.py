"""Whether a query reads what the positions in its checkpoint belong to, as a table."""

from __future__ import annotations

import pytest

from tenure.checkpoints.source import ANOTHER, FILES, KAFKA, Source
from tenure.declarations.rules import differences


def source(text: str, folder: str = "0", kind: str = ANOTHER) -> Source:
    return Source.of(folder, kind, text)


def unnamed(*texts: str) -> list[Source]:
    """The sources of a query, none of which is read twice."""
    return [source(text, str(place)) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ([], unnamed("a")),
        (unnamed("a"), []),
        (unnamed("a", "b"), unnamed("a", "b")),
        ([source("a", "x"), source("b", "y")], [source("b", "y"), source("a", "x")]),
        ([source("a", "x"), source("b", "y")], [source("a", "x"), source("c", "z")]),
    ],
)
def test_the_same_sources(was: list[Source], now: list[Source]) -> None:
    assert not differences("q", was, now)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (
            unnamed("a", "b"),
            unnamed("a", "c"),
            ("source 1 of query 'q' was [b], and would go on from there with [c]",),
        ),
        (
            unnamed("a", "b"),
            unnamed("b", "a"),
            (
                "source 0 of query 'q' was [a], and would go on from there with [b], which was source 1",
                "source 1 of query 'q' was [b], and would go on from there with [a], which was source 0",
            ),
        ),
        (
            [source("a", "x")],
            [source("b", "x")],
            ("source x of query 'q' was [a], and would go on from there with [b]",),
        ),
        (
            [source("a", kind=FILES)],
            [source("b", kind=FILES)],
            (
                "source 0 of query 'q' was [a], and would go on from there with [b] (that goes on only if its files "
                "only moved, with the same names and times)",
            ),
        ),
        (
            [source("a", kind=FILES)],
            [source("b", kind=KAFKA)],
            ("source 0 of query 'q' was [a], and would go on from there with [b]",),
        ),
        (
            [source("a", "0"), source("a", "0")],
            [source("a", "0"), source("a", "1")],
            ("source 1 of query 'q', [a], had the folder 0 of the checkpoint, and has the folder 1",),
        ),
    ],
)
def test_other_sources(was: list[Source], now: list[Source], told: tuple[str, ...]) -> None:
    found = differences("q", was, now)
    assert found.told == told
    assert found.may_be_allowed


@pytest.mark.parametrize("now", [unnamed("a"), unnamed("a", "b", "c"), [source(text, text) for text in "xyz"]])
def test_more_or_fewer_sources_cannot_be_allowed(now: list[Source]) -> None:
    found = differences("q", unnamed("a", "b"), now)
    assert f"query 'q' had 2 sources [a; b], and has {len(now)} [" in found.told[0]
    assert not found.may_be_allowed
