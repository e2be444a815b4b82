"""Starts and ends the SparkSession of a driver.

Promise: `DEFAULTS` hold (state in RocksDB, uploaded as changelogs, each file named by its writer) unless your own
settings replace them: flags, or spark-defaults.conf and other files of spark-submit. The JVM prints to a log file of
its own. The JVM ends with this process, for any reason: Spark's gateway reads a pipe whose other end this process
holds.
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from tenure.clock import Clock, SystemClock
from tenure.errors import UsageError
from tenure.s3_settings import name_credentials_for_java
from tenure.spark.connectors import settings_beside
from tenure.spark.coordinates import Connector
from tenure.spark.fetching import fetched, fetching_alone
from tenure.spark.not_started import NotStarted, not_started
from tenure.spark.python_start import PYTHON_PATH, python_path
from tenure.spark.releases import check_java, check_release, known_settings, logger_of
from tenure.spark.submit import RETAINED, Submit, by_file, check_setting, is_secret

DEFAULTS: Mapping[str, str] = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Format 2 names each state file by its writer, so a zombie can overwrite nothing of its successor.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # The whole state is uploaded this often; a successor replays the changes since. Spark's own default is 60 s.
    "spark.sql.streaming.stateStore.maintenanceInterval": "15s",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.ui.enabled": "false",
}
"""Settings of Spark that a driver starts with, where neither your flags nor your Spark's own files set them."""

_QUIET: Mapping[str, str] = {"spark.ui.showConsoleProgress": "false"}
"""Goes before Spark's own files: spark-submit sets it for a Python shell, as if you had. The bar would fill the log."""

_JOINED = frozenset({"spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles"})
"""spark-submit appends the files of --packages and the like to these. A value set on the session would replace them."""

_NO_FLAGS = Submit()

_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
"""The variable that has spark-submit's arguments for PySpark."""

_END_S = 10.0
"""How long a refused session may take to end."""

_REFUSED: Mapping[str, str] = {
    "kafka.useDeprecatedOffsetFetching": "nobody could ask the broker which records it still has",
    "asyncProgressTrackingEnabled": "it writes offsets late, so no batch could be planned before its output",
}


def start_session(
    *,
    name: str,
    master: str | None,
    conf: Mapping[str, str],
    log: str,
    submit: Submit = _NO_FLAGS,
    clock: Clock | None = None,
) -> SparkSession:
    """Start a session. `master` None: `spark.master` of `conf` or `spark-defaults.conf`, or all local cores. `submit`:
    flags for the spark-submit that starts the JVM. `log`: the file for the output of the JVM.

    Raises UsageError: this release of Spark or a setting is refused, or there is no Java for it; QueryFailed: Spark
    does not start; DriverDied: its JVM was killed, or a repository with its packages does not answer.
    """
    clock = clock or SystemClock()
    check_release()
    submitted = dict(submit.settings)
    for setting in (*conf, *submitted):
        _check_name(setting)
    chosen = master or conf.get("spark.master")
    builder = SparkSession.builder.appName(f"tenure-{name}")
    own = {
        setting: value for setting, value in {**_QUIET, **conf}.items() if setting in conf or setting not in submitted
    }
    if chosen is not None:
        own["spark.master"] = chosen
    arguments = submit.arguments
    secrets: dict[str, str] = {}
    for setting, value in [*own.items()]:
        if setting in _JOINED:
            arguments += ["--conf", f"{setting}={own.pop(setting)}"]
        elif is_secret(setting) and setting not in submitted:
            secrets[setting] = own.pop(setting)
        else:
            builder = builder.config(setting, value)
    _log_no_copies()
    name_credentials_for_java()
    _choose_python({**submitted, **conf}, local=chosen is None or chosen.startswith("local"))
    settings = {**submitted, **conf}
    written = os.path.getsize(log) if os.path.exists(log) else 0
    started: list[subprocess.Popen[bytes]] = []
    session: SparkSession | None = None  # None: not made yet

    def start(words: Sequence[str]) -> SparkSession:
        # Without arguments, PySpark starts spark-submit with those of the environment.
        with _variables({_ARGUMENTS: shlex.join([*words, "pyspark-shell"])} if words else {}):
            yours = _start_jvm(own)
            return _with_connectors(_with_defaults(builder, yours), yours, submit.connectors).getOrCreate()

    try:
        with (
            fetching_alone(arguments, settings),
            by_file(secrets, arguments) as words,
            _noted_starts(started),
            _output_to(log),
            _own_interrupts(),
            _variables({PYTHON_PATH: python_path()}),
        ):
            session = fetched(start, words, settings, log=log, clock=clock)
        check_java(session)
        _judge_defaults(session)
        return session
    except Exception as error:  # py4j and pyspark share no root; the log has the JVM's own words
        code = _exit_code_behind(error, started)
        if session is not None:
            end_session(session, patience_s=_END_S)
        if isinstance(error, UsageError):
            raise
        where = "" if chosen is None else f" on master {chosen!r}"
        said = _said(log, after=written)
        raise not_started(NotStarted(_why(error), code, said=said, where=where, log=log)) from error


def _check_name(setting: str) -> None:
    """Raise UsageError when the setting is refused by its name."""
    if not setting.startswith("spark."):
        raise UsageError(f"setting {setting!r} is not a setting of Spark's", fix="write --conf spark.NAME=VALUE")
    for refused, why in _REFUSED.items():
        if refused.lower() in setting.lower():
            raise UsageError(f"setting {setting!r} is refused: {why}", fix="leave it out")


