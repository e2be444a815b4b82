"""The sinks that a pipeline file names: `from tenure.sinks import Delta, ForeachBatch`."""

from tenure.spark.sinks.delta import Delta
from tenure.spark.sinks.foreach_batch import ForeachBatch
from tenure.spark.sinks.sink import Batch

__all__ = ["Batch", "Delta", "ForeachBatch"]
