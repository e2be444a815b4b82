"""The Python processes of a member's Spark import PySpark from its folder: from the zip, each compiles it anew."""

from __future__ import annotations

import os

import pyspark
import pytest
from pyspark.sql import SparkSession

from tenure.spark.python_start import FOLDER

pytestmark = pytest.mark.spark


def test_python_of_spark_imports_no_zip(spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert rows == [pyspark.__file__]


def test_the_environment_is_as_before(spark: SparkSession) -> None:
    """Only the JVM has the folder on its path, and not this process, nor what it starts later."""
    assert spark.sparkContext.parallelize([0], 1).count() == 1
    assert str(FOLDER) not in os.environ.get("PYTHONPATH", "").split(os.pathsep)
