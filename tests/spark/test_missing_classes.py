"""A pipeline on a storage for which Spark lacks classes: one line says which, and what to type."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.spark.hadoop import check_classes, prepare_file_systems


@pytest.mark.parametrize("url", ["s3://b/x", "s3a://b/x"])
def test_the_line_names_the_class_and_the_connector(spark: SparkSession, url: str) -> None:
    with pytest.raises(UsageError) as missing:
        check_classes(spark, url, what="the storage")
    assert str(missing.value) == (
        f"the storage is at {url}, and Spark lacks the class org.apache.hadoop.fs.s3a.S3AFileSystem; "
        "give --connector s3, or the jars that have it"
    )


@pytest.mark.parametrize("url", ["/srv/x", "file:///srv/x", "hdfs://h:8020/x", "gs://b/x"])
def test_other_storages_are_not_judged(spark: SparkSession, url: str) -> None:
    check_classes(spark, url, what="the storage")


def test_settings_of_aws_do_not_matter_without_the_classes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    prepare_file_systems(spark)
    assert spark.sparkContext._jsc.hadoopConfiguration().get("fs.s3.impl") is None
