"""How the JVMs of tests start: compiled lightly, and with an archive of the classes that Spark loads.

A JVM that maps the archive (class data sharing) does not read and verify each of those ten thousand classes. Such a
start takes about half of the processor time.

Promise: the archive changes no behaviour and no output of a JVM. `class_archive` returns an archive only after a JVM of
spark-submit has mapped it and printed nothing more than before. The archive is made once for each Java and PySpark, and
kept in the virtual environment. A JVM with another class path starts without it. Not promised: an archive that is cut
short later crashes the JVMs that map it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.kit.waiting import NEVER_S

OPTIONS: Final = "SPARK_SUBMIT_OPTS"
"""The environment variable with the options of the JVMs that spark-submit starts."""

LIGHTLY: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""No JVM of a test lives for longer than minutes: compiled lightly it costs a third less of the processor."""

_WARM_UP: Final = """
import sys
from pyspark.sql import SparkSession, functions as fn
from tenure.spark.hadoop import use_own_local_files
from tenure.spark.session import end_session, start_session
folder = sys.argv[1]
conf = {"spark.sql.shuffle.partitions": "1"}
spark = start_session(name="classes", master="local[1]", conf=conf, log=folder + "/log")
use_own_local_files(spark)
rows = spark.readStream.schema("id long, at timestamp").json(folder + "/in")
counts = rows.withWatermark("at", "10 seconds").groupBy(fn.window("at", "20 seconds")).count()
def write(batch, number):
    batch.write.mode("overwrite").parquet(folder + "/out")
    spark.read.parquet(folder + "/out").collect()
writer = counts.writeStream.option("checkpointLocation", folder + "/checkpoint").foreachBatch(write)
writer.trigger(availableNow=True).start().awaitTermination()
end_session(spark, patience_s=float(sys.argv[2]))
"""
"""A driver's work in short, so that its classes are loaded. They are archived when the JVM ends."""


def with_archive(options: str, archive: Path | None) -> str:
    """The options of a JVM, and those for the archive, if there is one."""
    if archive is None:
        return options
    # A JVM that cannot use the archive says so on its output, which tests read.
    return f"{options} -Xshare:auto -XX:SharedArchiveFile={shlex.quote(str(archive))} -Xlog:cds*=off"


def class_archive(folder: Path = Path(sys.prefix), *, options: str = LIGHTLY) -> Path | None:
    """The archive for JVMs with these options, made in half a minute where it is missing. None: it cannot be made."""
    path = folder / f"spark-classes-{_key(options)}.jsa"
    if path.exists() and _is_mapped(path, options):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="spark-classes-") as place:
        made = _make(Path(place), options)
        if made is None or not _is_mapped(made, options):
            return None
        made.replace(path)
    return path


def _make(place: Path, options: str) -> Path | None:
    """Make an archive in this folder. None: the JVM made none."""
    (place / "in").mkdir()
    (place / "in" / "a.json").write_text('{"id": 1, "at": "2026-01-01T00:00:00"}\n', encoding="utf-8")
    made = place / "classes.jsa"
    command = (sys.executable, "-c", _WARM_UP, str(place), str(NEVER_S))
    _runs(command, f"{options} -XX:ArchiveClassesAtExit={shlex.quote(str(made))}", folder=place)
    return made if made.exists() else None


def _is_mapped(archive: Path, options: str) -> bool:
    """Whether a JVM of spark-submit maps the archive, and says nothing about it."""
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        return False
    command = (str(Path(package.origin).parent / "bin" / "spark-submit"), "--version")
    # Later options win: a JVM that must share, and cannot, does not start.
    return _runs(command, f"{with_archive(options, archive)} -Xshare:on", folder=archive.parent) == ""


def _runs(command: tuple[str, ...], options: str, *, folder: Path) -> str | None:
    """What a command printed to its standard output, run with these options for its JVM. None: it failed."""
    env = {**os.environ, OPTIONS: options}
    try:
        run = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=NEVER_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout if run.returncode == 0 else None


def _key(options: str) -> str:
    """Of the facts that decide which classes a JVM loads, and from where."""
    java = Path(os.environ.get("JAVA_HOME", "/usr")) / "bin" / "java"
    try:
        says = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        says = ""
    return hashlib.sha256(repr((says, version("pyspark"), options)).encode()).hexdigest()[:12]
