"""A term: one leadership, numbered by its epoch, and the only way to write under it.

Promise (I5): a write under a term is committed only while the leader and epoch records are exactly those that the grant
wrote; the store checks that inside its own transaction. A term that is over is an exception, never a return value. A
term is data: another process can present it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tenure.clock import Clock
from tenure.coordination.records import Commit, Exact, Guard, Key, Scope, Version, Write
from tenure.coordination.session import Liveness
from tenure.coordination.settle import commit_settled
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable, TermLost, UsageError

LEADER = Key("leader")
"""The session-bound record of who leads."""

EPOCH = Key("epoch")
"""The permanent record of the newest epoch, and of the terms before it."""

_DATA: Final = ("scope", "epoch", "holder", "leader", "epoch_record")
"""The fields that another process gets."""


@dataclass(frozen=True, slots=True)
class Term:
    """A grant. `leader` and `epoch_record`: the versions of the two records that it wrote."""

    scope: Scope
    epoch: int
    holder: str
    """The member that holds it."""
    leader: Version
    epoch_record: Version
    liveness: Liveness = field(compare=False, repr=False)
    """Until when the holder may believe in it; local to a process, not part of the data."""

    def guards(self) -> tuple[Exact, Exact]:
        """The guards of every commit under this term."""
        return (Exact(LEADER, self.leader), Exact(EPOCH, self.epoch_record))

    @property
    def lost(self) -> bool:
        """Whether the term is known to be over, at the latest at the local deadline. False proves nothing."""
        return self.liveness.over

    def to_json(self) -> str:
        """The term as data, for the process that presents it."""
        return json.dumps({name: getattr(self, name) for name in _DATA})

    @staticmethod
    def from_json(text: str, *, liveness: Liveness) -> Term:
        """The term that `to_json` wrote, with the liveness of this process. Raises UsageError."""
        try:
            found = json.loads(text)
            return Term(
                scope=Scope(found["scope"]),
                epoch=int(found["epoch"]),
                holder=str(found["holder"]),
                leader=Version(found["leader"]),
                epoch_record=Version(found["epoch_record"]),
                liveness=liveness,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"a term does not decode: {error!r}") from error


def commit_under(
    store: CoordinationStore, term: Term, *, writes: Sequence[Write], guards: Sequence[Guard] = (), clock: Clock
) -> Commit:
    """Commit under the term: its guards first, then `guards`. The outcome is definite while the term lives: the call
    waits for an unavailable store, and settles an unknown outcome, until the local deadline. The commit is sent also
    after the local deadline: the store decides.

    Raises TermLost; GuardFailed: a guard of `guards` or a write's own precondition does not hold; StoreUnavailable: the
    store refuses service for long while the term lives, and nothing was written.
    """
    fence = term.guards()
    try:
        return commit_settled(
            store, term.scope, guards=(*fence, *guards), writes=writes, go_on=lambda: not term.lost, clock=clock
        )
    except GuardFailed as refused:
        if refused.guard not in fence:
            raise
        term.liveness.end("a write was refused: another term began, or the session ended")
        raise TermLost(
            scope=term.scope, epoch=term.epoch, write_is_unknown=refused.earlier_request_may_apply
        ) from refused
    except SessionEnded as ended:
        term.liveness.end(str(ended))
        raise TermLost(scope=term.scope, epoch=term.epoch, write_is_unknown=False) from ended
    except OutcomeUnknown as unknown:
        term.liveness.end("the outcome of a write was never learnt")
        raise TermLost(scope=term.scope, epoch=term.epoch, write_is_unknown=True) from unknown
    except StoreUnavailable as failed:
        if not term.lost:
            raise
        raise TermLost(scope=term.scope, epoch=term.epoch) from failed


def check_term(store: CoordinationStore, term: Term, *, clock: Clock) -> None:
    """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable: the store does not answer."""
    commit_under(store, term, writes=(), clock=clock)
