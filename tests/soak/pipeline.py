"""The pipeline of the soak: the streams that `queries` describes, below `folder`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from pyspark.sql import functions as fn

import tenure
from tenure.clock import SystemClock
from tenure.sinks import Batch, Delta, Files, ForeachBatch, Iceberg, Kafka, MySQL, Postgres
from tests.soak.kinds import DELAY, KINDS, TAGS, WINDOW
from tests.soak.ledger import Call, Calls, Entry, Ledger, RefusedError
from tests.soak.plan import CATALOG, KAFKA, TARGET, Query, topic_of
from tests.soak.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIGGER = "400 milliseconds"
_SLOW_S = 0.3
EVENTS = "id long, at timestamp, key long"


@tenure.pipeline
def soak(job: tenure.Job) -> None:
    """`folder`: of the run; `queries`: a JSON list of kinds, sinks and habits; `output`: the URL of the Delta tables;
    `brokers`: of the topics that stand for the folders of files; `database`: of the tables of PostgreSQL; `mysql`: of
    the server of MySQL; `target`: the brokers of the topics that are written to."""
    folder = Path(job.params["folder"])
    for query in (Query(**given) for given in json.loads(job.params["queries"])):
        kind = KINDS[query.kind]
        sources = {name: _source(job, folder, query, name) for name in kind.sources}
        rows, sink = rows_of(query.kind, sources), _sink(job, folder, query)
        rows = _records(rows, key=kind.key) if query.sink == KAFKA else rows
        job.stream(query.name, rows, sink=sink, output_mode=kind.mode, trigger=TRIGGER)


def _sink(job: tenure.Job, folder: Path, query: Query) -> tenure.Sink:
    key, output = KINDS[query.kind].key, folder / "output" / query.name
    mode: Literal["append", "upsert"] = "upsert" if key else "append"
    match query.sink:
        case "mysql":
            return MySQL(f"{job.params['mysql']}/{folder.name}", query.name, mode=mode, keys=key)
        case "postgres":
            return Postgres(job.params["database"], f"{folder.name}.{query.name}", mode=mode, keys=key)
        case "files":
            return Files(output / "files", layout="folders")
        case "iceberg":
            return Iceberg(f"{CATALOG}.{query.name}", catalog=CATALOG, key=key)
        case "kafka":
            _slow_transactions()
            return Kafka(job.params["target"], topic_of(folder, query.name, TARGET))
        case "delta":
            return Delta(f"{job.params['output']}/{query.name}", key=key)
    return ForeachBatch(_keeper(output), idempotent=True)


def _slow_transactions() -> None:
    """Let each transaction of Kafka last so long that members are stopped in the middle of some."""
    from tenure.sinks.kafka.producer import TransactionalProducer

    drain, clock = TransactionalProducer._drain, SystemClock()

    def slowly(producer: TransactionalProducer, began_s: float) -> None:
        drain(producer, began_s)
        clock.sleep(_SLOW_S)

    if drain.__name__ != slowly.__name__:
        TransactionalProducer._drain = slowly  # type: ignore[assignment, method-assign] # a fault from outside


def _records(rows: DataFrame, *, key: Sequence[str]) -> DataFrame:
    """The rows as records: with a key, those of it stay in order."""
    value = fn.to_json(fn.struct("*")).alias("value")
    return rows.select(value, fn.concat_ws(",", *key).alias("key")) if key else rows.select(value)


def _source(job: tenure.Job, folder: Path, query: Query, name: str) -> DataFrame:
    if "brokers" in job.params:
        read = job.spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.params["brokers"])
        read = read.option("subscribe", topic_of(folder, query.name, name)).option("startingOffsets", "earliest")
        return read.load().select(fn.from_json(fn.col("value").cast("string"), EVENTS).alias("e")).select("e.*")
    reader = job.spark.readStream.schema(EVENTS)
    if query.habit in ("delete", "archive"):
        reader = reader.option("cleanSource", query.habit)
    if query.habit == "archive":
        reader = reader.option("sourceArchiveDir", str(folder / "archive" / query.name / name))
    return reader.json(str(folder / "input" / query.name / name))


def rows_of(kind: str, sources: Mapping[str, DataFrame]) -> DataFrame:
    """The query of a kind on its sources."""
    delay, window = (f"{int(length.total_seconds())} seconds" for length in (DELAY, WINDOW))
    timed = {name: rows.withWatermark("at", delay) for name, rows in sources.items()}
    match kind:
        case "passed":
            return sources["a"].select("id")
        case "windows":
            counted = timed["a"].groupBy(fn.window("at", window).alias("w")).agg(*_sums())
            return counted.select(fn.col("w.start").alias("at"), "rows", "ids")
        case "unique":
            halves = timed["a"].withColumn("half", fn.expr("id div 2"))
            return halves.dropDuplicatesWithinWatermark(["half"]).select("half")
        case "counts" | "totals":
            return sources["a"].groupBy("key").agg(*_sums(), fn.max("id").alias("largest"))
        case "joined":
            right = timed["right"].select(fn.col("id").alias("other"), fn.col("at").alias("then"))
            near = fn.expr("other = id + 1 AND then >= at AND then <= at + interval 5 seconds")
            return timed["left"].join(right, near).select("id", "other")
        case "twice":
            tagged = [sources[source].select(fn.lit(tag).alias("tag"), "id") for tag, source in TAGS]
            return tagged[0].union(tagged[1]).union(tagged[2]).union(tagged[3])
        case "numbered":
            grouped, columns = sources["a"].groupBy("key"), "id long, number long"
            return grouped.applyInPandasWithState(_numbered, columns, "seen long", "append", "NoTimeout")
    raise ValueError(kind)


def _numbered(_: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The events of a key, numbered by those before."""
    (seen,) = state.get if state.exists else (0,)
    ids = sorted(int(i) for frame in frames for i in frame["id"])
    state.update((seen + len(ids),))
    yield pd.DataFrame({"id": ids, "number": range(seen, seen + len(ids))})


def _sums() -> tuple[Any, Any]:
    return fn.count("*").alias("rows"), fn.sum("id").alias("ids")


def _keeper(output: Path) -> Any:
    """The function that keeps a ledger."""
    ledger, calls, target = Ledger(output), Calls(output), Target(output)

    def keep(rows: DataFrame, batch: Batch) -> object:
        target.ask()
        newest = max((entry.epoch for entry in ledger.entries()), default=-1)
        calls.note(Call(batch.epoch, batch.id, newest, "", -1))
        values = [[_plain(value) for value in row] for row in rows.collect()]
        try:
            taken = ledger.put(Entry(batch.scope, batch.query_id, batch.id, batch.epoch, values))
        except RefusedError as refused:
            calls.note(Call(batch.epoch, batch.id, newest, "refused", len(values)))
            raise _fenced()(str(refused)) from refused
        calls.note(Call(batch.epoch, batch.id, newest, "taken" if taken else "had it", len(values)))
        target.ask()  # its answer may be lost, too
        return tenure.Written(repeated=not taken) if hasattr(tenure, "Written") else None

    return keep


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _fenced() -> type[Exception]:
    """What says that the target refused the epoch; RuntimeError in versions that have no word for it."""
    return tenure.Fenced if hasattr(tenure, "Fenced") else RuntimeError
