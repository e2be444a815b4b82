"""Iceberg with a catalog at a server and tables in S3: the rules that a server keeps by its own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.types import StringType

from tenure.errors import Fenced, QueryFailed, TermLost, UsageError
from tenure.sinks.sink import OutputMode, Written
from tests.kit.servers.seaweedfs import SeaweedFs
from tests.unit.sinks.iceberg_tables import (
    Lake,
    emptied,
    foreign_append,
    newest,
    numbers,
    outcome,
    rolled_back,
    seen,
    stopped_at,
)

TERM: Any = None


@pytest.fixture(scope="module")
def warehouse(seaweedfs: SeaweedFs) -> Mapping[str, str]:
    return seaweedfs.new_warehouse("lake")


@pytest.fixture
def lake(warehouse: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(warehouse, monkeypatch, namespace=f"n{uuid4().hex[:8]}")


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_batches_and_repeated_batches(lake: Lake, mode: OutputMode) -> None:
    for batch in range(3):
        assert lake.writer(mode=mode).write(batch, numbers(batch)) == Written(repeated=False)
    assert seen(lake) == ([0, 1, 2] if mode == "append" else [2])
    assert lake.writer(mode=mode, epoch=2).write(2, numbers(2)) == Written(repeated=True)
    assert seen(lake) == ([0, 1, 2] if mode == "append" else [2])


@pytest.mark.parametrize("step", ["planned", "commit", "lost"])
def test_a_successor_at_each_step(lake: Lake, step: str) -> None:
    zombie, successor = lake.writer(), lake.writer(epoch=2)
    zombie.write(0, numbers(0))
    stopped_at(zombie, step, lambda: [successor.write(batch, numbers(batch)) for batch in (1, 2)])
    result = outcome(lambda: zombie.write(1, numbers(1)))
    assert result is Fenced
    assert seen(lake) == [0, 1, 2]
    assert lake.named() == lake.staged() or step == "lost"


@pytest.mark.parametrize("step", ["commit", "lost"])
def test_another_writer_at_each_step(lake: Lake, step: str) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    stopped_at(writer, step, lambda: foreign_append(lake))
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    assert seen(lake) == [0, 1, 100]


def test_a_commit_that_arrives_twice_is_in_once_and_the_table_is_whole(lake: Lake) -> None:
    writer = lake.writer()
    writer.twice = True
    for batch in range(3):
        assert writer.write(batch, numbers(batch)) == Written(repeated=False)
    assert seen(lake) == [0, 1, 2]


@pytest.mark.parametrize("error", [CommitStateUnknownException("500"), CommitFailedException("409")])
def test_a_commit_whose_reply_was_lost_is_in_once(lake: Lake, error: Exception) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    lost: list[str] = []

    def at(step: str) -> None:
        if step == "committed" and not lost:
            lost.append(step)
            raise error

    writer.at = at
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    assert seen(lake) == [0, 1]


@pytest.mark.parametrize("step", ["commit"])
def test_a_batch_that_an_operator_has_rolled_back_does_not_come_again(lake: Lake, step: str) -> None:
    zombie, successor = lake.writer(), lake.writer(epoch=2)
    zombie.write(0, numbers(0))
    before = newest(lake)

    def meanwhile() -> None:
        successor.write(1, numbers(1))
        rolled_back(lake, before)

    stopped_at(zombie, step, meanwhile)
    assert outcome(lambda: zombie.write(1, numbers(1))) is Fenced
    assert seen(lake) == [0]
    assert successor.write(2, numbers(2)) == Written(repeated=False)
    assert seen(lake) == [0, 2]


@pytest.mark.parametrize("time", [1, 2])
def test_a_late_first_batch_does_not_enter_a_table_that_was_replaced(lake: Lake, time: int) -> None:
    zombie, successor = lake.writer(), lake.writer(epoch=2)

    def meanwhile() -> None:
        successor.write(0, numbers(0))
        emptied(lake)

    stopped_at(zombie, "commit", meanwhile, time=time)
    assert outcome(lambda: zombie.write(0, numbers(0))) is Fenced
    assert seen(lake) == []


def test_changes_of_the_table_are_refused_or_let_the_batch_run_again(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))

    def changed() -> None:
        with lake.table().update_spec() as change:
            change.add_field("n", "void")

    stopped_at(writer, "commit", changed)
    with pytest.raises(QueryFailed, match="has changed since batch 1 was staged"):
        writer.write(1, numbers(1))
    assert writer.write(1, numbers(1)) == Written(repeated=False)

    def added() -> None:
        with lake.table().update_schema() as change:
            change.add_column("m", StringType())

    stopped_at(writer, "commit", added)
    with pytest.raises(UsageError, match="the table has m, which the rows lack"):
        writer.write(2, numbers(2))
    assert seen(lake) == [0, 1]


def test_what_was_staged_in_s3_is_swept(lake: Lake) -> None:
    def refused() -> None:
        raise TermLost(scope="rows", epoch=1)

    writer = lake.writer()
    writer.write(0, numbers(0))
    kept = lake.staged()
    with pytest.raises(TermLost):
        writer.write(1, numbers(1), planned=refused)
    (lost,) = lake.staged() - kept
    sweep = lake.writer(epoch=2).sink.staged(lake.attempts(epoch=2, planned=0))
    assert list(sweep.find()) == [lost]
    sweep.remove(TERM, lost)
    assert lake.staged() == kept
    assert lake.writer().sink.other_writers(scope="rows", query="copy") == [
        "an earlier life of stream 'copy' of scope 'rows'"
    ]


def test_a_server_that_is_asked(lake: Lake) -> None:
    lake.writer().sink.ask()
    lake.writer().write(0, numbers(0))
    lake.writer().sink.ask()
