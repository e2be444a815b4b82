"""Lets the JVM of a driver create files on a local disk without starting a process for each, and link RocksDB's tables.

Hadoop sets the mode of every file that it creates. Without its native library, as in the Spark that pip installs,
Hadoop starts `chmod` for each: about 150 processes for one batch of a stateful query. `LocalFiles.java` sets the mode
in the JVM. Janino, which Spark ships for its generated code, compiles that file in the JVM, so Tenure ships no jar.

A state store that starts links its tables (SST) from the run directory, where Spark copies them. So the start takes the
same time with any state, if `spark.local.dir` (by default the temporary folder) is on the device of the storage.

Promise: files, names and modes are the same as before, and what a link shares is never written to. Only a local master
is changed, as a cluster's executors would keep Hadoop's way. Where the change fails, nothing is changed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.own_classes import CHECKPOINT_FILES, java_source

_CLASS = "tenure.spark.LocalFiles"
_HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"
_HIVES = "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"
"""The class where Hive's jars are, as in the Spark that pip installs: as Hadoop's, but a rename onto a file fails."""

_THROUGH_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's default on a local disk takes another way through Hadoop, which accepts no class. The default makes the
second writer of a checkpoint file fail; a run directory has one writer."""


def use_own_local_files(spark: SparkSession) -> str | None:
    """Replace Hadoop's class by ours for the life of the JVM. Return why that failed, or None. A user's own values of
    the two settings stay."""
    if (spark.sparkContext.master or "").partition("[")[0] != "local":
        return None
    jvm: Any = spark.sparkContext._jvm
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        if jvm.org.apache.hadoop.util.NativeCodeLoader.isNativeCodeLoaded():
            return None
        root = jvm.org.apache.hadoop.fs.Path("file:///").toUri()
        file_system = jvm.org.apache.hadoop.fs.FileSystem
        cached = file_system.get(root, conf)
        if cached.getClass().getName() in (_HADOOPS, _HIVES):
            _put_in_cache(jvm, conf, root, cached)
        if spark.conf.get(CHECKPOINT_FILES, None) is None:
            spark.conf.set(CHECKPOINT_FILES, _THROUGH_FILE_SYSTEM)
    except SPARK_ERRORS as error:
        return one_line(error)
    return None


def _put_in_cache(jvm: Any, conf: Any, root: Any, cached: Any) -> None:
    """Put our class into Hadoop's cache, which has one object for each file system and user."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(java_source("LocalFiles.java"))
    ours = jvm.org.apache.hadoop.conf.Configuration(conf)  # only this configuration knows the class's loader
    ours.setClassLoader(compiler.getClassLoader())
    ours.set("fs.file.impl", _CLASS)
    ours.setBoolean("tenure.rename.keeps", cached.getClass().getName() == _HIVES)
    jvm.org.apache.hadoop.fs.FileSystem.newInstance(root, ours).close()  # raises before anything is changed
    cached.close()
    jvm.org.apache.hadoop.fs.FileSystem.get(root, ours)
