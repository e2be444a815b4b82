"""Holds a standby's rehearsals back where each request costs money and time, as in an object store.

Promise: after each rehearsal the standby rests until the requests of Spark's JVM since its begin are `A_SECOND` a
second in the mean. Tenure's and delta-rs' own requests are not counted, and come on top. Where Hadoop counts none, as
on a local disk, there is no rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import SparkSession

from tenure.clock import Clock

A_SECOND: Final = 1.4

_REQUESTS: Final = "store_io_request"
"""Hadoop's name for the number of requests that a client has sent."""


class Pace:
    """The rests of one standby. Used by one thread."""

    def __init__(self, requests: Callable[[], int], clock: Clock) -> None:
        """`requests`: how many were made so far."""
        self._requests = requests
        self._clock = clock
        self._made = 0
        self._since_s = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self._made, self._since_s = self._requests(), self._clock.monotonic_s()

    def rest(self, stop: threading.Event) -> None:
        """Wait as long as the requests since `begin` are too many, or until `stop`."""
        due_s = self._since_s + (self._requests() - self._made) / A_SECOND
        remaining_s = due_s - self._clock.monotonic_s()
        if remaining_s > 0:
            self._clock.wait(stop, timeout_s=remaining_s)


def requests_of(spark: SparkSession, url: str) -> int:
    """The requests that Spark's JVM has sent to a storage. Raises Spark's own errors."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    files = jvm.org.apache.hadoop.fs.Path(url).getFileSystem(context._jsc.hadoopConfiguration())
    statistics = jvm.org.apache.hadoop.fs.statistics.IOStatisticsSupport.retrieveIOStatistics(files)  # null: none
    return 0 if statistics is None else int(statistics.counters().get(_REQUESTS) or 0)
