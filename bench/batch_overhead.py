"""What Tenure adds to a batch: the same query into the same kind of Delta table, plain and under a term.

Side by side in one session, taking turns batch by batch. `plain` is Spark's foreachBatch with Tenure's Delta sink and
no plan; `tenure` also plans each batch under a term in SQLite (synchronous FULL) before the sink commits; `parquet` is
Spark's own file sink, for orientation. The figure of a batch is Spark's own `triggerExecution`, in ms.

With `--watched`, blocks of ten rounds take turns: nobody watches; and `tenure ui` follows the store, with an open page
of the scope and a Prometheus that scrapes it every 5 s.

Writes `added_ms_p50`, `added_ms_p99` (of `tenure` over `plain`), how long the staged batch then waited for its plan,
and the share of a 1 s batch to `build/bench/batch_overhead.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from bench.harness import Comparison, compare, percentile, report
from bench.watchers import Watchers
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.driver.stream import FencedStream
from tenure.events import Events
from tenure.opening import scope_context
from tenure.pipelines.pipeline import Stream
from tenure.settings import Settings
from tenure.sinks import Delta
from tenure.sinks.sink import Batch, Written
from tenure.spark.session import end_session, start_session
from tests.kit.members import MAIN
from tests.kit.process import GroupProcess
from tests.kit.waiting import wait_until

ROWS = 10_000
SCOPE = Scope("bench")
WARMUP = 15
BLOCK = 10
"""Rounds with, and rounds without, watchers."""


class TimedDelta(Delta):
    """The Delta sink, with the time that it waits for the plan: what the plan adds when nothing hides it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.waited_ms: list[float] = []

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Write, and note how long `planned` took."""

        def timed() -> None:
            start = time.perf_counter()
            planned()
            self.waited_ms.append((time.perf_counter() - start) * 1000)

        return super().write(rows, batch, planned=timed, events=events)


class Side:
    """One query, fed one file at a time."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.input = folder / name / "input"
        self.output = str(folder / name / "output")
        self.checkpoint = str(folder / name / "checkpoint")
        self.input.mkdir(parents=True)
        self._query: StreamingQuery | None = None  # None: not started
        self._files = 0

    def rows(self, spark: SparkSession) -> DataFrame:
        """The query: a stateful one, as most are."""
        events = spark.readStream.schema("id long, key long").parquet(str(self.input))
        return events.dropDuplicates(["id"])

    def begin(self, query: StreamingQuery) -> None:
        """The query runs."""
        self._query = query

    def one_batch(self) -> float:
        """Feed one file, wait for its batch, return Spark's figure for it in ms."""
        assert self._query is not None
        first = self._files * ROWS
        table = pa.table({"id": range(first, first + ROWS), "key": [i % 100 for i in range(ROWS)]})
        hidden = self.input / f".{self._files:06d}.parquet"
        pq.write_table(table, hidden)
        before = self._last_batch()
        hidden.rename(self.input / f"{self._files:06d}.parquet")
        self._files += 1
        end = time.monotonic() + 60
        while self._last_batch() == before:
            if time.monotonic() > end:
                raise TimeoutError(f"no batch of {self.name} in 60 s: {self._query.exception()}")
            time.sleep(0.005)
        progress = self._query.lastProgress
        assert progress is not None
        return float(progress["durationMs"]["triggerExecution"])

    def _last_batch(self) -> int:
        assert self._query is not None
        recent = [one for one in self._query.recentProgress[-3:] if one["numInputRows"]]
        return int(recent[-1]["batchId"]) if recent else -1


def plain(side: Side, spark: SparkSession) -> StreamingQuery:
    """Spark's foreachBatch, with the same sink and no plan."""
    sink = Delta(side.output)
    sink.check(output_mode="append")

    def write(rows: DataFrame, batch_id: int) -> None:
        batch = Batch(scope=SCOPE, query="plain", query_id="plain", id=batch_id, epoch=1)
        sink.write(rows, batch, planned=lambda: None, events=Events.nobody)

    writer = side.rows(spark).writeStream.foreachBatch(write)
    return writer.option("checkpointLocation", side.checkpoint).start()


def parquet(side: Side, spark: SparkSession) -> StreamingQuery:
    """Spark's own file sink."""
    writer = side.rows(spark).writeStream.format("parquet").option("path", side.output)
    return writer.option("checkpointLocation", side.checkpoint).start()


