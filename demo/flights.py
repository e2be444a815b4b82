"""The demo's pipeline: every flight once, and what left each airport in each hour."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

import tenure
from tenure.sinks import Delta

SCHEMA = "id long, time_hour timestamp, origin string, carrier string, flight long, distance long, dep_delay long"


def departures(job: tenure.Job) -> DataFrame:
    """The flights of the folder `input`, or as JSON of the topic `topic` of `brokers`."""
    if "topic" not in job.params:
        return job.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).parquet(job.params["input"])
    topic = job.spark.readStream.format("kafka").option("subscribe", job.params["topic"])
    topic = topic.option("kafka.bootstrap.servers", job.params["brokers"]).option("startingOffsets", "earliest")
    records = topic.option("maxOffsetsPerTrigger", 15_000).load()
    return records.select(fn.from_json(fn.col("value").cast("string"), SCHEMA).alias("one")).select("one.*")


@tenure.pipeline(name="flights")
def flights(job: tenure.Job) -> None:
    """`output`: folder of the two Delta tables."""
    events = departures(job)
    job.stream("flights", events, sink=Delta(job.params["output"] + "/flights"), trigger="1 second")
    hourly = (
        events.withWatermark("time_hour", "2 hours")
        .groupBy(fn.window("time_hour", "1 hour").alias("hour"), "origin")
        .agg(fn.count("*").alias("flights"), fn.sum("distance").alias("distance"), fn.sum("dep_delay").alias("delay"))
        .select(fn.col("hour.start").alias("hour"), "origin", "flights", "distance", "delay")
    )
    job.stream("hourly", hourly, sink=Delta(job.params["output"] + "/hourly"), trigger="1 second")
