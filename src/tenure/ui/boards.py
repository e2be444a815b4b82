"""The boards that are looked at: each is kept while it has a viewer.

Promise: the threads of a board begin with its first viewer and end with its last. Viewers beyond the limits are
refused. No call here waits for the store or a member. Thread-safe.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tenure.clock import Clock
from tenure.coordination.records import Scope
from tenure.errors import TenureError
from tenure.ui.board import Board
from tenure.ui.store_client import StoreClient
from tenure.ui.watching import FleetKeeper, ScopeKeeper

VIEWERS_MOST: Final = 200
SCOPES_MOST: Final = 50
"""How many boards are kept at a time."""


class TooManyViewers(TenureError):
    """The page has no room for another viewer."""


@dataclass(slots=True)
class _Watched:
    board: Board
    keeper: FleetKeeper | ScopeKeeper
    viewers: int = 0


class Boards:
    """All boards of a page. `name`: how the store is shown."""

    def __init__(self, client: StoreClient, *, clock: Clock, name: str) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._lock = threading.Lock()  # guards the fields below
        self._kept: dict[Scope | None, _Watched] = {}
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the page has ended: its viewers leave."""
        return self._is_over

    @contextmanager
    def viewed(self, scope: Scope | None) -> Iterator[Board]:
        """The board of a scope, or of all scopes (None), for as long as the block lasts. Raises TooManyViewers."""
        kept = self._enter(scope)
        try:
            yield kept.board
        finally:
            self._leave(scope, kept)

    def close(self) -> None:
        """End all threads, and let all viewers leave."""
        with self._lock:
            self._is_over = True
            kept = list(self._kept.values())
        for one in kept:
            one.keeper.stop()
            one.board.wake_all()
        self._client.close()

    def _enter(self, scope: Scope | None) -> _Watched:
        with self._lock:
            viewers = sum(one.viewers for one in self._kept.values())
            if self._is_over or viewers >= VIEWERS_MOST or (scope not in self._kept and len(self._kept) >= SCOPES_MOST):
                raise TooManyViewers(f"{viewers} viewers are here already", fix="try again later")
            kept = self._kept.get(scope)
            if kept is None:
                kept = self._kept[scope] = self._begin(scope)
            kept.viewers += 1
            return kept

    def _begin(self, scope: Scope | None) -> _Watched:
        board = Board()
        keeper: FleetKeeper | ScopeKeeper
        if scope is None:
            keeper = FleetKeeper(board, self._client, clock=self._clock, name=self._name)
        else:
            keeper = ScopeKeeper(board, self._client, scope, clock=self._clock, name=self._name)
        keeper.start()
        return _Watched(board, keeper)

    def _leave(self, scope: Scope | None, kept: _Watched) -> None:
        with self._lock:
            kept.viewers -= 1
            if kept.viewers == 0:
                kept.keeper.stop()
                if self._kept.get(scope) is kept:
                    del self._kept[scope]
