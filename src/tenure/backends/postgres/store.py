"""The coordination store in a PostgreSQL database: a commit is one transaction that holds the row of its scope.

Promise: the contract of `coordination.store`. A commit is one message, and on the disks of the primary and of its
synchronous standby when it returns. The death of a process shows within two looks by its advisory lock; a process that
is stopped, or cut off, is judged by its renewals, on the observer's own clock. A change wakes the waiters of every
client; if its announcement is lost, they see it within a second or two.

Not promised: that a failover to an asynchronous standby loses nothing. Versions never name a state that was lost.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from tenure.backends.postgres import statements
from tenure.backends.postgres.client import PostgresClient
from tenure.backends.postgres.connection import PostgresConnection, Reply
from tenure.backends.postgres.follower import PostgresFollowing
from tenure.backends.postgres.rows import LARGEST_STEP, commit_values, record_of, session_of, text_of, version_of
from tenure.backends.postgres.sessions import PostgresSessions
from tenure.backends.postgres.url import PostgresPlace
from tenure.backends.shared.amending import amend_by_commit
from tenure.backends.shared.following import FollowedChanges
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import (
    Commit,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Write,
    implied_guard,
)
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import GuardFailed, SessionEnded, StoreUnavailable

GUARANTEES: Final = Guarantees(
    name="postgresql",
    max_record_bytes=1024 * 1024,
    max_writes=1000,
    survives_restart=True,
    death_noticed_at_once=True,
)


class PostgresSession:
    """A session of a `PostgresStore`."""

    def __init__(self, store: PostgresStore, session: SessionId, ttl: timedelta) -> None:
        self._store = store
        self.id = session
        self.testament = str(session)
        self.ttl = ttl

    def renew(self) -> None:
        self._store.renew_session(self.id)

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        amend_by_commit(self._store, scope, key, value, session=self.id)

    def close(self) -> None:
        self._store.end_session(self.id)


class PostgresStore:
    """A client of the store at `place`."""

    guarantees = GUARANTEES

    def __init__(self, place: PostgresPlace, *, existing: bool = False, clock: Clock | None = None) -> None:
        """`existing`: the tables are not made where there are none."""
        self._clock: Clock = clock or SystemClock()
        self._client = PostgresClient(place, existing=existing, clock=self._clock)
        self._sessions = PostgresSessions(self._client, clock=self._clock)
        self._following = PostgresFollowing(self._client, self._sessions, self.list, clock=self._clock)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        found = self._look(scope, statements.AT, {"key": key})
        return found.records[0] if found.records else None

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        """As the contract says. '0' is the character after '/'."""
        below = statements.BELOW if prefix else ""
        found = self._look(scope, below, {"from": f"{prefix}/", "to": f"{prefix}0"})
        self._following.seen(scope, found.revision)
        return found

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._following.scope(scope).glance(prefix)

    def scopes(self) -> Sequence[Scope]:
        self._sessions.end_all_dead()
        request = self._client.sql(statements.SCOPES, barrier=statements.BARRIER)
        reply = self._client.ask(lambda at: request, "list the scopes", writes=False)
        return [scope for (name,) in reply.rows[2] if (scope := Scope.found(text_of(name))) is not None]

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        return FollowedChanges(self._following.scope(scope), after=after, clock=self._clock)

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        judged = [*guards, *map(implied_guard, writes)]
        while True:
            reply = self._commit(scope, judged, writes)
            ((place, ended, moved, revision),) = reply.rows[2]
            if place is not None:
                if self._end_dead(scope):
                    continue
                raise GuardFailed(judged[int(text_of(place)) - 1], scope=scope)
            if ended is not None:
                raise SessionEnded(SessionId(text_of(ended)))
            if moved is not None or not writes:
                break
            self._make(scope)
        reached = Revision(int(text_of(moved or revision) or 0))
        self._following.seen(scope, reached)
        version = version_of(reply.incarnation.origin, reached)
        return Commit({write.key: version for write in writes if isinstance(write, Put)}, reached)

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> PostgresSession:
        self._sessions.end_all_dead()
        session = self._sessions.open(self._following.line, ttl=ttl, purpose=purpose)
        return PostgresSession(self, session, ttl)

    def renew_session(self, session: SessionId) -> None:
        """Count one more renewal. Raises SessionEnded, StoreUnavailable, OutcomeUnknown."""
        self._sessions.renew(self._following.line, session)

    def end_session(self, testament: str) -> None:
        session = SessionId(testament)
        self._sessions.end_one(session)
        self._sessions.unlock(self._following.line, session)

    def close(self) -> None:
        self._following.line.close()
        self._following.close()
        self._client.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _look(self, scope: Scope, where: str, values: Mapping[str, Any]) -> Listing:
        """The records that a condition names, once the dead sessions of the scope have ended."""
        request = self._client.sql(statements.ASK, barrier=statements.BARRIER, below=where)
        given = {**values, "scope": scope}
        while True:
            asked_at_s = self._clock.monotonic_s()
            reply = self._client.ask(lambda at: at.text(request, given), f"read scope {scope!r}", writes=False)
            _, _, revisions, records, sessions, _ = reply.rows
            at = reply.incarnation
            dead = self._sessions.dead([session_of(row) for row in sessions], home=at.home, asked_at_s=asked_at_s)
            if not dead:
                found = [record for row in records if (record := record_of(row, origin=at.origin)) is not None]
                return Listing(tuple(found), Revision(int(text_of(revisions[0][0])) if revisions else 0))
            self._sessions.end_dead(dead)

    def _end_dead(self, scope: Scope) -> bool:
        """End the dead sessions of a scope; whether there were any. A member that joins does nothing but commit, and
        perhaps nobody else lives to look. If the database goes away meanwhile, the refusal of the commit stays known.
        """
        request, asked_at_s = self._client.sql(statements.SESSIONS_OF), self._clock.monotonic_s()
        try:
            reply = self._client.ask(
                lambda at: at.text(request, {"scope": scope}), f"judge scope {scope!r}", writes=False
            )
            rows = list(map(session_of, reply.rows[1]))
            dead = self._sessions.dead(rows, home=reply.incarnation.home, asked_at_s=asked_at_s)
            self._sessions.end_dead(dead)
        except StoreUnavailable:
            return False
        return bool(dead)

    def _commit(self, scope: Scope, judged: Sequence[Guard], writes: Sequence[Write]) -> Reply:
        request = self._client.sql(statements.COMMIT)

        def made(connection: PostgresConnection) -> str:
            values = {
                **commit_values(judged, writes, origin=connection.incarnation.origin),
                "scope": scope,
                "step": 1 + secrets.randbelow(LARGEST_STEP),
                "channel": self._client.place.channel,
            }
            return connection.text(request, values)

        return self._client.ask(made, f"commit to scope {scope!r}", writes=True)

    def _make(self, scope: Scope) -> None:
        """Make the row of a scope, before its first commit."""
        request = self._client.sql(statements.NEW_SCOPE)
        self._client.ask(lambda at: at.text(request, {"scope": scope}), f"begin scope {scope!r}", writes=True)
