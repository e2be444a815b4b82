"""The keys below a folder, in pieces: each once, whatever the order in which a server lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tenure.storage import key_ranges
from tenure.storage.key_walk import walk_keys
from tenure.storage.unlisted import Rest

Order = Callable[[str], Any]


def by_bytes(key: str) -> Any:
    """AWS, and most others."""
    return key.encode()


def by_folders(key: str) -> Any:
    """SeaweedFS: a folder comes where its name does, and `-` is before `/`."""
    return [part.encode() for part in key.split("/")]


def backwards(key: str) -> Any:
    """None that is known."""
    return [[-ord(letter) for letter in part] for part in key.split("/")]


@dataclass
class Server:
    """What a server has, and how often it was asked."""

    keys: Sequence[str]
    order: Order = by_bytes
    page: int = 3
    asked: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Those of the keys that it has no more."""

    def __post_init__(self) -> None:
        self.keys = sorted(self.keys, key=self.order)

    def paged(self, folder: str, *, after: str = "") -> Iterator[tuple[list[tuple[str, int]], bool]]:
        assert not after or after in self.keys, "nobody knows where a server would put what it does not have"
        found = [key for key in self._below(folder) if not after or self.order(key) > self.order(after)]
        for first in range(0, max(len(found), 1), self.page):
            self.asked.append(folder)
            yield [(key, 1) for key in found[first : first + self.page]], first + self.page < len(found)

    def next_path(self, folder: str, *, after: str) -> str:
        self.asked.append(folder)
        return next((key for key in self._below(folder) if self.order(key) > self.order(after)), "")

    def _below(self, folder: str) -> list[str]:
        return [key for key in self.keys if key not in self.gone and (not folder or key.startswith(f"{folder}/"))]


def rounds(server: Any, folder: str, *, budget: int) -> tuple[list[str], list[int]]:
    """All keys, and how many pieces each round left."""
    found: list[str] = []
    gaps, left = [Rest(folder)], []
    while gaps:
        told = [one for gap in gaps for one in walk_keys(server, gap, budget=budget)]
        found += [key for page in told if not isinstance(page, Rest) for key, _ in page]
        gaps = [one for one in told if isinstance(one, Rest)]
        left.append(len(gaps))
        assert len(left) < 2 * len(server.keys) + 9, "it does not end"
    return found, left


_NAMES = st.sampled_from(["a", "b", "a-b", "a.b", "a0", "z", "0", "é", ""])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map("/".join).filter(lambda path: path[:1] not in {"", "/"})


@st.composite
def _trees(draw: st.DrawFn) -> list[str]:
    """Keys, and of some of them the folders that they are in as keys, too."""
    keys = draw(st.lists(_PATHS, max_size=40, unique=True))
    above = dict.fromkeys(str(folder) for key in keys for folder in PurePosixPath(key.strip("/")).parents)
    folders = [folder for folder in above if folder != "."]
    both = draw(st.lists(st.sampled_from(folders), unique=True)) if folders else []
    return list(dict.fromkeys([*keys, *both]))


@example(["a", "a/a", "a-b", "b/a", "a/a-b", "a/a/a", "b/a/a"], backwards, 1, "", 16)
@example(["a", "a/a", "b", "a-b", "a/a-b", "b/a", "a/a/a"], backwards, 1, "", 16)
@example(["b/c", "b/b", "b/a", "a", "a/a", "a/a/a", "a-b"], backwards, 4, "", 16)
@given(
    _trees(),
    st.sampled_from([by_bytes, by_folders, backwards]),
    st.integers(1, 12),
    st.sampled_from(["", "t", "t/u"]),
    st.sampled_from([1, 2, 16]),
)
def test_each_key_comes_once(names: list[str], order: Order, budget: int, folder: str, pieces: int) -> None:
    keys = [f"{folder}/{name}" if folder else name for name in names]
    server = Server([*keys, "other/x", "t.x"] if folder else keys, order)
    with patch.object(key_ranges, "PIECES", pieces):
        found, _ = rounds(server, folder, budget=budget)
    assert sorted(found) == sorted(keys)


def test_a_skewed_tree_is_divided_below_its_large_folder() -> None:
    keys = [f"runs/q/big/state/{part}/{number:03d}" for part in range(6) for number in range(20)]
    keys += ["runs/q/big/state/last", "runs/q/big/last", "runs/q/small/0", "runs/r/0"]
    found, left = rounds(Server(keys), "runs", budget=30)
    assert sorted(found) == sorted(keys)
    assert left[0] == 9, "the rest of the second part in two ranges, four more parts, and the three small ones"


@pytest.mark.parametrize(("place", "times"), [("000", 4), ("500", 2), ("999", 2)])
def test_small_folders_are_not_listed_one_by_one_wherever_a_large_one_is(place: str, times: int) -> None:
    """One that comes first tells nothing of the others."""
    small = [f"runs/q/{number:03d}/{part}/{file}" for number in range(1, 999) for part in "ab" for file in range(3)]
    keys = [*small, *(f"runs/q/{place}-large/{part}/{file:03d}" for part in range(20) for file in range(300))]
    server = Server(keys, page=100)
    found, left = rounds(server, "runs", budget=1500)
    assert sorted(found) == sorted(keys)
    assert max(left) > 4, "it is divided"
    assert len(server.asked) < times * len(keys) / 100


def test_what_follows_folders_with_next_to_nothing_is_divided() -> None:
    server = Server([f"runs/q/{number:03d}/0" for number in range(600)], page=10)
    found, left = rounds(server, "runs", budget=50)
    assert sorted(found) == sorted(server.keys)
    assert max(left) > 8
    assert len(server.asked) < 200


@pytest.mark.parametrize("order", [by_bytes, by_folders])
@pytest.mark.parametrize("name", ["{:06d}", "part-{:06d}.parquet", "{:x}", "x/{}", "{}/x", "{0}-{0}"])
def test_what_is_directly_in_one_folder_is_divided(name: str, order: Order) -> None:
    keys = [f"blobs/e1/{name.format(number)}" for number in range(6000)]
    server = Server(keys, order, page=10)
    found, left = rounds(server, "blobs", budget=300)
    assert sorted(found) == sorted(keys)
    assert left[0] > 4
    assert sum(left) < 120
    assert len(left) < 6, "rounds"
    assert len(server.asked) < 2.5 * len(keys) / 10


def test_a_server_whose_order_is_not_known_is_not_asked_for_ranges() -> None:
    found, left = rounds(Server([f"blobs/e1/{number:03d}" for number in range(60)], backwards), "blobs", budget=9)
    assert len(found) == 60
    assert set(left) == {1, 0}


@pytest.mark.parametrize("order", [by_bytes, by_folders])
def test_a_range_whose_last_key_goes_meanwhile_still_ends(order: Order) -> None:
    keys = [f"blobs/e1/{number:03d}" for number in range(600)]
    server: Any = Server(keys, order)
    told = list(walk_keys(server, Rest("blobs"), budget=60))
    left = [one for one in told if isinstance(one, Rest)]
    server.gone = {one.until for one in left} - {""}
    assert len(server.gone) > 8
    found = [key for page in told if not isinstance(page, Rest) for key, _ in page]
    for one in left:
        found += [key for page in walk_keys(server, one, budget=999) if not isinstance(page, Rest) for key, _ in page]
    assert sorted(found) == sorted(set(keys) - server.gone)
