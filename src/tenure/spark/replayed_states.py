"""Versions of state stores that the driver's JVM replays from their changelogs, to make a snapshot of each.

`ReplayedState.java` has the promise. The JVM replays in a call that cannot be interrupted.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tenure.storage.urls import spark_url


class ReplayedState:
    """One version of one store. Used by one thread at a time. All methods raise Spark's own errors."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def put(self) -> None:
        """Write its snapshot into the store's folder."""
        self._state.put()

    def close(self) -> None:
        """Release its memory and its local files."""
        self._state.close()


class ReplayedStates:
    """Replays with the settings of a session, in its JVM. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        """Call it after `use_own_classes`."""
        self._spark = spark
        self._jvm: Any = spark.sparkContext._jvm  # the context forgets it when it ends

    def replay(self, folder: str, *, version: int, unique: str) -> ReplayedState:
        """Load a version of the store in a folder. `folder`: a URL. `unique`: the version's id."""
        locals_ = str(self._spark.sparkContext._temp_dir)  # beside the state stores, and it goes with the JVM
        load = self._jvm.tenure.spark.ReplayedState.load
        return ReplayedState(load(spark_url(folder), version, unique, self._spark._jsparkSession, locals_))
