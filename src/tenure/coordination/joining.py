"""How a member announces itself where its own former session may still stand. Written once, for services and agents.

Promise: a member that was killed and is started again joins as soon as its former session has ended, also of a longer
ttl. A name that is still taken after the time in which any former session ends belongs to a living member, and is
refused. A process that has joined before waits for its own former session without a limit: after an outage a store may
begin to count its time anew, more than once.
"""

from __future__ import annotations

from typing import Final

from tenure.clock import Clock
from tenure.coordination.candidates import Identity, State
from tenure.coordination.election import Election, Flag
from tenure.coordination.session import SessionKeeper
from tenure.errors import CorruptRecord, GuardFailed, UsageError

_FORMER: Final = 2
"""In how many ttls a former session has ended, wherever the store counts them from."""

_AGAIN_S: Final = 0.2


def join_after_itself(
    election: Election, keeper: SessionKeeper, who: Identity, *, state: State, stop: Flag, clock: Clock
) -> bool:
    """Announce the member; False: `stop` was set first, and the name was taken until then. One try is made in any case.

    Raises UsageError: a living member has this name; SessionEnded, StoreUnavailable, OutcomeUnknown.
    """
    began_s, joined_before = clock.monotonic_s(), bool(election.joined)
    while True:
        try:
            election.join(
                keeper, host=who.host, pid=who.pid, state=state, priority=who.priority, nofailover=who.nofailover
            )
        except GuardFailed as taken:
            if stop.is_set():
                return False
            waited_s = clock.monotonic_s() - began_s
            if waited_s > _FORMER * keeper.ttl.total_seconds() and _lives(
                election, who, waited_s=waited_s, joined_before=joined_before
            ):
                raise UsageError(
                    f"a live member of scope {taken.scope!r} is named {who.member!r}",
                    fix="start this one with another member name",
                ) from taken
            clock.sleep(_AGAIN_S)
        else:
            return True


def _lives(election: Election, who: Identity, *, waited_s: float, joined_before: bool) -> bool:
    """Whether another member has the name, and lives."""
    try:
        other = election.named(who.member)
    except CorruptRecord:  # of another version: it does not tell its ttl
        return True
    if other is None or (joined_before and (other.host, other.pid) == (who.host, who.pid)):
        return False
    return waited_s > _FORMER * (other.ttl_s or 0.0)
