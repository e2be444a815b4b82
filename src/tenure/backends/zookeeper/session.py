"""Sessions of the ZooKeeper store: one connection and one session of ZooKeeper each.

Promise: a session lives for its ttl after the last request on its line reached the ensemble: a renewal, a commit that
binds to it, or a look at a scope that has changed. The line sends no pings, so an idle process renews it on purpose.
A renewal is an empty commit: a majority agrees that the session lives, which a server that lags behind, or led a moment
ago, cannot know. An ended session never comes back: its connection cannot open another session.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from kazoo.handlers.threading import KazooTimeoutError

from tenure.backends.shared.amending import amend_by_commit
from tenure.backends.zookeeper.connection import Connection, Ensemble, barrier
from tenure.backends.zookeeper.errors import NOT_ANSWERED, unavailable
from tenure.backends.zookeeper.follower import ZooKeeperFollowing
from tenure.backends.zookeeper.multi import session_name
from tenure.coordination.records import Key, Scope, SessionId
from tenure.coordination.store import CoordinationStore
from tenure.errors import SessionEnded, StoreUnavailable

_SHARE = 6
"""A renewal that takes longer than this part of the ttl is tried over another server. With as much time to connect, the
second renewal ends before the holder stops believing in the session."""


_CLOSES: Final = 3
"""How often another process's session is closed until a server confirms it."""

_RESUMED: Final = timedelta(seconds=10)
"""The ttl with which such a session is resumed. It counts if the close does not arrive."""


class ZooKeeperSession:
    """A session of a `ZooKeeperStore`."""

    def __init__(
        self,
        store: CoordinationStore,
        connection: Connection,
        ttl: timedelta,
        *,
        following: ZooKeeperFollowing,
        renewed: Callable[[], None],
        forget: Callable[[SessionId], None],
    ) -> None:
        """`renewed`: called after each renewal."""
        self._store = store
        self.connection = connection
        self.id = session_name(connection.session_id)
        self.testament = f"{connection.session_id}:{connection.password.hex()}"
        self.ttl = ttl
        self._following = following
        self._renewed = renewed
        self._forget = forget
        self.marked: set[Scope] = set()
        """The scopes that have a marker of the session."""

    def renew(self) -> None:
        if self.connection.over:
            raise SessionEnded(self.id)
        due = self._following.due()  # a follower that went deaf is found by the way
        line = self.connection.line
        try:
            limit_s = self.ttl.total_seconds() / _SHARE
            answer, *stats = self.connection.ask(
                lambda client: [barrier(client), *(due.asks(client) if due is not None else ())],
                timeout_s=limit_s,
            )
        except (*NOT_ANSWERED, StoreUnavailable) as error:
            if self.connection.over:
                raise SessionEnded(self.id) from error
            # Where nothing was sent, kazoo is opening a line; where the line broke, the next may be open.
            if not isinstance(error, StoreUnavailable) and self.connection.line == line:
                self.connection.drop(silent=isinstance(error, KazooTimeoutError))
            raise StoreUnavailable(f"session {self.id} was not renewed: {error or type(error).__name__}") from error
        if isinstance(answer, BaseException):
            raise unavailable(answer, "renew a session")
        if due is not None and not any(isinstance(stat, BaseException) for stat in stats):
            due.told(*stats)
        self._renewed()

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def close(self) -> None:
        if self.connection.over:
            return
        closed = self.connection.close()
        self._forget(self.id)
        if not closed:
            raise _not_closed(self.id)


def close_by_testament(ensemble: Ensemble, testament: str) -> None:
    """Resume a session and close it, until a server answers that the session has ended: kazoo does not say whether the
    close arrived. Raises StoreUnavailable."""
    number, _, password = testament.partition(":")
    for _ in range(_CLOSES):
        connection = Connection(ensemble, ttl=_RESUMED, pings=False, resumes=(int(number), bytes.fromhex(password)))
        try:
            connection.open()
        except StoreUnavailable:
            if connection.expired:
                return
            raise
        connection.close()
    raise _not_closed(session_name(int(number)))


def _not_closed(session: SessionId) -> StoreUnavailable:
    return StoreUnavailable(f"session {session} could not be closed", fix="it ends by itself at its ttl")
