"""A pipeline's listeners: each event of the leader's queries once, over several terms of one process, and no event of a
rehearsal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery

import tenure.driver.listening
from tenure.clock import SystemClock
from tenure.driver.listening import listening, own_listeners
from tests.kit.waiting import NEVER_S


class Heard(StreamingQueryListener):
    def __init__(self) -> None:
        self.started: list[str] = []
        self.batches: list[tuple[str, int]] = []
        self.ended: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        self.started.append(event.name)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        if event.progress.numInputRows:
            self.batches.append((event.progress.name, event.progress.batchId))

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - PySpark's name
        self.ended.append(str(event.runId))


@pytest.fixture
def source(tmp_path: Path) -> str:
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.json").write_text('{"id": 1}\n')
    return str(tmp_path / "in")


def run(spark: SparkSession, name: str, source: str, folder: Path) -> StreamingQuery:
    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).json(source)
    writer = rows.writeStream.format("noop").queryName(name).option("checkpointLocation", str(folder / name))
    return writer.trigger(availableNow=True).start()


def test_each_event_once_and_none_of_a_rehearsal(
    spark: SparkSession, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenure.driver.listening, "LAST_EVENTS_S", NEVER_S)
    heard, batches = Heard(), [("ours", 0), ("ours", 1)]
    for term in (1, 2):
        with listening(spark, [heard], queries=["ours"], clock=SystemClock()):
            assert own_listeners(spark) == 1
            queries = [run(spark, name, source, tmp_path / str(term)) for name in ("ours (rehearsal)", "ours")]
            for query in queries:
                query.awaitTermination()
        assert own_listeners(spark) == 0
        assert heard.started == ["ours"] * term
        assert heard.batches == batches * term
        assert len(set(heard.ended)) == len(heard.ended) == term
    run(spark, "ours", source, tmp_path / "3").awaitTermination()
    assert heard.batches == batches * 2
