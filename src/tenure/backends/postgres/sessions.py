"""Sessions of the PostgreSQL store: a row that is renewed, and an advisory lock of its client's line.

Promise: an ended session never comes back: its row is gone, and a renewal updates that row. A session that was not
renewed for its ttl is over for its owner, too. A session ends only as it was judged: if it renews meanwhile, it lives.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenure.backends.postgres import statements
from tenure.backends.postgres.client import PostgresClient
from tenure.backends.postgres.connection import PostgresConnection
from tenure.backends.postgres.line import PostgresLine
from tenure.backends.postgres.liveness import FREE_LOCKS, HeldSession
from tenure.backends.postgres.rows import LARGEST_STEP, session_of, text_of
from tenure.backends.shared.renewals import SessionRow, Sightings, sightings_of
from tenure.clock import Clock
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import SessionId
from tenure.errors import OutcomeUnknown, SessionEnded, StoreUnavailable, UsageError

SHORTEST: Final = timedelta(seconds=1)
_SHARE: Final = 3
"""A renewal gets this part of the ttl for its answer."""
_ATTEMPTS: Final = 10
"""How often the end of a session that binds records in ever new scopes is tried."""


@dataclass(frozen=True, slots=True)
class _Own:
    """A session that this client has opened."""

    ttl_s: float
    renewals: int


class PostgresSessions:
    """The sessions that a client has opened, and those of others as it judges them. Thread-safe."""

    def __init__(self, client: PostgresClient, *, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._lock = threading.Lock()  # guards _own
        self._own: dict[SessionId, _Own] = {}

    # --- of this client -----------------------------------------------------------------------------------------

    def open(self, line: PostgresLine, *, ttl: timedelta, purpose: str) -> SessionId:
        """Open a session. Raises StoreUnavailable, OutcomeUnknown, UsageError."""
        if ttl < SHORTEST:
            raise UsageError(f"a ttl of {ttl.total_seconds():g} s is too short for PostgreSQL", fix="give 1 s or more")
        session, sent_s = SessionId(new_uid()), self._clock.monotonic_s()
        given = {
            "id": session,
            "lock": lock_of(session),
            "purpose": purpose,
            "ttl_us": ttl // timedelta(microseconds=1),
        }
        request = self._client.sql(statements.OPEN)
        line.ask(lambda at: at.text(request, {**given, "home": at.incarnation.home}), "open a session")
        with self._lock:
            self._own[session] = _Own(ttl.total_seconds(), 0)
        self._sightings().note(session, 0, at_s=sent_s)
        return session

    def renew(self, line: PostgresLine, session: SessionId) -> None:
        """Count one more renewal. Raises SessionEnded, StoreUnavailable, OutcomeUnknown."""
        sent_s = self._clock.monotonic_s()
        with self._lock:
            own = self._own.get(session)
        if own is None:
            raise SessionEnded(session)
        row = SessionRow(session, own.ttl_s, own.renewals)
        if self._sightings().overdue([row], asked_at_s=sent_s, answered_at_s=sent_s):
            self.end_one(session)
            self.unlock(line, session)
            raise SessionEnded(session)
        request = self._client.sql(statements.RENEW)
        within_s = min(self._client.request_s, own.ttl_s / _SHARE)
        reply = line.ask(lambda at: at.text(request, {"id": session}), "renew a session", within_s=within_s)
        if not reply.rows[1]:
            self.unlock(line, session)
            raise SessionEnded(session)
        renewals = int(text_of(reply.rows[1][0][0]))
        with self._lock:
            if session in self._own:
                self._own[session] = _Own(own.ttl_s, renewals)
        self._sightings().note(session, renewals, at_s=sent_s)

    def locks(self, connection: PostgresConnection) -> Iterable[str]:
        """The requests that take the locks of these sessions on a new line."""
        with self._lock:
            own = list(self._own)
        request, home = self._client.sql(statements.LOCK_AGAIN), connection.incarnation.home
        return [connection.text(request, {"id": one, "lock": lock_of(one), "home": home}) for one in own]

    def unlock(self, line: PostgresLine, session: SessionId) -> None:
        """Free the lock of a session that has ended, if this client has opened it."""
        with self._lock:
            if self._own.pop(session, None) is None:
                return
        request = self._client.sql(statements.UNLOCK)
        with suppress(StoreUnavailable, OutcomeUnknown):  # the lock goes with the line, and harms nobody
            line.ask(lambda at: at.text(request, {"lock": lock_of(session)}), "free a lock")

    # --- of everybody -------------------------------------------------------------------------------------------

    def end_one(self, session: SessionId) -> None:
        """End a session, as often as it has renewed. Raises StoreUnavailable, OutcomeUnknown."""
        for _ in range(_ATTEMPTS):
            if self.end({session: None}):
                return
        raise StoreUnavailable(f"session {session} binds records faster than it can be ended", fix="try again")

    def end(self, judged: Mapping[SessionId, int | None]) -> bool:
        """End sessions that have not renewed more often than they were judged (None: any). Return whether each has
        ended, or has renewed. Raises StoreUnavailable, OutcomeUnknown."""
        values = {
            "ids": [str(one) for one in judged],
            "renewals": list(judged.values()),
            "step": 1 + secrets.randbelow(LARGEST_STEP),
            "channel": self._client.place.channel,
        }
        request = self._client.sql(statements.END)
        reply = self._client.ask(lambda at: at.text(request, values), "end sessions", writes=True)
        there = {SessionId(text_of(one)): int(text_of(renewals)) for one, renewals in reply.rows[2]}
        over = {SessionId(one) for one in text_of(reply.rows[3][0][0]).split(",") if one}
        renewed = {one for one, count in there.items() if judged[one] not in (None, count)}
        FREE_LOCKS.forget(over | (judged.keys() - there.keys()))
        return not there.keys() - over - renewed

    def end_dead(self, dead: Sequence[HeldSession]) -> None:
        """End the sessions that are over. Raises StoreUnavailable: who only looks has written nothing of its own, and
        an end can be done twice."""
        if dead:
            try:
                self.end({row.id: row.renewals for row in dead})
            except OutcomeUnknown as unknown:
                raise StoreUnavailable(str(unknown)) from unknown

    def dead(self, rows: Sequence[HeldSession], *, home: str, asked_at_s: float) -> list[HeldSession]:
        """Those of the rows whose sessions are over. `home`: the life of the server that answered."""
        now_s = self._clock.monotonic_s()
        overdue = self._sightings().overdue(rows, asked_at_s=asked_at_s, answered_at_s=now_s)
        with self._lock:
            foreign = [row for row in rows if row.id not in self._own]
        free = FREE_LOCKS.dead(foreign, home=home, asked_at_s=asked_at_s, answered_at_s=now_s)
        return overdue + [row for row in free if row not in overdue]

    def end_all_dead(self) -> None:
        """Judge all sessions of the store. Raises StoreUnavailable."""
        request, asked_at_s = self._client.sql(statements.SESSIONS), self._clock.monotonic_s()
        reply = self._client.ask(lambda at: request, "read the sessions", writes=False)
        found = [session_of(row) for row in reply.rows[1]]
        self._sightings().keep(found)
        self.end_dead(self.dead(found, home=reply.incarnation.home, asked_at_s=asked_at_s))

    def _sightings(self) -> Sightings:
        return sightings_of(self._client.place.identity, self._clock)


def lock_of(session: SessionId) -> int:
    """The number of a session's advisory lock."""
    return int(session[:15], 16)
