"""Writers to Kafka that were paused: at every step another writer does the batch meanwhile. Each batch is there once,
the living leader goes on, and a leader that another has followed writes nothing more."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tenure.errors import Fenced, QueryFailed
from tenure.sinks.kafka.records import Record
from tests.kafka import sink_process
from tests.kafka.sink_place import (
    AFTER_COMMIT,
    AFTER_LOOKING,
    BEFORE_COMMIT,
    BEFORE_LOOKING,
    Paused,
    Place,
    stopping,
)
from tests.kit.process import GroupProcess, is_stopped
from tests.kit.servers import KafkaServer
from tests.kit.waiting import wait_until

OPEN = {"before the commit": BEFORE_COMMIT, "after the commit": AFTER_COMMIT}
"""Where a leader can be paused in its second batch."""
FRESH = {
    "before the look-up": BEFORE_LOOKING,
    "after the look-up": AFTER_LOOKING,
    "before its claim": BEFORE_COMMIT,
    "after its claim": AFTER_COMMIT,
}
"""Where it can be paused in its first batch."""


_numbers = count()


@pytest.fixture
def place(kafka: KafkaServer) -> Place:
    return Place(kafka, f"zombies-{next(_numbers)}")


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("point", OPEN)
def test_a_leader_that_was_paused_in_a_batch_is_fenced(place: Place, point: str, ahead: int) -> None:
    zombie, successor = place.writer(1), place.writer(2)
    assert place.write(zombie, 0) is False
    paused = Paused(lambda: place.write(zombie, 1), stopping(zombie, OPEN[point]))
    had = OPEN[point] == AFTER_COMMIT
    assert place.write(successor, 1) is had
    for number in range(2, 2 + ahead):
        assert place.write(successor, number) is False
    if had:
        assert paused.go_on() is False
    else:
        with pytest.raises(Fenced, match="has seen a higher epoch than 1 of query 'hourly'"):
            paused.go_on()
    with pytest.raises(Fenced):
        place.write(zombie, 2 + ahead)
    assert place.write(successor, 2 + ahead) is False, "the leader goes on"
    assert place.write(successor, 3 + ahead) is False
    assert place.committed() == place.of(*range(4 + ahead))


@pytest.mark.parametrize("point", FRESH)
def test_a_leader_that_was_paused_while_it_opened_is_fenced(place: Place, point: str) -> None:
    assert place.write(place.writer(1), 0) is False
    zombie, successor = place.writer(2), place.writer(3)
    paused = Paused(lambda: place.write(zombie, 1), stopping(zombie, FRESH[point]))
    assert place.write(successor, 1) is False
    with pytest.raises(Fenced, match="has seen a higher epoch than 2"):
        paused.go_on()
    assert place.write(successor, 2) is False
    assert place.committed() == place.of(0, 1, 2)


@pytest.mark.parametrize("point", [*OPEN, "before the look-up", "after the look-up"])
def test_a_writer_of_the_same_epoch_that_was_paused_finds_the_batch(place: Place, point: str) -> None:
    """A query that starts again in its term, while its former thread hangs."""
    first, second = place.writer(1), place.writer(1)
    assert place.write(first if point in OPEN else place.writer(1), 0) is False
    paused = Paused(lambda: place.write(first, 1), stopping(first, {**OPEN, **FRESH}[point]))
    had = OPEN.get(point) == AFTER_COMMIT
    assert place.write(second, 1) is had
    assert paused.go_on() is not had
    assert place.write(second, 2) is False
    assert place.committed() == place.of(0, 1, 2)


def test_a_zombie_that_opens_after_its_successor_stops_nobody(place: Place) -> None:
    """Its opening fences the leader; both go on: one with its next batch, one with the end of its term."""
    successor = place.writer(2)
    assert place.write(successor, 0) is False
    for number in range(1, 4):
        with pytest.raises(Fenced, match="has seen a higher epoch than 1"):
            place.write(place.writer(1), number)
        assert place.write(successor, number) is False
    assert place.committed() == place.of(0, 1, 2, 3)


def test_a_leader_claims_its_ledger_before_it_has_a_batch_to_write(place: Place) -> None:
    zombie, successor = place.writer(1), place.writer(2)
    assert place.write(place.writer(1), 0) is False
    assert place.write(successor, 0) is True
    with pytest.raises(Fenced, match="has seen a higher epoch than 1"):
        place.write(zombie, 1)
    assert place.write(successor, 1) is False
    assert place.committed() == place.of(0, 1)


def test_a_batch_that_fails_in_the_middle_keeps_no_reader_waiting(place: Place) -> None:
    def failing() -> Iterator[Record]:
        before = place.uncommitted()
        yield from place.records(0)
        wait_until(lambda: place.uncommitted() > before, what="the records to arrive")
        raise ZeroDivisionError

    writer = place.writer(1)
    with pytest.raises(ZeroDivisionError):
        writer.write(place.batch(0, epoch=1), failing)
    for partition in range(3):
        place.kafka.send(place.topic, ["of another"], partition=partition)
    assert place.committed() == ["of another"] * 3
    assert place.write(writer, 0) is False


def test_a_process_that_was_stopped_before_its_commit_is_fenced(place: Place, tmp_path: Path) -> None:
    command = [sys.executable, "-m", sink_process.__name__, place.servers, place.scope, "1", "0"]
    zombie = GroupProcess(command, log=tmp_path / "zombie")
    zombie.start()
    try:
        wait_until(lambda: zombie.running and is_stopped(zombie.pid) and place.uncommitted() > 0, what="the stop")
        assert place.committed(is_open=True) == []
        successor = place.writer(2)
        assert place.write(successor, 0) is False
        assert place.committed() == place.of(0), "readers wait for nobody who was followed"
        zombie.wake()
        assert zombie.wait() == 0
    finally:
        zombie.kill()
    said = zombie.output().splitlines()
    assert said[0] == sink_process.AWAKE
    assert [line.partition(":")[0] for line in said[1:]] == [sink_process.FENCED], "and librdkafka says nothing itself"
    assert place.write(successor, 1) is False
    assert place.committed() == place.of(0, 1)
    assert place.uncommitted() > len(place.committed())


def test_a_batch_counts_once_for_any_number_of_leaders(place: Place) -> None:
    for epoch in range(1, 5):
        leader = place.writer(epoch)
        for number in range(epoch + 1):
            assert place.write(leader, number) is (number < epoch and epoch > 1)
    with pytest.raises(Fenced):
        place.write(place.writer(3), 5)
    assert place.committed() == place.of(0, 1, 2, 3, 4)


def test_two_queries_share_a_topic(place: Place) -> None:
    writers = {query: place.writer(1, query=query) for query in ("hourly", "daily")}
    for number in range(2):
        for query, writer in writers.items():
            assert place.write(writer, number, query=query) is False
    assert place.committed() == sorted(place.of(0, 1) * 2)


@pytest.mark.parametrize("epoch", [1, 9])
def test_a_copy_that_two_scopes_have_adopted_loses_no_rows_in_silence(place: Place, epoch: int) -> None:
    for number in (0, 1):
        place.write(place.writer(2), number)
    again = replace(place.batch(1, epoch=epoch), scope="again")
    with pytest.raises(QueryFailed, match=r"has batch 1 of query .* from scope '.*': two scopes have adopted"):
        place.writer(epoch).write(again, lambda: place.records(7))
    assert place.write(place.writer(2), 2) is False
    assert place.committed() == place.of(0, 1, 2)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_scope_that_a_query_moves_to_goes_on(place: Place, epoch: int) -> None:
    """Under its own epochs, which begin at 1."""
    place.write(place.writer(9), 0)
    for number in (1, 2):
        moved = replace(place.batch(number, epoch=epoch), scope="again")
        assert place.writer(epoch).write(moved, partial(place.records, number)) is False
        assert place.writer(epoch).write(moved, lambda: place.records(7)) is True
    assert place.committed() == place.of(0, 1, 2)


@pytest.mark.parametrize("point", OPEN)
def test_a_leader_of_the_scope_that_a_query_moved_from_writes_nothing_twice(place: Place, point: str) -> None:
    zombie = place.writer(9)
    place.write(zombie, 0)
    paused = Paused(lambda: place.write(zombie, 1), stopping(zombie, OPEN[point]))
    moved = replace(place.batch(1, epoch=1), scope="again")
    if OPEN[point] == AFTER_COMMIT:
        with pytest.raises(QueryFailed, match="two scopes have adopted"):
            place.writer(1).write(moved, lambda: place.records(1))
        assert paused.go_on() is False
    else:
        assert place.writer(1).write(moved, lambda: place.records(1)) is False
        with pytest.raises(QueryFailed, match="two scopes have adopted"):
            paused.go_on()
    assert place.committed() == place.of(0, 1)
