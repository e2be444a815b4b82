"""The ledger of the sink for Kafka: how it is made and read, also beside other queries, and ledgers that may forget,
have forgotten, or lack batches."""

from __future__ import annotations

from itertools import count

import pytest

from tenure.errors import QueryFailed, StorageError
from tenure.sinks.kafka.ledger_rules import LedgerEntry
from tests.kafka.sink_place import BEFORE_COMMIT, ONCE, SOON, Paused, Place, read, stopping
from tests.kit.servers import KafkaServer

FAST = {"topic.metadata.propagation.max.ms": 500}
"""For topics that are not there."""
_numbers = count()


@pytest.fixture
def place(kafka: KafkaServer) -> Place:
    return Place(kafka, f"ledgers-{next(_numbers)}")


def test_the_ledger_is_made_to_be_compacted(place: Place) -> None:
    place.write(place.writer(1), 0)
    cluster = place.writer(1)._cluster
    assert (cluster.replicas(place.ledger), cluster._policy(place.ledger)) == (1, "compact")
    (newest,) = read(place.servers, place.ledger)[-1:]
    entry = LedgerEntry.decode(newest.value() or b"", where="here")
    assert (newest.key(), entry.batch, entry.epoch, entry.scope) == (place.id_of().encode(), 0, 1, place.scope)


def test_a_ledger_with_records_of_others_at_its_end_is_read(place: Place) -> None:
    place.write(place.writer(1), 0)
    place.note(*(f"other-{number % 7}" for number in range(600)))
    empty = place.writer(1, query="other")
    for number in range(10):
        empty.write(place.batch(number, epoch=1, query="other"), list)
    assert place.write(place.writer(2), 0) is True
    assert place.write(place.writer(1, query="third"), 0, query="third") is False
    assert place.committed() == sorted(place.of(0) * 2)


def test_an_open_transaction_of_another_query_hides_no_record(place: Place) -> None:
    """A reader of committed records sees nothing behind it."""
    leader, other = place.writer(1), place.writer(1, query="other")
    for query, writer in (("hourly", leader), ("other", other)):
        place.write(writer, 0, query=query)
    paused = Paused(lambda: place.write(other, 1, query="other"), stopping(other, BEFORE_COMMIT))
    assert place.write(leader, 1) is False
    with pytest.raises(StorageError, match="a transaction of another producer is open there"):
        place.write(place.writer(2, patience=ONCE), 1)
    assert paused.go_on() is False
    assert place.write(place.writer(2), 1) is True
    assert place.committed() == sorted(place.of(0, 1) * 2)


def test_a_ledger_that_may_forget_is_refused(place: Place) -> None:
    place.kafka.make_topic(place.ledger, cleanup_policy="delete")
    with pytest.raises(QueryFailed, match=r"has cleanup\.policy=delete: a ledger must not forget"):
        place.write(place.writer(1), 0)
    assert place.uncommitted() == 0


def test_a_ledger_that_was_removed_is_noticed(place: Place) -> None:
    writer = place.writer(1, settings=FAST, patience=SOON)
    place.write(writer, 0)
    place.kafka.remove_topic(place.ledger)
    with pytest.raises(QueryFailed, match="has forgotten batch 0 of query 'hourly'"):
        place.write(writer, 1)
    assert place.committed() == place.of(0)


def test_a_record_that_an_operator_has_removed_is_forgotten(place: Place) -> None:
    place.write(place.writer(9), 0)
    place.note(place.id_of(), value=None)
    assert place.write(place.writer(1), 1) is False
    assert place.committed() == place.of(0, 1)


def test_a_topic_that_was_restored_from_an_older_copy_is_refused(place: Place) -> None:
    writer = place.writer(1)
    for number in range(2):
        place.write(writer, number)
    with pytest.raises(QueryFailed, match="up to batch 1, and batch 3 is next: the topic was restored"):
        place.write(place.writer(1), 3)
    assert place.committed() == place.of(0, 1)
