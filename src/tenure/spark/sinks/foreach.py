"""The sink for everything else: a function of the user, called with each batch.

Promise: the function runs only after the batch is planned, so a leader that was replaced never calls it for a batch
of its own making; the batch carries an idempotency key that is the same for every attempt at it. Whether a repeated
call does harm is the function's own matter, and its author says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tenure.events import Events
from tenure.spark.sinks.sink import Batch, OutputMode, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Foreach:
    """Call `function(rows, batch)` for each batch.

    `idempotent=True` is its author's word that a second call for the same `batch.idempotency_key` changes nothing:
    then each row counts once. `idempotent=False`: at least once; a batch that was being written when a leader died is
    written again by the next one.

    The function evaluates `rows` exactly once (persist them for more), also when it recognises the batch as
    repeated: a stateful query must move its state on, for example by `rows.write.format("noop").mode("append").save()`.
    An external system that keeps the highest `batch.epoch` it has seen can refuse the writes of older ones.
    """

    def __init__(self, function: Callable[[DataFrame, Batch], object], *, idempotent: bool) -> None:
        self._function = function
        self.idempotent = idempotent

    @property
    def delivery(self) -> str:
        """What a reader of the output can rely on."""
        return "exactly once (idempotent function)" if self.idempotent else "at least once"

    def check(self, *, output_mode: OutputMode) -> None:
        """Every output mode is the function's own matter."""

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Call the function once the batch is planned. It cannot be known here whether it has the batch already."""
        planned()
        self._function(rows, batch)
        return Written(repeated=False)
