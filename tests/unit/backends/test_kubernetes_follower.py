"""The follower of objects, on a made-up API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.follower import Follower
from tenure.clock import SystemClock
from tenure.testing.waiting import NEVER_S, wait_until


class EndingLines:
    """An API server that ends its first watch at once, and opens the second when it may."""

    request_s = NEVER_S

    def __init__(self) -> None:
        self.lines = 0
        self.lists = 0
        self.may_open = threading.Event()
        self.over = threading.Event()

    def ask(self, method: str, path: str, *, query: Sequence[tuple[str, str]] = ()) -> Object:
        self.lists += 1
        return {"metadata": {"resourceVersion": "7"}, "items": []}

    def line(self, path: str, *, query: Sequence[tuple[str, str]], silent_s: float) -> Any:
        self.lines += 1
        if self.lines == 1:
            ended = _Open(threading.Event())
            ended.close()
            return ended
        assert self.may_open.wait(NEVER_S)
        return _Open(self.over)


class _Open:
    def __init__(self, over: threading.Event) -> None:
        self._over = over

    def __iter__(self) -> Iterator[Object]:
        self._over.wait(NEVER_S)
        return iter(())

    def close(self) -> None:
        self._over.set()


class Nobody:
    """An owner that does nothing."""

    def listed(self, objects: Sequence[Object], *, at: int) -> None: ...

    def changed(self, kind: str, found: Object) -> None: ...

    def spoke(self) -> None: ...


def test_a_watch_that_the_server_has_ended_is_opened_again_without_a_new_list_and_without_a_gap() -> None:
    """Each reader of the scope read it itself meanwhile: sixteen reads in ten idle minutes of three members."""
    server = EndingLines()
    follower = Follower(
        cast("Api", server),
        lambda: "",
        selector=lambda: ("labelSelector", ""),
        owner=Nobody(),
        clock=SystemClock(),
        name="it",
    )
    try:
        wait_until(lambda: server.lines == 2, what="the second watch")
        follower.check()
        server.may_open.set()
        assert server.lists == 1
    finally:
        server.may_open.set()
        follower.close()
        server.over.set()
