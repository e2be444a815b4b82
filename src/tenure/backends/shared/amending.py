"""`Session.amend` for a store whose commits can replace a bound record: read, then replace that version.

Promise: a record that is gone is never made anew, and a record of another session is never touched.
"""

from __future__ import annotations

from tenure.coordination.records import Key, Put, Scope, SessionId
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, SessionEnded, StoreUnavailable

_ATTEMPTS = 10
"""How often the record is read again while it changes. Only its owner amends it, so one attempt is the rule."""


def amend_by_commit(store: CoordinationStore, scope: Scope, key: Key, value: bytes, *, session: SessionId) -> None:
    """See `Session.amend`."""
    for _ in range(_ATTEMPTS):
        record = store.read(scope, key)
        if record is None or record.session != session:
            raise SessionEnded(session, why=f"its record {key!r} is gone")
        try:
            store.commit(scope, guards=(), writes=(Put(key, value, replaces=record.version, session=session),))
        except GuardFailed:
            continue
        return
    raise StoreUnavailable(f"record {key!r} of scope {scope!r} changes faster than it can be amended")
