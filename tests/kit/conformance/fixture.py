"""The store under test, as the conformance cases use it.

Promise: each rig is a fresh, empty store with its own time: a manual clock for embedded stores, real time for servers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from tenure.coordination.records import Key, Put, Scope, SessionId, Version
from tenure.coordination.store import CoordinationStore
from tests.kit.waiting import wait_until

SCOPE: Final = Scope("hourly-sales")


class StoreRig(ABC):
    """A store, empty at the start. `ttl`: a short ttl that the store keeps. `grace`: how much later than its ttl an
    abandoned session may end."""

    ttl: timedelta = timedelta(seconds=10)
    grace: timedelta = timedelta(0)
    time_is_free: bool = True
    """Whether `pass_time` takes no real time."""

    @abstractmethod
    def client(self) -> CoordinationStore:
        """Another client of the store."""

    @abstractmethod
    def kill(self, client: CoordinationStore) -> None:
        """End the client as the death of its process does: it closes and renews nothing."""

    @abstractmethod
    def restart(self) -> CoordinationStore:
        """End all clients and the store's own process; start the process again and return a new client."""

    @abstractmethod
    def pass_time(self, by: timedelta) -> None:
        """Let time pass, while all clients watch."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""

    def outlive(self, ended: Callable[[], bool]) -> None:
        """Let time pass until a session without a renewal is over. `ended`: whether an observer sees that. A server
        ends a session when its own threads come to it, which a busy machine delays beyond `grace`."""
        self.pass_time(self.ttl + self.grace)
        if not self.time_is_free:
            wait_until(ended, what="the end of a session that nobody renews")

    def until(self, happened: Callable[[], bool]) -> None:
        """Let time pass in small steps until `happened` is true. Raises TimeoutError."""

        def step() -> bool:
            self.pass_time(timedelta(milliseconds=60))
            return happened()

        wait_until(step, every=timedelta(milliseconds=2))  # other threads' turn


def put_new(
    store: CoordinationStore, key: str, value: bytes = b"x", *, scope: Scope = SCOPE, session: SessionId | None = None
) -> Version:
    """Write a new record."""
    return store.commit(scope, guards=[], writes=[Put(Key(key), value, None, session)]).versions[Key(key)]


def values(store: CoordinationStore, *, scope: Scope = SCOPE) -> dict[str, bytes]:
    """All records of the scope, by key."""
    return {str(record.key): record.value for record in store.list(scope).records}
