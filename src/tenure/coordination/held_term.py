"""A term for as long as a block lasts: for services, notebooks, and verbs that write under a term.

Promise: the block is entered under a term, and leaving the block gives up the term. A forked child that leaves the
block gives up nothing: the term is its parent's. Not promised: that the block stops when the term is lost: its writes
are refused.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Final

from tenure.clock import Clock
from tenure.coordination.candidates import MEMBERS, PAUSED, Identity, State, decode_candidate
from tenure.coordination.election import Election, after
from tenure.coordination.encoding import decode
from tenure.coordination.joining import join_after_itself
from tenure.coordination.records import Record, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import LEADER, Term
from tenure.errors import CorruptRecord, StoreError, TermLost

_LOG: Final = logging.getLogger("tenure")
"""For people: a program that sets up no logging shows the warnings on stderr."""


@contextmanager
def held(
    store: CoordinationStore, scope: Scope, who: Identity, *, ttl: timedelta, timeout: timedelta | None, clock: Clock
) -> Iterator[Term]:
    """Contend as `who`, and hold the term. `timeout` None: wait for ever. A former session of `who` is waited for.

    Raises TimeoutError (it says who leads, or that a session of this name still stands), UsageError (a live member has
    that name), StoreUnavailable, OutcomeUnknown, SessionEnded (this process was paused while it waited), OwnerMismatch
    (the store was emptied, restored or replaced while this process waited).
    """
    election, pid = Election(store, scope, member=who.member, clock=clock, in_process=True), os.getpid()
    with SessionKeeper(store, ttl=ttl, clock=clock, purpose=who.purpose(scope)) as keeper:
        until, seen = after(timeout, clock=clock), list[Record]()

        def look(records: Sequence[Record]) -> None:
            seen[:] = records

        if not join_after_itself(election, keeper, who, state=State.READY, stop=until, clock=clock):
            raise TimeoutError(_why_not_joined(store, scope, who.member))
        term = election.campaign(keeper, stop=until, on_look=look)
        if term is None:
            raise TimeoutError(_why_not_elected(scope, seen or _records(store, scope)))
        with election.attending(term):
            try:
                yield term
            finally:
                if pid == os.getpid():
                    _give_up(election, term)


def _give_up(election: Election, term: Term) -> None:
    try:
        election.resign(term)
    except TermLost:
        pass  # it is over already
    except StoreError as failed:
        _LOG.warning(
            "term %d of scope %r is not given up, it ends with the session: %s", term.epoch, term.scope, failed
        )


def _why_not_joined(store: CoordinationStore, scope: Scope, member: str) -> str:
    known = f"a session of member {member!r} of scope {scope!r} still stands"
    with suppress(StoreError, CorruptRecord):
        record = store.read(scope, MEMBERS.child(member))
        if record is not None:
            other = decode_candidate(record)
            known += f", of process {other.pid} on {other.host} since {other.since}"
    return f"{known}: that process lives, or has died within the last ttl"


def _records(store: CoordinationStore, scope: Scope) -> Sequence[Record]:
    """The records now, where no time was left for a look; none where the store does not answer."""
    with suppress(StoreError):
        return store.list(scope).records
    return ()


def _why_not_elected(scope: Scope, records: Sequence[Record]) -> str:
    leader = next((record for record in records if record.key == LEADER), None)
    if leader is not None:
        with suppress(CorruptRecord):
            found = decode(leader, fields={"member": str, "epoch": int})
            return f"{found['member']} leads scope {scope!r}, epoch {found['epoch']}"
        return f"somebody else leads scope {scope!r}"
    if any(record.key == PAUSED for record in records):
        return f"scope {scope!r} is paused, so nobody is elected; tenure resume ends that"
    return f"nobody leads scope {scope!r}, and this member was not elected in time"
