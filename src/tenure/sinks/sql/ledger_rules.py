"""The ledger of batches in a database, and the decision that follows from the row of a query: pure.

Promise (I3): `claimed` lets a batch be written only on top of the batch before it, once, and never under a lower epoch
than the newest of its scope. Each scope counts its epochs from 1, so those of two scopes are not compared: a scope that
a query moves to goes on where its checkpoint is. A ledger without a row of the query knows nothing: any batch may come
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.errors import Fenced, QueryFailed
from tenure.sinks.sink import Batch

LEDGER: Final = "tenure_ledger"


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch of a query, under an epoch. `sent`: this writer may have sent the transaction of the batch before."""

    scope: str
    query: str
    query_id: str
    batch: int
    epoch: int
    sent: bool = False

    @classmethod
    def of(cls, batch: Batch, *, sent: bool) -> Claim:
        return cls(batch.scope, batch.query, batch.query_id, batch.id, batch.epoch, sent)


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The row of a query: the newest batch, and the scope and epoch that wrote last. `before`: the newest batch when
    that writer came."""

    scope: str
    query: str
    batch: int
    epoch: int
    before: int

    @classmethod
    def empty(cls, claim: Claim) -> LedgerRow:
        """The row of a query that has written nothing."""
        return cls(claim.scope, claim.query, -1, claim.epoch, -1)


@dataclass(frozen=True, slots=True)
class Claimed:
    """`row`: replaces the row of the query. `repeated`: the table had the batch before this writer came. `moves`: the
    rows of the batch are to be moved."""

    row: LedgerRow
    repeated: bool
    moves: bool


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows in a staging table. `accepted`: (partition, attempt) of each task that counts. `rows`: how many in all."""

    table: str
    accepted: Sequence[tuple[int, int]]
    rows: int


def claimed(row: LedgerRow, claim: Claim, *, where: str) -> Claimed:
    """What becomes of a claim, by the row that is locked for it.

    Raises Fenced: a higher epoch of this scope has written; QueryFailed: the ledger lacks batches before, or has the
    batch of another scope.
    """
    if row.scope != claim.scope:
        if row.batch >= claim.batch:
            raise QueryFailed(
                f"{where} has batch {claim.batch} of query {claim.query!r} from scope {row.scope!r}: two scopes have "
                "adopted one copy of a checkpoint",
                fix="copy the checkpoint for each scope: tenure export --batch gives each copy an id of its own",
            )
        return Claimed(_noted(claim, row), repeated=False, moves=True)
    if row.epoch > claim.epoch:
        raise Fenced(f"{where} has seen a higher epoch than {claim.epoch} of query {claim.query!r}")
    if claim.sent and (row.batch, row.epoch) == (claim.batch, claim.epoch):  # the reply was lost
        return Claimed(row, repeated=row.before >= claim.batch, moves=False)
    if 0 <= row.batch < claim.batch - 1:  # each batch is noted, also without rows
        raise QueryFailed(
            f"{where} has query {claim.query!r} up to batch {row.batch}, and batch {claim.batch} is next: the "
            "database was restored from an older copy",
            fix="restore the newer database, or begin anew with another --scope and an empty table",
        )
    had = row.batch >= claim.batch
    return Claimed(_noted(claim, row), repeated=had, moves=not had)


def _noted(claim: Claim, row: LedgerRow) -> LedgerRow:
    return LedgerRow(claim.scope, claim.query, max(row.batch, claim.batch), claim.epoch, row.batch)
