"""The outcome of a request to PostgreSQL that did not succeed.

Promise: one table, by the SQLSTATE of the answer. A request that the server refused was rolled back. A request without
an answer may have been committed. A commit whose wait for the synchronous standby was cancelled is as one without an
answer: PostgreSQL reports a success, and a failover may lose the commit.
"""

from __future__ import annotations

from typing import Final

from tenure.coordination.store_url import SET_A_PASSWORD
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable

AGAIN: Final = frozenset({"40001", "40P01", "55P03"})
"""Serialization failure, deadlock, lock not available: nothing was written, and the next try may succeed."""

NO_STORE: Final = frozenset({"3F000", "42P01"})
"""There is no schema, or no table, of this name."""

_FIXES: Final = {
    "25006": "name the primary too, or let the store have the rights to write",
    "53100": "free some space: the disk of the database is full",
    "53300": "raise max_connections: a member takes two connections, and one more while it leads",
    "54000": "look for a client that listens and never reads (pg_notification_queue_usage)",
    "57014": "try again",
}
_DENIED: Final = {
    "28000": "check the user and pg_hba.conf",
    "28P01": f"check the user and its password; {SET_A_PASSWORD}, or PGPASSWORD",
    "42501": "grant this user the rights that docs/stores.md names",
}
_WORDS: Final = {
    "password authentication failed": "28P01",
    "no password supplied": "28P01",
    "no pg_hba.conf entry": "28000",
    "too many clients": "53300",
    "remaining connection slots": "53300",
}
"""Words of a server that refuses a connection: libpq gives no SQLSTATE for that."""


class SqlRefused(Exception):
    """The server answered with an error, and rolled the request back. `words`: the server's own."""

    def __init__(self, state: str, words: str) -> None:
        super().__init__(f"{words} ({state})" if state else words)
        self.state = state


class NoReply(Exception):
    """The request was sent, and no answer came."""


class Unreplicated(Exception):
    """The server says that a commit is done, and that its synchronous standby may lack it."""


Failure = SqlRefused | NoReply | Unreplicated


def state_of(words: str) -> str:
    """The SQLSTATE of a refused connection, by its words; empty: unknown."""
    return next((state for said, state in _WORDS.items() if said in words), "")


def unavailable(error: Failure, what: str, where: str) -> StoreUnavailable:
    """For a request of which nothing was written. `what`: the request; `where`: the database."""
    state = error.state if isinstance(error, SqlRefused) else ""
    if state in _DENIED:
        return AccessDenied(f"PostgreSQL at {where} did not {what}: {error}", fix=_DENIED[state])
    return StoreUnavailable(f"PostgreSQL at {where} did not {what}: {error}", fix=_FIXES.get(state))


def outcome(error: Failure, what: str, where: str) -> StoreUnavailable | OutcomeUnknown:
    """For a request that would change something, was sent, and failed."""
    if isinstance(error, SqlRefused):
        return unavailable(error, what, where)
    if isinstance(error, Unreplicated):
        said = f"PostgreSQL at {where} did {what}, and its synchronous standby may lack that: {error}"
        return OutcomeUnknown(said, fix="do not cancel the wait: mend the standby, or change synchronous_standby_names")
    return OutcomeUnknown(f"PostgreSQL at {where} did not say whether it did {what}: {error}")
