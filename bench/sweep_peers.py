"""Iceberg's `remove_orphan_files` and Delta's `VACUUM` in Spark, on the trees of `bench.sweep`: how long they take to
find what is not of their table, and to delete it.

    python -m bench.sweep_peers iceberg FOLDER SHAPE FILES

It is run by the Python of `build/bench/peers` (`bench.sweep --peers` makes it): neither of them has a release for the
Spark that Tenure is tested with. Prints one line of JSON: seconds.
"""

from __future__ import annotations

import json
import os
import sys

from pyspark.sql import SparkSession

from bench.sweep_trees import make_tree, seconds

PACKAGES = {
    "iceberg": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
    "delta": ("io.delta:delta-spark_4.1_2.13:4.4.0",),
}
CONF = {
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
    },
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.vacuum.parallelDelete.enabled": "true",
    },
}


def main(peer: str, folder: str, shape: str, count: int) -> None:
    """Run and print."""
    builder = SparkSession.builder.master("local[2]").config("spark.driver.memory", "4g")
    builder = builder.config("spark.ui.enabled", "false").config("spark.driver.maxResultSize", "0")
    builder = builder.config("spark.jars.packages", ",".join(PACKAGES[peer]))
    for name, value in {**CONF[peer], "spark.sql.catalog.ice.warehouse": f"{folder}/warehouse"}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if peer == "iceberg":
        spark.sql("create table ice.db.t (n int) using iceberg")
        spark.sql("insert into ice.db.t values (1)")
        make_tree(f"{folder}/warehouse/db/t/data", shape, count, old=True)
        call = "call ice.system.remove_orphan_files(table => 'db.t', dry_run => {dry})"
        plan, delete = call.format(dry="true"), call.format(dry="false")
    else:
        table = f"delta.`{folder}/table`"
        spark.sql(f"create table {table} (n int) using delta")
        spark.sql(f"insert into {table} values (1)")
        make_tree(f"{folder}/table", shape, count, old=True)
        plan, delete = f"vacuum {table} retain 0 hours dry run", f"vacuum {table} retain 0 hours"
    # The first of two listings fills the kernel's caches, as for the others.
    planned = [seconds(lambda: spark.sql(plan).collect()) for _ in range(2)][-1]
    deleted = seconds(lambda: spark.sql(delete).collect())
    left = sum(len(files) for _, _, files in os.walk(folder))
    print(json.dumps({"plan": planned, "delete": deleted, "left": left}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
