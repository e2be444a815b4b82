"""Starts and ends the SparkSession of a driver.

Promise: the defaults below (state in RocksDB, uploaded as changelogs, each file named by its writer) unless the
user's own settings say otherwise. What the JVM prints goes to a log file of its own; the JVM ends with this
process, whatever ends it (Spark's gateway reads our end of a pipe).
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tenure.errors import QueryFailed, UsageError

DEFAULTS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Format 2 names each state file by its writer, so a zombie can overwrite nothing of its successor.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

_REFUSED: Mapping[str, str] = {
    "asyncProgressTrackingEnabled": "it writes offsets after the fact, so no batch could be planned before its output",
}


def start_session(*, name: str, master: str | None, conf: Mapping[str, str], log: str) -> SparkSession:
    """A new session; `master` None: `spark.master` of `conf`, or all local cores. JVM output goes to file `log`.

    Raises UsageError (a setting that is refused), QueryFailed (Spark does not start).
    """
    for setting in conf:
        for refused, why in _REFUSED.items():
            if refused.lower() in setting.lower():
                raise UsageError(f"setting {setting!r} is refused: {why}", fix="leave it out")
    builder = SparkSession.builder.appName(f"tenure-{name}")
    builder = builder.master(master or conf.get("spark.master", "local[*]"))
    for setting, value in {**DEFAULTS, **conf}.items():
        builder = builder.config(setting, value)
    # A failed callback is raised to us as well; py4j's own printing of it would be a second, longer story.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except Exception as error:  # py4j and pyspark share no root; the log has the JVM's own words
        raise QueryFailed(f"Spark does not start: {_first_line(error)}", fix=f"see {log}") from error


def end_session(spark: SparkSession, *, patience_s: float) -> None:
    """Stop the session and end its JVM; a JVM that does not end in `patience_s` is killed."""
    gateway = spark.sparkContext._gateway
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    spark.stop()
    if gateway is None:
        return
    gateway.shutdown()
    with SparkContext._lock:
        SparkContext._gateway = None
        SparkContext._jvm = None
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill_jvm(spark: SparkSession) -> None:
    """Kill the session's JVM at once: for a driver that does not stop."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    if process is not None:
        process.kill()


@contextmanager
def _output_to(log: str) -> Iterator[None]:
    """Processes started inside the block write their output to `log`; ours is given back at its end."""
    sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    saved = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            os.dup2(sink, fd)
        yield
    finally:
        for fd, copy in saved:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(sink)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
