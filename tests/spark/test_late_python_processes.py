"""Spark starts a Python process at the start of a query with `transformWithState`, and gives it ten seconds: on a busy
host the process is late. The query then starts again on its run directory, in the driver that lives."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.agent.processes import process
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.driver.running_queries import RunningQueries, StartAgain
from tenure.driver.stream import FencedStream
from tenure.events import Event, Events, QueryStarted, QueryStartedAgain
from tenure.link.driver import Ended
from tenure.pipelines.pipeline import Stream
from tenure.scope_context import ScopeContext
from tenure.sinks import ForeachBatch
from tenure.sinks.sink import Batch
from tenure.spark.releases import before
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import wait_until
from tests.spark.recorded_runs import BATCHES, KINDS, as_rows, settings, write_input

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(before("4.0"), reason="Spark has transformWithState from 4.0 on"),
]
SCOPE = Scope("rows")
CLOCK = SystemClock()

PYTHON = """#!/bin/sh
case "$*" in *driver_worker*)
  echo $$ >> {folder}/starts
  if [ $(wc -l < {folder}/starts) -eq 1 ]; then exec sleep 60; fi ;;
esac
exec {python} "$@"
"""
"""A Python whose first process of that kind is late. Spark leaves it to itself."""


class Scene:
    """A query with the state of `transformWithState`, run to the end of its input."""

    def __init__(self, spark: SparkSession, folder: Path, store: MemoryStore, term: Term) -> None:
        self._spark, self._folder, self._store, self._term = spark, folder, store, term
        self.told: list[Event] = []
        self.batches: dict[int, list[tuple[object, ...]]] = {}
        write_input(folder / "input")

    def keep(self, rows: DataFrame, batch: Batch) -> None:
        self.batches[batch.id] = as_rows(rows)

    def run(self, start_again: StartAgain) -> tuple[Ended, RunningQueries]:
        kind = KINDS["transformWithStateInPandas"]
        context = ScopeContext(self._store, SCOPE, str(self._folder / "storage"), CLOCK, Events(self.told.append))
        with settings(self._spark, kind.settings("1")):
            rows = kind.query(self._spark, self._folder / "input")
            declared = Stream("counts", rows, ForeachBatch(self.keep, idempotent=True), "update", None)
            running = RunningQueries(CLOCK, until_idle=True)
            with closing(FencedStream(declared, context, term=self._term, missing=lambda paths: ())) as stream:
                stream.prepare()
                running.watch(stream.start(), stream)
                try:
                    never = threading.Event()
                    ended = running.wait(self._term, stop=never, finish=never, start_again=start_again)
                finally:
                    running.stop_all(patience=timedelta(seconds=60))
        return ended, running

    def told_of(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.told if isinstance(event, kind)]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    python = tmp_path / "python"
    python.write_text(PYTHON.format(folder=tmp_path, python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(python))
    store = MemoryStore(MemoryServer())
    with SessionKeeper(store, ttl=timedelta(seconds=60), clock=CLOCK) as keeper:
        term = Election(store, SCOPE, member="anna", clock=CLOCK).campaign(keeper, stop=threading.Event())
        assert term is not None
        yield Scene(spark, tmp_path, store, term)
    late = int((tmp_path / "starts").read_text().split()[0])
    with suppress(ProcessLookupError):
        os.kill(late, signal.SIGKILL)
    wait_until(lambda: process(late) is None, what="the end of the late process")


def test_a_query_whose_process_was_late_starts_again_and_does_each_batch(scene: Scene) -> None:
    ended, running = scene.run(FencedStream.start_again)
    assert ended is Ended.IDLE, running.errors
    (told,) = scene.told_of(QueryStartedAgain)
    assert "Python worker failed to connect back" in told.line()
    assert len(scene.told_of(QueryStarted)) == 2
    assert sorted(scene.batches) == list(range(BATCHES))


def test_without_another_start_the_query_has_failed(scene: Scene) -> None:
    """The fault is real: this is what Spark itself does of it."""
    ended, running = scene.run(lambda stream, error: None)
    assert ended is Ended.FAILED
    assert "Python worker failed to connect back" in str(running.errors["counts"])
    assert scene.batches == {}
