"""Starts and ends the SparkSession of a driver.

Promise: the defaults below (state in RocksDB, uploaded as changelogs, each file named by its writer) unless the
user's own settings say otherwise. What the JVM prints goes to a log file of its own; the JVM ends with this
process, whatever ends it (Spark's gateway reads our end of a pipe).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.logger import PySparkLogger
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
        if not setting.startswith("spark."):
            raise UsageError(f"setting {setting!r} is not one of Spark's", fix="write --conf spark.NAME=VALUE")
        for refused, why in _REFUSED.items():
            if refused.lower() in setting.lower():
                raise UsageError(f"setting {setting!r} is refused: {why}", fix="leave it out")
    chosen = master or conf.get("spark.master", "local[*]")
    builder = SparkSession.builder.appName(f"tenure-{name}").master(chosen)
    for setting, value in {**DEFAULTS, **conf}.items():
        builder = builder.config(setting, value)
    # What fails is raised to us as well; printing it a second time would be a longer story on the user's terminal.
    for noisy in ("py4j", "DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(noisy).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_from_py4j)
    if chosen.startswith("local"):
        # Spark's workers would take whatever `python3` is on the PATH, which need not be this environment's.
        os.environ.setdefault("PYSPARK_PYTHON", conf.get("spark.pyspark.python", sys.executable))
    try:
        with _output_to(log), _own_interrupts():
            return builder.getOrCreate()
    except Exception as error:  # py4j and pyspark share no root; the log has the JVM's own words
        raise QueryFailed(
            f"Spark does not start on master {chosen!r}: {_first_line(error)}", fix=f"see {log}"
        ) from error


def end_session(spark: SparkSession, *, patience_s: float) -> None:
    """Stop the session and end its JVM. One that does not end in `patience_s` is killed; one that is gone is fine."""
    gateway = spark.sparkContext._gateway
    process = _jvm(spark)
    reaper = threading.Timer(patience_s, lambda: None if process is None else process.kill())
    reaper.daemon = True
    reaper.start()
    try:
        with suppress(Py4JError, OSError):  # the JVM is gone: nothing is left to be stopped
            spark.stop()
        if gateway is None:
            return
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        with SparkContext._lock:
            SparkContext._gateway = None
            SparkContext._jvm = None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            process.wait()
    finally:
        reaper.cancel()


def kill_jvm(spark: SparkSession) -> None:
    """Kill the session's JVM at once: for a driver that does not stop."""
    process = _jvm(spark)
    if process is not None:
        process.kill()


def jvm_exit_code(spark: SparkSession, *, patience_s: float) -> int | None:
    """How the session's JVM ended (negative: the signal); None: it still runs after `patience_s`, or is not ours."""
    process = _jvm(spark)
    try:
        return None if process is None else process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        return None


def _jvm(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of the session's JVM; None: it was not started here."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return process


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


def _not_from_py4j(record: logging.LogRecord) -> bool:
    """Filters what is logged to the root logger itself: py4j does that when its JVM is gone."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Spark puts a handler of SIGINT in the place of ours: Ctrl-C would end the member before it resigned."""
    ours = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0]