def _start_jvm(own: Mapping[str, str]) -> SparkConf:
    """Start the JVM with these settings, and return all that you set, also by spark-submit's own files."""
    started_with = SparkConf(loadDefaults=False)
    for setting, value in own.items():
        started_with.set(setting, value)
    SparkContext._ensure_initialized(conf=started_with)
    return SparkConf()


def _with_defaults(builder: SparkSession.Builder, yours: SparkConf) -> SparkSession.Builder:
    """The builder with each of `DEFAULTS` that you do not set."""
    for setting, value in known_settings(DEFAULTS).items():
        if not yours.contains(setting):
            builder = builder.config(setting, value)
    return builder


def _with_connectors(
    builder: SparkSession.Builder, yours: SparkConf, connectors: Collection[Connector]
) -> SparkSession.Builder:
    """The builder with the settings of the connectors, beside yours."""
    for setting, value in settings_beside(lambda name: yours.get(name, None), connectors).items():
        builder = builder.config(setting, value)
    return builder


def _log_no_copies() -> None:
    """Spark logs its errors, and raises them, too: the long copies stay off the terminal."""
    for noisy in ("py4j", "DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logger_of(noisy).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_from_py4j)


def _exit_code_behind(error: BaseException, started: Sequence[subprocess.Popen[bytes]]) -> int | None:
    """The exit code of the JVM of a session that is being made, where the error may come of its end; None: it runs, or
    the error is its answer. `started`: each spark-submit, which becomes the JVM."""
    if "JAVA_GATEWAY_EXITED" in str(error) and started:
        return _exit_code(started[-1])
    if not isinstance(error, (Py4JError, OSError)) or isinstance(error, Py4JJavaError):
        return None
    return _exit_code(getattr(SparkContext._gateway, "proc", None))


def _judge_defaults(session: SparkSession) -> None:
    """Check the settings from Spark's own files. Raises UsageError; Spark's own error for a value that it refuses,
    which it would raise at the first use of the session."""
    check_setting(RETAINED, session.sparkContext.getConf().get(RETAINED, "100"))
    session.conf.get(RETAINED)


def _choose_python(conf: Mapping[str, str], *, local: bool) -> None:
    """Set the workers' Python in the environment, the only place where PySpark reads it."""
    if "spark.pyspark.python" in conf:
        os.environ["PYSPARK_PYTHON"] = conf["spark.pyspark.python"]
    elif local:
        # The default is `python3` on the PATH, which need not be this environment's.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def runs_tasks_itself(spark: SparkSession) -> bool:
    """Whether the driver's own JVM runs the tasks: a master `local[...]`."""
    return (spark.sparkContext.master or "").partition("[")[0] == "local"


def end_session(spark: SparkSession, *, patience_s: float) -> None:
    """Stop the session and end its JVM. A JVM that does not end in `patience_s` is killed; it may be gone already."""
    gateway = spark.sparkContext._gateway
    process = _jvm(spark)
    reaper = threading.Timer(patience_s, lambda: None if process is None else process.kill())
    reaper.daemon = True
    reaper.start()
    try:
        with suppress(Py4JError, OSError):  # the JVM is gone
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
    """The exit code of the session's JVM (negative: the signal). None: the JVM still runs after `patience_s`, or this
    process did not start it."""
    return _exit_code(_jvm(spark), patience_s=patience_s)


def _exit_code(process: subprocess.Popen[bytes] | None, *, patience_s: float = 2) -> int | None:
    """The exit code of a process that ends within the patience; None: it runs, or there is none."""
    try:
        return None if process is None else process.wait(timeout=patience_s)
    except subprocess.TimeoutExpired:
        return None


def _jvm(spark: SparkSession) -> subprocess.Popen[bytes] | None:
    """The process of the session's JVM; None: this process did not start it."""
    process: subprocess.Popen[bytes] | None = getattr(spark.sparkContext._gateway, "proc", None)
    return process


@contextmanager
def _noted_starts(started: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Note each process that PySpark starts in the block: it keeps none of a spark-submit that ends too early."""

    class NotedProcess(subprocess.Popen[bytes]):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            started.append(self)

    with replaced(java_gateway, "Popen", NotedProcess):
        yield


@contextmanager
def _variables(values: Mapping[str, str]) -> Iterator[None]:
    """In the block, this process, and those that it starts, have these variables in their environment."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _output_to(log: str) -> Iterator[None]:
    """Processes that start inside the block write their output to `log`. Our own output is restored at its end."""
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
    """A filter of the root logger, to which py4j itself logs when its JVM is gone."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore our handler of SIGINT, which Spark replaces: Ctrl-C would end the member before it resigns."""
    ours = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, ours)


def _said(log: str, *, after: int) -> str:
    """The beginning of what spark-submit and its JVM printed from this place of the log on."""
    with open(log, encoding="utf-8", errors="replace") as file:
        file.seek(after)
        return file.read(1 << 20)


def _why(error: BaseException) -> str:
    """The error's message in one line; for an error of the JVM, the message of its root cause."""
    message = str(getattr(error, "_desc", None) or error)  # `str` of a PySpark error asks a JVM that may have ended
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause is not None:
            message, cause = cause.getMessage() or cause.toString(), cause.getCause()
    return message.strip().split("\n", 1)[0]


@contextmanager
def replaced(owner: object, name: str, by: object) -> Iterator[None]:
    """`owner` (a class or a module) has `by` under this name in the block."""
    before = vars(owner)[name]
    setattr(owner, name, by)
    try:
        yield
    finally:
        setattr(owner, name, before)
