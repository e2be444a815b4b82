"""Prepares Hadoop's file systems in the driver's JVM, and looks for the classes of those that the pipeline needs.

Promise: a setting of the user's own stays, from `--conf`, `spark-defaults.conf` or a file of Hadoop's. The settings
reach the JVM through its gateway, so none stands on a command line. A missing class is one line before Spark's own.
Not promised: a file system that Spark opens in its own start (an event log in S3): that has the user's settings only.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.storage.engines import FILE_SYSTEMS, Needs, hadoop_settings, needs_of

_OF_SPARK: Final = "spark.hadoop."
"""The prefix of Hadoop's settings among Spark's."""
_DEFAULTS: Final = ("core-default.xml", "hdfs-default.xml")


def prepare_file_systems(spark: SparkSession) -> None:
    """Give Hadoop the settings of the environment, for the file systems whose classes are there. Raises UsageError."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for file_system in filter(lambda name: _has(settings, name), FILE_SYSTEMS):
        for name, value in hadoop_settings(file_system).items():
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
    wanted = (file_system, *(needs.classes if file_system == needs.file_system else ()))
    return next((name for name in wanted if not _has(settings, name)), None)


def _has(settings: Any, name: str) -> bool:
    return settings.getClassByNameOrNull(name) is not None


def _is_users(spark: SparkSession, settings: Any, name: str) -> bool:
    """Whether the user has set it. Spark itself sets some from the variables of AWS, for which ours stand as well."""
    if spark.sparkContext.getConf().contains(f"{_OF_SPARK}{name}"):
        return True
    sources = settings.getPropertySources(name) or ()
    return any(str(source).endswith(".xml") and str(source) not in _DEFAULTS for source in sources)
