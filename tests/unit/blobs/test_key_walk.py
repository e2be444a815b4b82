"""The keys below a folder, in pieces: each once, whatever the order in which a server lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.blobs import key_walk
from tenure.blobs.key_walk import walk_keys
from tenure.blobs.pieces import Rest

PAGE = 3

Order = Callable[[str], Any]


def by_bytes(key: str) -> Any:
    """AWS, and most others."""
    return key.encode()


def by_folders(key: str) -> Any:
    """SeaweedFS: a folder comes where its name does, and `-` is before `/`."""
    return [part.encode() for part in key.split("/")]


@dataclass
class Server:
    """What a server has, and how often it was asked."""

    keys: Sequence[str]
    order: Order = by_bytes
    asked: list[str] = field(default_factory=list)

    def pages(self, folder: str, *, after: str = "") -> Iterator[list[tuple[str, int]]]:
        found = [key for key in self._below(folder) if not after or self.order(key) > self.order(after)]
        for first in range(0, max(len(found), 1), PAGE):
            self.asked.append(folder)
            yield [(key, 1) for key in found[first : first + PAGE]]

    def directly_in(self, folder: str) -> Iterator[tuple[list[tuple[str, int]], list[str]]]:
        self.asked.append(folder)
        prefix = f"{folder}/" if folder else ""
        below = [key.removeprefix(prefix) for key in self._below(folder)]
        files = [(f"{prefix}{name}", 1) for name in below if "/" not in name]
        folders = dict.fromkeys(prefix + name.split("/", 1)[0] for name in below if "/" in name)
        yield files, list(folders)

    def _below(self, folder: str) -> list[str]:
        return sorted((key for key in self.keys if not folder or key.startswith(f"{folder}/")), key=self.order)


def rounds(server: Any, folder: str, *, budget: int) -> tuple[list[str], list[int]]:
    """All keys, and how many pieces each round left."""
    found: list[str] = []
    gaps, left = [Rest(folder)], []
    while gaps:
        told = [one for gap in gaps for one in walk_keys(server, gap.folder, after=gap.after, budget=budget)]
        found += [key for page in told if not isinstance(page, Rest) for key, _ in page]
        gaps = [one for one in told if isinstance(one, Rest)]
        left.append(len(gaps))
    return found, left


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_walk, "AT_ONCE", PAGE)


_NAMES = st.sampled_from(["a", "b", "a-b", "a.b", "z", "0", "é"])
_KEYS = st.lists(st.lists(_NAMES, min_size=1, max_size=4).map("/".join), max_size=40, unique=True)


@given(_KEYS, st.sampled_from([by_bytes, by_folders]), st.integers(1, 12), st.sampled_from(["", "t", "t/u"]))
def test_each_key_comes_once(names: list[str], order: Order, budget: int, folder: str) -> None:
    keys = [f"{folder}/{name}" if folder else name for name in names]
    server = Server([*keys, "other/x", "t.x"] if folder else keys, order)
    with patch.object(key_walk, "AT_ONCE", 1):  # every folder is worth a piece
        found, _ = rounds(server, folder, budget=budget)
    assert sorted(found) == sorted(keys)


@pytest.mark.usefixtures("small_pages")
def test_a_skewed_tree_is_divided_below_its_large_folder() -> None:
    keys = [f"runs/q/big/state/{part}/{number:03d}" for part in range(6) for number in range(20)]
    keys += ["runs/q/big/state/last", "runs/q/big/last", "runs/q/small/0", "runs/r/0"]
    found, left = rounds(Server(keys), "runs", budget=30)
    assert sorted(found) == sorted(keys)
    assert left[0] == 7, "the rest of the second part, four more parts, and the two small ones"


@pytest.mark.usefixtures("small_pages")
def test_small_folders_are_not_listed_one_by_one() -> None:
    server = Server([f"runs/q/{number:03d}/0" for number in range(60)])
    found, left = rounds(server, "runs", budget=9)
    assert len(found) == 60
    assert set(left) == {1, 0}
    assert len(server.asked) < 30


@pytest.mark.usefixtures("small_pages")
def test_what_is_directly_in_one_folder_stays_one_piece() -> None:
    found, left = rounds(Server([f"blobs/e1/{number:03d}" for number in range(60)]), "blobs", budget=9)
    assert len(found) == 60
    assert set(left) == {1, 0}
