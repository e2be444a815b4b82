"""The figures of a batch, from what Spark's progress says, and how often Spark is asked for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.driver.progress import Measuring, ProgressReader
from tenure.driver.progress_rules import backlog, measured
from tenure.events import BatchMeasured
from tests.kit.clock import ManualClock

TERM = Term(Scope("rows"), 3, "anna", Version("1"), Version("1"), Liveness(clock=ManualClock(), until_s=float("inf")))
FILES: Mapping[str, Any] = {"description": "FileStreamSource[file:/in]", "startOffset": {"logOffset": 6}}
KAFKA: Mapping[str, Any] = {"description": "KafkaV2[Subscribe[orders,prices]]"}


def progress(batch: int, *, ran: bool = True, **more: Any) -> dict[str, Any]:
    """What Spark says of a trigger."""
    at = {"batchId": batch, "timestamp": f"2026-03-01T12:00:{batch:02}.{'500' if ran else '900'}Z"}
    return {**at, "durationMs": {"addBatch": 20} if ran else {"latestOffset": 1}, "numInputRows": 10, **more}


class Scripted:
    """A query of a JVM, and how often it was asked for the progress of a batch. `limit`: of its source of files."""

    def __init__(self, *, limit: int | None = None, remembers: int = 100) -> None:
        self.asked = 0
        self.recent: list[dict[str, Any]] = []
        self._remembers = remembers
        name = "org.apache.spark.sql.execution.streaming.runtime.FileStreamSource"
        source = SimpleNamespace(
            getClass=lambda: SimpleNamespace(getName=lambda: name),
            getDefaultReadLimit=lambda: SimpleNamespace(
                getClass=lambda: SimpleNamespace(getSimpleName=lambda: "ReadMaxFiles" if limit else "ReadAllAvailable"),
                maxFiles=lambda: limit,
            ),
        )
        sources = SimpleNamespace(size=lambda: 1, apply=lambda index: source)
        self._jsq = SimpleNamespace(
            lastProgress=lambda: self._java(self.recent[-1]) if self.recent else None,
            recentProgress=lambda: [self._java(one) for one in self.recent[-self._remembers :]],
            streamingQuery=lambda: SimpleNamespace(sources=lambda: sources),
        )

    def _java(self, said: Mapping[str, Any]) -> SimpleNamespace:
        def text() -> str:
            self.asked += 1
            return json.dumps(said)

        return SimpleNamespace(json=text)


class Site:
    """A reader of a query."""

    def __init__(self, folder: Path, *, limit: int | None = None, remembers: int = 100) -> None:
        self.query = Scripted(limit=limit, remembers=remembers)
        self.reader = ProgressReader("copy", TERM, directory=str(folder))

    def look(self) -> list[BatchMeasured]:
        return list(self.reader.look(cast(Any, self.query)))


def of(said: Mapping[str, Any]) -> BatchMeasured:
    return measured(said, term=TERM, query="copy", at_limit=False)


def test_each_batch_is_told_once_and_spark_is_asked_no_more_than_needed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    assert site.look() == []
    site.query.recent += [progress(7)]
    assert [(one.epoch, one.query, one.batch, one.rows) for one in site.look()] == [(3, "copy", 7, 10)]
    site.query.asked = 0
    assert site.look() == []
    assert site.query.asked == 1, "the newest"
    site.query.recent += [progress(number) for number in (8, 9, 10)]
    assert [one.batch for one in site.look()] == [8, 9, 10], "also those that ended between two looks"
    assert site.look() == []


def test_an_idle_query_is_no_batch(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.query.recent += [progress(7), progress(8, ran=False)]
    assert [one.batch for one in site.look()] == [7]
    site.query.recent += [progress(9, ran=False), progress(9)]
    site.query.recent[-1]["timestamp"] = "2026-03-01T12:00:12.000Z"
    site.query.asked = 0
    assert [one.batch for one in site.look()] == [9]
    assert site.query.asked <= 5, "not all that Spark remembers"


def test_batches_that_spark_has_forgotten_are_left_out(tmp_path: Path) -> None:
    site = Site(tmp_path, remembers=2)
    site.query.recent += [progress(number) for number in range(5)]
    assert [one.batch for one in site.look()] == [3, 4]


@pytest.mark.parametrize(
    ("files", "limit", "at_limit"), [(2, 2, True), (3, 2, True), (1, 2, False), (2, None, False), (None, 2, False)]
)
def test_a_batch_that_took_all_the_files_it_may(
    tmp_path: Path, files: int | None, limit: int | None, at_limit: bool
) -> None:
    """Spark tells no backlog of files. None: the list of the files was compacted."""
    if files is not None:
        (tmp_path / "sources/0").mkdir(parents=True)
        (tmp_path / "sources/0/7").write_text("v1\n" + "\n".join(['{"path":"file:/in/a"}'] * files))
    site = Site(tmp_path, limit=limit)
    site.query.recent.append(progress(7, sources=[{**FILES, "endOffset": {"logOffset": 7}}]))
    assert [one.at_limit for one in site.look()] == [at_limit]
    site.query.recent.append(
        progress(8, sources=[{**FILES, "startOffset": {"logOffset": 7}, "endOffset": {"logOffset": 7}}])
    )
    assert [one.at_limit for one in site.look()] == [False], "it took no file"


def test_the_state_and_the_watermark() -> None:
    assert of(progress(7)) == BatchMeasured(Scope("rows"), 3, "copy", 7, rows=10, rows_per_s=0.0)
    said = progress(
        7,
        numInputRows=400,
        processedRowsPerSecond=80.04,
        eventTime={"watermark": "2026-03-01T11:59:37.500Z", "max": "2026-03-01T12:00:00.000Z"},
        stateOperators=[
            {"numRowsTotal": 20, "memoryUsedBytes": 900, "customMetrics": {"rocksdbSstFileSize": 5000}},
            {"numRowsTotal": 3, "memoryUsedBytes": 700, "customMetrics": {"loadedMapCacheHitCount": 1}},
        ],
    )
    assert of(said) == BatchMeasured(
        Scope("rows"),
        3,
        "copy",
        7,
        rows=400,
        rows_per_s=80.0,
        state_rows=23,
        state_bytes=5700,
        watermark_lag_s=30.0,
    )
    assert of(progress(7, eventTime={"watermark": "1970-01-01T00:00:00.000Z"})).watermark_lag_s is None
    assert of(progress(7, eventTime={}, numInputRows=None, stateOperators=[])).state_rows is None


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ([], {}),
        ([{**FILES, "endOffset": {"logOffset": 7}, "latestOffset": None}], {}),
        (
            [{**KAFKA, "endOffset": {"orders": {"0": 5}, "prices": {"0": 9}}, "latestOffset": {"orders": {"0": 9}}}],
            {"orders": {"offsets": 4}, "prices": {"offsets": 0}},
        ),
        (
            [{**KAFKA, "endOffset": '{"orders":{"0":5}}', "latestOffset": '{"orders":{"0":9,"1":2}}'}] * 2,
            {"orders": {"offsets": 12}},
        ),
        ([{**KAFKA, "endOffset": {"orders": {"0": 5}}, "latestOffset": None}], {}),
        (
            [
                {
                    "description": "DeltaSource[s3://ana:hidden@a/b]",
                    "metrics": {"numFilesOutstanding": "3", "numBytesOutstanding": "700", "avgFiles": "2"},
                }
            ],
            {"DeltaSource[s3://ana:***@a/b]": {"files": 3, "bytes": 700}},
        ),
    ],
)
def test_the_backlog_of_each_source(sources: list[dict[str, Any]], found: dict[str, dict[str, int]]) -> None:
    assert backlog(sources) == found


class Stuck:
    """A query whose look waits for a storage that hangs."""

    def __init__(self) -> None:
        self.looks = 0
        self.goes_on = threading.Event()

    def measure(self) -> None:
        self.looks += 1
        self.goes_on.wait()


def test_a_look_that_hangs_holds_up_no_sign_of_life_and_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenure.driver.progress._LAST_S", 0.01)
    measuring, query = Measuring(), Stuck()
    look = measuring.begin([query])
    assert measuring.begin([query]) is look  # and not one more each second
    measuring.finish([query])
    assert query.looks == 1
    query.goes_on.set()
    look.join()
    measuring.finish([query])
    assert query.looks >= 2
