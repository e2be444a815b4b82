"""Sinks with the steps of a batch around them: whoever hears of a step may kill or stop the member there.

Promise: a sink that stages is one that stages, and one that calls a function is one that does: the product treats them
as it treats what is inside.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

from tenure.cleanup.plan import Cleanable
from tenure.events import Events
from tenure.sinks.sink import Attempts, Batch, Calls, OutputMode, Rehearsable, Sink, Stages, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Steps(Protocol):
    """Who hears of the steps."""

    def batch_began(self) -> None: ...

    def at(self, step: str) -> None: ...


def stepped(sink: Sink, steps: Steps) -> Sink:
    """The sink with the steps around it."""
    if isinstance(sink, Stages):
        return _SteppedStages(sink, steps)
    return _SteppedCalls(sink, steps) if isinstance(sink, Calls) else _SteppedSink(sink, steps)


class _SteppedSink:
    """A sink that dies at a step."""

    def __init__(self, sink: Sink, steps: Steps) -> None:
        self._sink = sink
        self._steps = steps

    def check(self, *, output_mode: OutputMode) -> None:
        self._sink.check(output_mode=output_mode)

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        self._steps.batch_began()
        self._steps.at("before staging")

        def then() -> None:
            self._steps.at("after staging")
            planned()
            self._steps.at("before sink commit")

        written = self._sink.write(rows, batch, planned=then, events=events)
        self._steps.at("after sink commit")
        return written

    def rehearse(self, rows: DataFrame, directory: str) -> None:
        if isinstance(self._sink, Rehearsable):
            self._sink.rehearse(rows, directory)
        else:
            rows.write.format("noop").mode("append").save()


class _SteppedStages(_SteppedSink):
    """One of a sink that stages."""

    def staged(self, attempts: Attempts) -> Cleanable:
        assert isinstance(self._sink, Stages)
        return self._sink.staged(attempts)


class _SteppedCalls(_SteppedSink):
    """One of a sink that calls a function."""

    @property
    def timeout(self) -> timedelta | None:
        assert isinstance(self._sink, Calls)
        return self._sink.timeout

    def call(self, query: str) -> str | None:
        assert isinstance(self._sink, Calls)
        return self._sink.call(query)
