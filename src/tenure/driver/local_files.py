"""Lets the JVM of a driver create files on a local disk without starting a process for each.

Hadoop sets the mode of every file that it creates; where its native library is missing, as in the Spark that pip
installs, it starts `chmod` for that: about 150 processes for one batch of a stateful query. `LocalFiles.java` sets the
mode in the JVM. Janino, which Spark brings for its own generated code, compiles it there, so no jar is shipped.

Promise: files, names and modes are the same as before. Where it does not apply (a cluster's executors would go on as
before, so only a local master does) or cannot be done, nothing is changed.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from pyspark.sql import SparkSession

from tenure.spark.errors import SPARK_ERRORS, one_line

_CLASS = "tenure.spark.LocalFiles"
_HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"
_HIVES = "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"
"""Where Hive's jars are, as in the Spark that pip installs: Hadoop's, but nothing is moved onto a file."""

CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
_THROUGH_FILE_SYSTEM = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Spark's own choice on a local disk goes another way through Hadoop, which cannot be given a class. It would see to it
that one of two writers of a checkpoint file fails; a run directory has one writer."""


def use_own_local_files(spark: SparkSession) -> str | None:
    """Put our class in the place of Hadoop's, for the life of the JVM. Return why it could not be done, or None.

    What the user chose for either setting stays.
    """
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
    """Hadoop keeps one object for each file system and user, and hands that to everybody who asks."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files("tenure.driver").joinpath("LocalFiles.java").read_text(encoding="utf-8"))
    ours = jvm.org.apache.hadoop.conf.Configuration(conf)  # only this one knows the class's loader
    ours.setClassLoader(compiler.getClassLoader())
    ours.set("fs.file.impl", _CLASS)
    ours.setBoolean("tenure.rename.keeps", cached.getClass().getName() == _HIVES)
    jvm.org.apache.hadoop.fs.FileSystem.newInstance(root, ours).close()  # fails, if it does, while nothing is changed
    cached.close()
    jvm.org.apache.hadoop.fs.FileSystem.get(root, ours)
