"""Chooses how Spark writes the files of its checkpoints, by the kind of the storage.

Promise: where each file is one put, Spark puts it once, and learns of each put that failed. Spark's own ways do not do
that: a rename is a copy there, which another writer does not notice, and `AbortableStreamBasedCheckpointFileManager`
keeps a failed put to itself. So another way that a user chose for such a storage is refused.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tenure.errors import UsageError
from tenure.spark.own_classes import CHECKPOINT_FILES, OBJECT_FILES
from tenure.storage.storage import Storage


def use_fitting_files(spark: SparkSession, storage: Storage) -> None:
    """Set the class for the storage of a pipeline. Raises UsageError."""
    if not storage.puts_whole:
        return
    chosen = spark.conf.get(CHECKPOINT_FILES, None)
    if chosen not in (None, OBJECT_FILES):
        raise UsageError(
            f"setting {CHECKPOINT_FILES!r} is refused: {chosen} loses files of a checkpoint in {storage.url}",
            fix="leave it out",
        )
    spark.conf.set(CHECKPOINT_FILES, OBJECT_FILES)
