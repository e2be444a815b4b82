"""Hadoop's file systems in the driver's JVM: their settings and classes, and how Spark writes its checkpoints to them.

Promise: a setting of the user's own stays, from `--conf`, `spark-defaults.conf` or a file of Hadoop's. The settings
reach the JVM through its gateway, so none stands on a command line. A missing class is one line before Spark's own.
Not promised: a file system that Spark opens in its own start (an event log in S3): that has the user's settings only.

Where each file of a checkpoint is one put, Spark puts it once, and learns of each put that failed
(`use_fitting_files`). Spark's own ways do not do that: a rename is a copy there, which another writer does not notice,
and `AbortableStreamBasedCheckpointFileManager` keeps a failed put to itself. So another way that a user chose for such
a storage is refused.

On a local disk, Hadoop sets the mode of every file that it creates. Without its native library, as in the Spark that
pip installs, Hadoop starts `chmod` for each: about 150 processes for one batch of a stateful query. `LocalFiles.java`
sets the mode in the JVM (`use_own_local_files`). Janino, which Spark ships for its generated code, compiles that file
in the JVM, so Tenure ships no jar. A state store that starts links its tables (SST) from the run directory, where Spark
copies them. So the start takes the same time with any state, if `spark.local.dir` (by default the temporary folder) is
on the device of the storage. Files, names and modes are the same as before, and what a link shares is never written to.
Only a local master is changed, as a cluster's executors would keep Hadoop's way. Where the change fails, nothing is
changed.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.spark.errors import SPARK_ERRORS, one_line
from tenure.spark.own_classes import CHECKPOINT_FILES, OBJECT_FILES, java_source
from tenure.spark.releases import CHECKPOINTS_BY_FILE_SYSTEM, aws_sdk
from tenure.spark.session import runs_tasks_itself
from tenure.storage.engines import FILE_SYSTEMS, Needs, hadoop_settings, needs_of
from tenure.storage.storage import Storage

_OF_SPARK: Final = "spark.hadoop."
"""The prefix of Hadoop's settings among Spark's."""
_DEFAULTS: Final = ("core-default.xml", "hdfs-default.xml")


def prepare_file_systems(spark: SparkSession) -> None:
    """Give Hadoop the settings of the environment, for the file systems whose classes are there. Raises UsageError."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for file_system in filter(lambda name: _has(settings, name), FILE_SYSTEMS):
        for name, value in hadoop_settings(file_system, aws_sdk=aws_sdk(spark)).items():
            if not _is_users(spark, settings, name):
                settings.set(name, value, "tenure")


def check_classes(spark: SparkSession, path_or_url: str, *, what: str) -> None:
    """Raise UsageError when Spark lacks a class for this URL. `what`: the name of the URL in the error."""
    needs = needs_of(path_or_url)
    missing = None if needs is None else _missing(spark, needs)
    if needs is not None and missing is not None:
        raise UsageError(
            f"{what} is at {path_or_url}, and Spark lacks the class {missing}",
            fix=f"give --connector {needs.connector}, or the jars that have it",
        )


def _missing(spark: SparkSession, needs: Needs) -> str | None:
    """The first missing class; None: there is none. Another class for the scheme needs only itself."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    file_system = str(settings.get(f"fs.{needs.scheme}.impl", needs.file_system))
    wanted = (file_system, *(needs.classes[aws_sdk(spark)] if file_system == needs.file_system else ()))
    return next((name for name in wanted if not _has(settings, name)), None)


def _has(settings: Any, name: str) -> bool:
    return settings.getClassByNameOrNull(name) is not None


def _is_users(spark: SparkSession, settings: Any, name: str) -> bool:
    """Whether the user has set it. Spark itself sets some from the variables of AWS, for which ours stand as well."""
    if spark.sparkContext.getConf().contains(f"{_OF_SPARK}{name}"):
        return True
    sources = settings.getPropertySources(name) or ()
    return any(str(source).endswith(".xml") and str(source) not in _DEFAULTS for source in sources)


def use_fitting_files(spark: SparkSession, storage: Storage) -> None:
    """Set the class for the storage of a pipeline. Raises UsageError."""
    if not storage.puts_whole:
        return
    chosen = spark.conf.get(CHECKPOINT_FILES, None)
    if chosen not in (None, OBJECT_FILES):
        raise UsageError(
            f"setting {CHECKPOINT_FILES!r} is refused: {chosen} loses files of a checkpoint in {storage.url}",
            fix="leave it out",
        )
    spark.conf.set(CHECKPOINT_FILES, OBJECT_FILES)


_CLASS = "tenure.spark.LocalFiles"
_HADOOPS = "org.apache.hadoop.fs.LocalFileSystem"
_HIVES = "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem"
"""The class where Hive's jars are, as in the Spark that pip installs: as Hadoop's, but a rename onto a file fails."""


def use_own_local_files(spark: SparkSession) -> str | None:
    """Replace Hadoop's class by ours for the life of the JVM. Return why that failed, or None. A user's own values of
    the two settings stay."""
    if not runs_tasks_itself(spark):
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
            spark.conf.set(CHECKPOINT_FILES, CHECKPOINTS_BY_FILE_SYSTEM)
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
