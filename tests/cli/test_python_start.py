"""The Python processes of a member's Spark import PySpark from its folder: from the zip, each compiles it anew."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_python_of_spark_imports_no_zip(spark: SparkSession) -> None:
    rows = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).collect()
    assert rows == [pyspark.__file__]
