"""The decisions of a writer from the newest record of its ledger: a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.errors import Fenced, QueryFailed
from tenure.sinks.kafka.ledger_rules import LedgerEntry, claimed, had_before, refuse_older
from tenure.sinks.sink import Batch

BATCH = Batch("s", "q", "q-1", 7, 3)
NEWEST = LedgerEntry("s", "q", 6, 3, "other")


@pytest.mark.parametrize(
    ("newest", "had"),
    [
        (None, None),
        (NEWEST, None),
        (replace(NEWEST, epoch=2), None),
        (replace(NEWEST, batch=-1), None),
        (replace(NEWEST, batch=7), True),
        (replace(NEWEST, batch=9), True),
        (replace(NEWEST, batch=7, epoch=1), True),
        (replace(NEWEST, batch=7, attempt="ours"), False),
        (replace(NEWEST, scope="before"), None),
        (replace(NEWEST, scope="before", epoch=99), None),
        (replace(NEWEST, scope="before", batch=3), None),  # plain Spark has sent the batches between
    ],
)
def test_a_batch_is_written_on_top_of_the_batch_before(newest: LedgerEntry | None, had: bool | None) -> None:
    assert had_before(newest, BATCH, attempt="ours", where="the ledger") is had


@pytest.mark.parametrize(
    ("newest", "error", "line"),
    [
        (replace(NEWEST, epoch=4), Fenced, "the ledger has seen a higher epoch than 3 of query 'q'"),
        (replace(NEWEST, epoch=4, batch=7), Fenced, "has seen a higher epoch"),
        (replace(NEWEST, epoch=4, batch=7, attempt="ours"), Fenced, "has seen a higher epoch"),
        (replace(NEWEST, batch=5), QueryFailed, "up to batch 5, and batch 7 is next: the topic was restored"),
        (replace(NEWEST, scope="t", batch=7), QueryFailed, "from scope 't': two scopes have adopted one copy"),
        (replace(NEWEST, scope="t", batch=7, epoch=9), QueryFailed, "two scopes have adopted"),
    ],
)
def test_other_batches_are_refused(newest: LedgerEntry, error: type[Exception], line: str) -> None:
    with pytest.raises(error, match=line):
        had_before(newest, BATCH, attempt="ours", where="the ledger")


def test_each_leader_claims_the_ledger_once() -> None:
    first = claimed(None, BATCH)
    assert first == LedgerEntry("s", "q", -1, 3, "")
    assert claimed(first, BATCH) is None
    next_term = replace(BATCH, epoch=4)
    assert claimed(NEWEST, next_term) == replace(NEWEST, epoch=4)
    assert claimed(NEWEST, BATCH) is None
    assert claimed(replace(NEWEST, scope="before", epoch=99), BATCH) == replace(NEWEST, attempt="")
    assert claimed(replace(NEWEST, scope="before", batch=3), BATCH) == replace(NEWEST, attempt="")


@pytest.mark.parametrize("newest", [None, replace(NEWEST, batch=5)])
def test_a_ledger_that_has_forgotten_is_refused(newest: LedgerEntry | None) -> None:
    with pytest.raises(QueryFailed, match="the ledger has forgotten batch 6 of query 'q'"):
        refuse_older(newest, NEWEST, where="the ledger")


@pytest.mark.parametrize("known", [None, NEWEST, replace(NEWEST, batch=5)])
def test_a_ledger_that_knows_as_much_is_taken(known: LedgerEntry | None) -> None:
    refuse_older(NEWEST, known, where="the ledger")


def test_a_record_is_read_as_it_was_written() -> None:
    assert LedgerEntry.decode(NEWEST.encode(), where="the ledger") == NEWEST


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        NEWEST.encode().replace(b'"format": 1', b'"format": 2'),
        NEWEST.encode().replace(b'"batch": 6', b'"batch": "6"'),
        NEWEST.encode().replace(b'"scope"', b'"range"'),
    ],
)
def test_another_record_is_refused(value: bytes) -> None:
    with pytest.raises(QueryFailed, match="the ledger has a record that cannot be read"):
        LedgerEntry.decode(value, where="the ledger")
