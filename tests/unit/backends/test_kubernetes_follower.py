"""The follower of objects, on a made-up API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, cast

from tenure.backends.kubernetes.api import Api, Object
from tenure.backends.kubernetes.errors import Refused
from tenure.backends.kubernetes.follower import Follower
from tenure.clock import Clock, SystemClock
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S, wait_until


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


class SlowLists:
    """An API server that answers each list when it may, or refuses each."""

    request_s = NEVER_S

    def __init__(self, *, refuses: bool = False) -> None:
        self.lists = 0
        self.may_answer = [threading.Event() for _ in range(3)]
        self.over = threading.Event()
        self._refuses = refuses

    def ask(self, method: str, path: str, *, query: Sequence[tuple[str, str]] = ()) -> Object:
        self.lists += 1
        if self._refuses:
            raise Refused(403, "no")
        assert self.may_answer[self.lists - 1].wait(NEVER_S)
        return {"metadata": {"resourceVersion": "7"}, "items": []}

    def line(self, path: str, *, query: Sequence[tuple[str, str]], silent_s: float) -> Any:
        return _Open(self.over if self.lists > 1 else threading.Event())

    def release(self) -> None:
        for event in (*self.may_answer, self.over):
            event.set()


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


def following(server: Any, clock: Clock) -> Follower:
    return Follower(
        cast("Api", server),
        lambda: "",
        selector=lambda: ("labelSelector", ""),
        owner=Nobody(),
        clock=clock,
        name="it",
    )


def test_a_watch_that_the_server_has_ended_is_opened_again_without_a_new_list_and_without_a_gap() -> None:
    """Each reader of the scope read it itself meanwhile: sixteen reads in ten idle minutes of three members."""
    server = EndingLines()
    follower = following(server, SystemClock())
    try:
        wait_until(lambda: server.lines == 2, what="the second watch")
        follower.check()
        server.may_open.set()
        assert server.lists == 1
    finally:
        server.may_open.set()
        follower.close()
        server.over.set()


def test_a_list_that_began_before_the_selector_changed_is_not_the_first_try_of_the_new_selector() -> None:
    """Who waited for the Leases of another scope went on without them, and read values as they were never amended."""
    server = SlowLists()
    follower = following(server, SystemClock())
    try:
        wait_until(lambda: server.lists == 1, what="the first list")
        follower.begin_anew()
        server.may_answer[0].set()
        wait_until(lambda: server.lists == 2, what="the list by the new selector")
        assert not follower.tried.is_set()
        server.may_answer[1].set()
        assert follower.tried.wait(NEVER_S)
    finally:
        server.release()
        follower.close()


def test_a_new_selector_is_tried_at_once_also_in_the_pause_after_a_refusal() -> None:
    """Each scope more that an account without the right looked at cost the whole pause."""
    server = SlowLists(refuses=True)
    follower = following(server, ManualClock())  # on which no pause ends
    try:
        for number in range(1, 4):
            assert follower.tried.wait(NEVER_S)
            assert server.lists == number
            follower.begin_anew()
    finally:
        follower.close()
