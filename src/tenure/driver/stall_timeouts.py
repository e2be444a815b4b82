"""For how many seconds what a driver does may show no progress, and how that is named. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.pipelines.pipeline import Stream
from tenure.sinks.sink import Calls


def call_of(query: str) -> str:
    """How the call of a query's function is named among what has a limit."""
    return f"{query} (its function)"


def limits_of(streams: Sequence[Stream]) -> Mapping[str, float]:
    """The limits that streams declare: of a query, and of one call of its function."""
    limits = {}
    for stream in streams:
        if stream.stall_timeout is not None:
            limits[stream.name] = stream.stall_timeout.total_seconds()
        if isinstance(stream.sink, Calls) and stream.sink.timeout is not None:
            limits[call_of(stream.name)] = stream.sink.timeout.total_seconds()
    return limits
