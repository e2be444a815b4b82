"""The example's pipeline: orders from Spark's own generator, and a total for each customer."""

from pyspark.sql import functions as fn

import tenure
from tenure.sinks import Delta


@tenure.pipeline(name="shop")
def shop(job: tenure.Job) -> None:
    """A thousand orders a second of ten customers. The generator gives the same rows for the same batch again."""
    generator = job.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000)
    orders = generator.load().withColumn("customer", fn.col("value") % 10)
    totals = orders.groupBy("customer").agg(fn.count("*").alias("orders"))
    job.stream(
        "totals", totals, sink=Delta(job.params["output"], key=["customer"]), trigger="1 second", output_mode="update"
    )
