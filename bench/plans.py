"""The plan of a batch as a stream of files has it, for benches without Spark."""

from __future__ import annotations

from typing import Final

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import Clock, timestamp

QUERY: Final = "rows"
OFFSETS: Final = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":1764000000000,"conf":{%s}}\n{"logOffset":%d}\n'
CONF: Final = ",".join(f'"spark.sql.streaming.setting{number:02}":"some value"' for number in range(10))


def planned(batch: int, *, epoch: int, member: str, clock: Clock) -> Checkpoint:
    """The plan of a batch."""
    run = f"runs/{QUERY}/{epoch:012}-{member}"
    return Checkpoint(QUERY, "a" * 36, batch, OFFSETS % (CONF, batch), run, epoch, timestamp(clock))
