"""What the conformance cases need to know of a store under test.

Promise: each rig is one fresh, empty store, with its own idea of time: a manual clock for the embedded stores, real
time for servers.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from tenure.coordination.records import Key, Put, Scope, SessionId, Version
from tenure.coordination.store import CoordinationStore
from tenure.testing.waiting import NEVER_S

SCOPE: Final = Scope("hourly-sales")


class StoreRig(ABC):
    """One store, empty at the start. `ttl`: a short ttl that the store keeps. `grace`: how much later than its ttl
    an abandoned session may end."""

    ttl: timedelta = timedelta(seconds=10)
    grace: timedelta = timedelta(0)
    time_is_free: bool = True
    """Whether time passes without being waited for."""

    @abstractmethod
    def client(self) -> CoordinationStore:
        """Another client of the store."""

    @abstractmethod
    def kill(self, client: CoordinationStore) -> None:
        """The client's process dies without a word: nothing is closed, nothing is renewed."""

    @abstractmethod
    def restart(self) -> CoordinationStore:
        """All clients and the store's own process end; start it again and return a new client."""

    @abstractmethod
    def pass_time(self, by: timedelta) -> None:
        """Let time pass, in which everybody watches."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind."""

    def outlive(self, ttl: timedelta) -> None:
        """Let so much time pass that a session without a renewal is over."""
        self.pass_time(ttl + self.grace)

    def until(self, happened: Callable[[], bool]) -> None:
        """Let time pass in small steps until it happened. Raises AssertionError."""
        deadline = time.monotonic() + NEVER_S  # noqa: TID251 - a hang must end in real time
        while not happened():
            assert time.monotonic() < deadline, "it did not happen"  # noqa: TID251 - as above
            self.pass_time(timedelta(milliseconds=60))
            threading.Event().wait(0.002)  # other threads' turn


def put_new(
    store: CoordinationStore, key: str, value: bytes = b"x", *, scope: Scope = SCOPE, session: SessionId | None = None
) -> Version:
    """Write a record that is not there yet."""
    return store.commit(scope, guards=[], writes=[Put(Key(key), value, None, session)]).versions[Key(key)]


def values(store: CoordinationStore, *, scope: Scope = SCOPE) -> dict[str, bytes]:
    """All records of the scope, by key."""
    return {str(record.key): record.value for record in store.list(scope).records}
