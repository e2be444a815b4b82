"""Passes declared triggers to Spark."""

from __future__ import annotations

from pyspark.sql.streaming.readwriter import DataStreamWriter


def with_trigger(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """`writer` with the declared trigger; None: Spark's default."""
    if trigger is None:
        return writer
    if is_available_now(trigger):
        return writer.trigger(availableNow=True)
    return writer.trigger(processingTime=trigger)


def is_available_now(trigger: str | None) -> bool:
    """Whether a query with this trigger ends by itself."""
    return trigger is not None and trigger.strip().lower().replace("-", " ") == "available now"
