"""Which batch a ledger in a database takes: by the row of the query, and by what the writer has sent before."""

from __future__ import annotations

import pytest

from tenure.errors import Fenced, QueryFailed, TenureError
from tenure.sinks.sql.ledger_rules import Claim, Claimed, LedgerRow, claimed


def row(batch: int, epoch: int, *, scope: str = "flights", before: int | None = None) -> LedgerRow:
    return LedgerRow(scope, "hourly", batch, epoch, batch - 1 if before is None else before)


def claim(batch: int, epoch: int, *, sent: bool = False) -> Claim:
    return Claim("flights", "hourly", "q-1", batch, epoch, sent)


def taken(batch: int, epoch: int, *, before: int) -> Claimed:
    return Claimed(row(batch, epoch, before=before), repeated=False, moves=True)


def had(batch: int, epoch: int, *, before: int) -> Claimed:
    return Claimed(row(batch, epoch, before=before), repeated=True, moves=False)


@pytest.mark.parametrize(
    ("there", "asked", "answer"),
    [
        (LedgerRow.empty(claim(0, 1)), claim(0, 1), taken(0, 1, before=-1)),
        (LedgerRow.empty(claim(7, 3)), claim(7, 3), taken(7, 3, before=-1)),
        (row(4, 2), claim(5, 2), taken(5, 2, before=4)),
        (row(4, 2), claim(5, 3), taken(5, 3, before=4)),
        (row(4, 2), claim(4, 3), had(4, 3, before=4)),
        (row(4, 2), claim(4, 2), had(4, 2, before=4)),
        (row(4, 2), claim(3, 2), had(4, 2, before=4)),
        # The reply was lost: the row is the writer's own.
        (row(4, 2), claim(4, 2, sent=True), Claimed(row(4, 2), repeated=False, moves=False)),
        (row(4, 2, before=4), claim(4, 2, sent=True), Claimed(row(4, 2, before=4), repeated=True, moves=False)),
        # It was not, and the transaction was never committed.
        (row(3, 2), claim(4, 2, sent=True), taken(4, 2, before=3)),
        (row(4, 1), claim(4, 2, sent=True), had(4, 2, before=4)),
        # Each scope counts its epochs from 1.
        (row(4, 9, scope="earlier"), claim(5, 1), taken(5, 1, before=4)),
        (row(4, 1, scope="earlier"), claim(5, 9), taken(5, 9, before=4)),
        (row(4, 9, scope="earlier"), claim(8, 1), taken(8, 1, before=4)),  # plain Spark has run it in between
    ],
)
def test_a_batch_is_taken_once(there: LedgerRow, asked: Claim, answer: Claimed) -> None:
    assert claimed(there, asked, where="table t") == answer


@pytest.mark.parametrize(
    ("there", "asked", "error", "line"),
    [
        (row(4, 3), claim(5, 2), Fenced, "table t has seen a higher epoch than 2 of query 'hourly'"),
        (row(4, 3), claim(4, 2, sent=True), Fenced, "higher epoch"),
        (row(4, 2), claim(6, 2), QueryFailed, "up to batch 4, and batch 6 is next: the database was restored"),
        (row(4, 2), claim(6, 3, sent=True), QueryFailed, "restored"),
        (row(5, 1, scope="other"), claim(5, 1), QueryFailed, "has batch 5 of query 'hourly' from scope 'other'"),
        (row(5, 1, scope="other"), claim(5, 1, sent=True), QueryFailed, "two scopes have adopted one copy"),
        (row(6, 1, scope="other"), claim(5, 9), QueryFailed, "two scopes have adopted one copy"),
    ],
)
def test_a_batch_that_is_refused(there: LedgerRow, asked: Claim, error: type[TenureError], line: str) -> None:
    with pytest.raises(error, match=line):
        claimed(there, asked, where="table t")
