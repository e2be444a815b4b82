"""The demo's pipeline: every flight once, and what left each airport in each hour."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

import tenure
from tenure.sinks import Delta, Files, Iceberg, Kafka, MySQL, Postgres

SCHEMA = "id long, time_hour timestamp, origin string, carrier string, flight long, distance long, dep_delay long"


def departures(job: tenure.Job) -> DataFrame:
    """The flights of the folder `input`, or as JSON of the topic `topic` of `brokers`."""
    if "topic" not in job.params:
        return job.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).parquet(job.params["input"])
    topic = job.spark.readStream.format("kafka").option("subscribe", job.params["topic"])
    topic = topic.option("kafka.bootstrap.servers", job.params["brokers"]).option("startingOffsets", "earliest")
    records = topic.option("maxOffsetsPerTrigger", 15_000).load()
    return records.select(fn.from_json(fn.col("value").cast("string"), SCHEMA).alias("one")).select("one.*")


def target(job: tenure.Job, table: str) -> tenure.Sink:
    """The sink that the parameter `sink` names, for a table below the folder `output`."""
    place = f"{job.params['output']}/{table}"
    match job.params.get("sink"):
        case "files":
            return Files(place, layout="folders")
        case "iceberg":
            return Iceberg(f"demo.{table}", catalog="demo")
        case "kafka":
            return Kafka(job.params["output"], table)
        case "postgres":
            return Postgres(job.params["output"], table)
        case "mysql":
            return MySQL(job.params["output"], table)
    return Delta(place)


def shaped(job: tenure.Job, rows: DataFrame) -> DataFrame:
    """The rows, or JSON of them, as the sink takes them."""
    if job.params.get("sink") != "kafka":
        return rows
    return rows.select(fn.to_json(fn.struct("*"), {"ignoreNullFields": "false"}).alias("value"))


@tenure.pipeline(name="flights")
def flights(job: tenure.Job) -> None:
    """Two queries, each into a table of its own."""
    events = departures(job)
    job.stream("flights", shaped(job, events), sink=target(job, "flights"), trigger="1 second")
    hourly = (
        events.withWatermark("time_hour", "2 hours")
        .groupBy(fn.window("time_hour", "1 hour").alias("hour"), "origin")
        .agg(fn.count("*").alias("flights"), fn.sum("distance").alias("distance"), fn.sum("dep_delay").alias("delay"))
        .select(fn.col("hour.start").alias("hour"), "origin", "flights", "distance", "delay")
    )
    job.stream("hourly", shaped(job, hourly), sink=target(job, "hourly"), trigger="1 second")
