"""A query whose functions come from a file beside it, for a cluster: even ids twice as large, each once."""

import helper  # type: ignore[import-not-found] # comes with --py-files
from pyspark.sql import functions as fn

import tenure
from tenure.sinks import Delta


@tenure.pipeline
def standalone(job: tenure.Job) -> None:
    """`input`, `output`, `resource`: what must be on the JVM's class path."""
    jvm = job.spark.sparkContext._jvm
    assert jvm is not None
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for resource in job.params["resources"].split(","):
        if loader.getResource(resource) is None:
            raise FileNotFoundError(resource)
    rows = job.spark.readStream.schema("id long, at timestamp, key long").parquet(job.params["input"])
    twice = fn.udf(helper.twice, "long")
    unique = rows.withWatermark("at", "10 seconds").dropDuplicatesWithinWatermark(["id"])
    job.stream("twice", unique.select(twice("id").alias("id")), sink=Delta(job.params["output"]))
