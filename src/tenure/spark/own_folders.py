"""What the driver knows of the run directories in an object store that it writes alone."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tenure.spark.own_classes import CHECKPOINT_FILES, OBJECT_FILES
from tenure.storage.urls import spark_url


def hold(spark: SparkSession, directory: str) -> str:
    """List a run directory, and read its small files at once. Spark then asks the store for none of them, until
    `release` or the end of the JVM. From the call on, only the query of this driver may write there; below `state/`,
    its executors, too. On a disk nothing is done.

    Returns the directory as a URL in Hadoop's spelling. Raises Spark's own errors.
    """
    url = spark_url(directory)
    if _knows(spark):
        _folders(spark).hold(url, spark._jsparkSession.sessionState().newHadoopConf())
    return url


def release(spark: SparkSession, directory: str) -> None:
    """Forget a run directory. Raises Spark's own errors when its JVM is gone."""
    if _knows(spark):
        _folders(spark).release(spark_url(directory))


def _knows(spark: SparkSession) -> bool:
    return spark.conf.get(CHECKPOINT_FILES, None) == OBJECT_FILES


def _folders(spark: SparkSession) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.tenure.spark.OwnFolder
