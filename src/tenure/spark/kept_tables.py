"""Tables of RocksDB that a standby's JVM has on its disk before a state store asks for them.

Spark copies each table (SST) of a state from the storage when a state store starts, one after the other. In S3 and in
HDFS that takes longer the larger the state is. Here the JVM fetches each table once, and links it for each start: those
of a standby's rehearsals, and that of the takeover. `KeptTables.java` says how a table is checked.

Promise: the tables that nobody holds are removed; the folder is one of Spark's own, which goes with the JVM. Nothing
depends on a kept table: a missing table comes from the storage, as without this. Only for a local master, as a
cluster's executors have disks of their own. On a local disk, `spark/hadoop.py` links the tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.own_classes import compile_source
from tenure.spark.session import runs_tasks_itself
from tenure.storage.urls import path_on_disk, spark_url

_CLASS: Final = "tenure.spark.TableFiles"
_BASE: Final = "org.apache.hadoop.fs.LocalFileSystem"
"""The class that `TableFiles.java` names."""


class KeptTables:
    """The kept tables of one JVM. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm  # the context forgets it when it ends

    def hold(self, holder: str, tables: Mapping[str, int], *, ahead: bool = False) -> None:
        """Let a holder need these tables, and no others from now on: URL -> bytes. `ahead`: fetch them now, in the
        background. Raises Spark's own errors when its JVM is gone."""
        lines = (f"{size} {spark_url(url)}" for url, size in tables.items())
        self._jvm.tenure.spark.KeptTables.hold(holder, "\n".join(lines), ahead)

    def release(self, holder: str) -> None:
        """Let a holder need no table any more. Raises Spark's own errors when its JVM is gone."""
        self._jvm.tenure.spark.KeptTables.release(holder)


def use_kept_tables(spark: SparkSession, storage: str) -> tuple[KeptTables | None, str | None]:
    """Let this JVM keep tables of a storage, for its life. Return them, and why that failed. Neither: on a local disk,
    and with the executors of a cluster, no tables are kept. Call it after `use_own_classes`."""
    if path_on_disk(storage) is not None or not runs_tasks_itself(spark):
        return None, None
    try:
        why = _put_in_cache(spark, spark_url(storage))
    except SPARK_ERRORS as error:
        why = one_line(error)
    return (KeptTables(spark), None) if why is None else (None, why)


def _put_in_cache(spark: SparkSession, url: str) -> str | None:
    """Put our class into Hadoop's cache, which has one object for each file system and user. Return why that failed."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    conf = context._jsc.hadoopConfiguration()
    root = jvm.org.apache.hadoop.fs.Path(url).toUri()
    file_system = jvm.org.apache.hadoop.fs.FileSystem
    base = file_system.getFileSystemClass(root.getScheme(), conf).getName()
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = compile_source(jvm, "TableFiles.java", loader, replaced=(_BASE, base))
    ours = jvm.org.apache.hadoop.conf.Configuration(conf)  # only this configuration knows the class's loader
    ours.setClassLoader(compiler.getClassLoader())
    ours.set(f"fs.{root.getScheme()}.impl", _CLASS)
    used = file_system.get(root, ours)
    if used.getClass().getName() != _CLASS:
        return f"{used.getUri()} was opened before, by {used.getClass().getName()}"
    folder = Path(str(context._temp_dir)) / "tables"  # beside the state stores, and it goes with the JVM
    folder.mkdir(exist_ok=True)
    jvm.tenure.spark.KeptTables.use(str(folder), conf)
    return None
