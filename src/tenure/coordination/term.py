"""One leadership, numbered by its epoch, and the one way to write under it.

Promise (I5): a write under a term is committed only while the leader and epoch records are exactly those that
were written at its grant; the store checks that inside its own transaction. A term that is over is an
exception, never a return value. A term is data: another process can present it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class Term:
    """A grant. `leader` and `epoch_record` name the two records as they were written at it."""

    scope: Scope
    epoch: int
    holder: str
    """The member that holds it."""
    leader: Version
    epoch_record: Version
    liveness: Liveness = field(compare=False, repr=False)
    """Until when the holder may believe in it; local to a process, not part of the data."""

    def guards(self) -> tuple[Exact, Exact]:
        """What every commit under this term presents."""
        return (Exact(LEADER, self.leader), Exact(EPOCH, self.epoch_record))

    @property
    def lost(self) -> bool:
        """Whether the term is known to be over, at the latest at the local deadline. False proves nothing."""
        return self.liveness.over

    def to_json(self) -> str:
        """The term as data, for the process that presents it."""
        return json.dumps(
            {
                "scope": self.scope,
                "epoch": self.epoch,
                "holder": self.holder,
                "leader": self.leader,
                "epoch_record": self.epoch_record,
            }
        )

    @staticmethod
    def from_json(text: str, *, liveness: Liveness) -> Term:
        """The term that `to_json` wrote, believed in until `liveness` is over. Raises UsageError."""
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
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"a term does not decode: {error!r}") from error


def commit_under(
    store: CoordinationStore, term: Term, *, writes: Sequence[Write], guards: Sequence[Guard] = (), clock: Clock
) -> Commit:
    """Commit under the term: its guards first, then `guards`. While the term lives the outcome is definite:
    an unavailable store is waited for and an unknown outcome is settled, until the local deadline.

    Whatever the local clock says of the term, the commit is sent: the store decides.
    Raises TermLost; GuardFailed when one of `guards` or a write's own precondition does not hold;
    StoreUnavailable when the store refuses service for long while the term lives: nothing was written.
    """
    fence = term.guards()
    try:
        return commit_settled(
            store,
            term.scope,
            guards=(*fence, *guards),
            writes=writes,
            go_on=lambda: not term.lost,
            clock=clock,
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
    """Ask the store whether the term stands now. Raises TermLost; StoreUnavailable while it cannot be known."""
    commit_under(store, term, writes=(), clock=clock)
