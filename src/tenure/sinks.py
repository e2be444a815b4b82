"""The sinks that a pipeline file names: `from tenure.sinks import Delta, Foreach`."""

from tenure.spark.sinks.delta import Delta
from tenure.spark.sinks.foreach import Foreach
from tenure.spark.sinks.sink import Batch

__all__ = ["Batch", "Delta", "Foreach"]
