"""How the PostgreSQL store follows scopes: an announcement (NOTIFY) has a new revision, and the next reader lists.

Promise: a client that does not look lists nothing. The line's look once a second shows the revision, too: a change
whose announcement got lost shows by it, and so does a dead session. If two looks in a row show a change that was not
announced, the line does not hear, and is opened again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from tenure.backends.postgres import statements
from tenure.backends.postgres.client import PostgresClient
from tenure.backends.postgres.connection import PostgresConnection, Rows
from tenure.backends.postgres.line import PostgresLine
from tenure.backends.postgres.rows import parsed, session_of, text_of
from tenure.backends.postgres.sessions import PostgresSessions
from tenure.backends.shared.following import Followed, Following
from tenure.clock import Clock
from tenure.coordination.records import Listing, Scope
from tenure.errors import AccessDenied

Ask = Callable[[Scope], Listing]


class PostgresFollowed(Followed):
    """One scope that a `PostgresStore` follows."""

    def __init__(self, scope: Scope, line: PostgresLine, ask: Ask, *, clock: Clock) -> None:
        """`ask`: the whole scope now; raises StoreUnavailable."""
        super().__init__(scope, clock=clock)
        self._line = line
        self._ask = ask
        self._turn = threading.Lock()  # held while the picture is made
        self._news = threading.Lock()  # guards the four below
        self._at = 0  # the opening of the line that the picture belongs to; 0: none
        self._announced = 0  # the newest that was announced since, or that the picture began with
        self._shown = 0  # the newest that was heard or seen: the picture is made anew where it differs
        self._unheard = 0  # what the last look showed, and was not announced

    def heard(self, revision: int) -> None:
        """The scope has this revision, as was announced."""
        with self._news:
            self._announced = max(self._announced, revision)
            self._shown = revision
        self.wake()

    def looked(self, revision: int) -> bool:
        """The scope has this revision, as a look shows. Return whether the line hears."""
        with self._news:
            is_new = revision != self._whole.revision
            is_late = revision > self._announced and self._at == self._line.number
            hears = not (is_late and revision == self._unheard)
            self._unheard = revision if is_late else 0
            if is_new:
                self._shown = revision
        if is_new:
            self.wake()
        else:
            self._compared(agrees=True)
        return hears

    def _catch_up(self) -> None:
        with self._turn:
            at = self._line.standing()
            if self._at != at:
                self._take_all()
                with self._news:
                    self._announced, self._unheard, self._at = self._whole.revision, 0, at
                self._compared(agrees=True)
            elif self._shown != self._whole.revision:
                self._take_all()

    def _list(self) -> Listing:
        return self._ask(self.scope)

    def _look(self) -> None:
        with self._turn:
            self._take_all()

    def _leave(self) -> None:
        self._line.leave()

    def _take_all(self) -> None:
        known, shown = self._whole.revision, self._shown
        found = self._ask(self.scope)
        with self._news:
            if self._shown == shown:  # else a later change was heard meanwhile
                self._shown = found.revision
        records = {record.key: record for record in found.records}
        changed = found.revision if found.revision != known else None
        # A failover that lost commits goes back: the revisions begin anew.
        self._take(records, found.revision, changed=changed, anew=found.revision < known)


class PostgresFollowing(Following[PostgresFollowed]):
    """All followed scopes of a `PostgresStore`, and its line."""

    def __init__(self, client: PostgresClient, sessions: PostgresSessions, ask: Ask, *, clock: Clock) -> None:
        self.line = PostgresLine(client, self, clock=clock)
        super().__init__(lambda scope: PostgresFollowed(scope, self.line, ask, clock=clock))
        self._client = client
        self._sessions = sessions

    def locks(self, connection: PostgresConnection) -> Iterable[str]:
        """See `LineOwner.locks`."""
        return self._sessions.locks(connection)

    def heard(self, payload: str) -> None:
        """See `LineOwner.heard`."""
        news = parsed(payload)
        followed = None if news is None else self.known(news[0])
        if news is not None and followed is not None:
            followed.heard(news[1])

    def look(self, connection: PostgresConnection) -> str | None:
        """See `LineOwner.look`."""
        scopes = [str(followed.scope) for followed in self.all()]
        return connection.text(self._client.sql(statements.LOOK), {"scopes": scopes}) if scopes else None

    def looked(self, rows: list[Rows], connection: PostgresConnection, *, asked_at_s: float) -> bool:
        """See `LineOwner.looked`."""
        (((pid,),), revisions, sessions) = rows
        if int(text_of(pid)) != connection.server_pid:
            raise AccessDenied(
                f"PostgreSQL at {connection.shown} is a pooler that gives each transaction another connection",
                fix="name the server itself, or a pool in session mode",
            )
        hears = True
        for name, revision in revisions:
            followed = self.known(text_of(name))
            if followed is not None:
                hears = followed.looked(int(text_of(revision))) and hears
        home = connection.incarnation.home
        self._sessions.end_dead(self._sessions.dead(list(map(session_of, sessions)), home=home, asked_at_s=asked_at_s))
        return hears

    def broke(self) -> None:
        """See `LineOwner.broke`."""
        self.wake()