@contextmanager
def page_of(store: str, folder: Path, watchers: Watchers) -> Iterator[None]:
    """A `tenure ui`, watched."""
    begun, address = watchers.events, watchers.watch()
    command = [*MAIN, "ui", "--store", store, "--bind", address]
    process = GroupProcess(command, log=folder / "ui.log")
    process.start()
    try:
        wait_until(lambda: watchers.events > begun, what="the first update of the page")
        yield
    finally:
        process.stop()


def in_blocks(contenders: Mapping[str, Callable[[], float]], store: str, folder: Path, *, rounds: int) -> Comparison:
    """As `compare`; each contender stands there twice, without and with watchers."""
    found: dict[str, list[float]] = {
        **{name: [] for name in contenders},
        **{f"{name}, watched": [] for name in contenders},
    }
    with closing(Watchers(folder, page=f"/api/p/{SCOPE}/live")) as watchers:
        for number in range(-(-rounds // BLOCK)):
            warmup = 1 if number else WARMUP
            alone = compare("", contenders, rounds=BLOCK, warmup=warmup).samples
            with page_of(store, folder, watchers):
                watched = compare("", contenders, rounds=BLOCK).samples
            for name in contenders:
                found[name] += alone[name]
                found[f"{name}, watched"] += watched[name]
        print(f"{watchers.events} updates of the page, {watchers.scrapes()} scrapes")
    return Comparison("batch_overhead-watched", "ms", found)


def added(comparison: Comparison, kind: str = "") -> dict[str, float]:
    """What a batch under a term takes beyond a plain one. `kind`: how the names of the contenders end."""
    base, ours = comparison.samples[f"plain{kind}"], comparison.samples[f"tenure{kind}"]
    return {
        "added_ms_p50": statistics.median(ours) - statistics.median(base),
        "added_ms_p99": percentile(ours, 99) - percentile(base, 99),
    }


def run(folder: Path, rounds: int, *, watched: bool) -> Path:
    """Run the bench and return its JSON file."""
    clock = SystemClock()
    (folder / "storage").mkdir()
    # An idle query looks for new files every 10 ms by default: three of them would measure each other.
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.streaming.pollingDelay": "100ms"}
    spark = start_session(name="bench", master="local[2]", conf=conf, log=str(folder / "spark.log"))
    settings = Settings(store=f"sqlite://{folder}/tenure.db", storage=f"file://{folder}/storage")
    store = open_store(settings.required("store"), clock=clock)
    sides = {name: Side(name, folder) for name in ("plain", "tenure", "parquet")}
    try:
        with SessionKeeper(store, ttl=timedelta(seconds=10), clock=clock) as keeper:
            term = Election(store, SCOPE, member="bench", clock=clock).campaign(keeper, stop=threading.Event())
            assert term is not None
            side = sides["tenure"]
            sink = TimedDelta(side.output)
            sink.check(output_mode="append")
            stream = FencedStream(
                Stream("tenure", side.rows(spark), sink, "append", None),
                scope_context(settings, store, SCOPE, clock=clock),
                term=term,
                missing=lambda paths: (),
            )
            stream.prepare()
            side.begin(stream.start())
            sides["plain"].begin(plain(sides["plain"], spark))
            sides["parquet"].begin(parquet(sides["parquet"], spark))
            contenders: dict[str, Callable[[], float]] = {name: one.one_batch for name, one in sides.items()}
            if watched:
                comparison = in_blocks(contenders, settings.required("store"), folder, rounds=rounds)
            else:
                comparison = compare("batch_overhead", contenders, rounds=rounds, warmup=WARMUP, unit="ms")
            for query in spark.streams.active:
                query.stop()
            stream.close()
    finally:
        end_session(spark, patience_s=20)
        store.close()
    file = report(comparison)
    figures = added(comparison)
    figures["share_of_1s_batch"] = figures["added_ms_p50"] / 1000
    if watched:
        figures.update({f"watched_{name}": value for name, value in added(comparison, ", watched").items()})
    figures["waited_for_plan_ms_p50"] = statistics.median(sink.waited_ms)
    figures["waited_for_plan_ms_p99"] = percentile(sink.waited_ms, 99)
    file.write_text(json.dumps({**figures, **json.loads(file.read_text())}, indent=2) + "\n")
    for name, value in figures.items():
        print(f"{name}: {value:.3f}")
    return file


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--watched", action="store_true", help="as many rounds with an open page, too")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tenure-bench-"))
    try:
        run(folder, arguments.rounds, watched=arguments.watched)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
