"""The stall timeouts that streams declare, by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenure.pipelines.pipeline import Stream
from tenure.sinks.sink import Calls


def call_of(query: str) -> str:
    """The name of the call of a query's function."""
    return f"{query} (its function)"


def limits_of(streams: Sequence[Stream]) -> Mapping[str, float]:
    """The stall timeouts of queries, and of the calls of their functions, in seconds."""
    limits = {}
    for stream in streams:
        if stream.stall_timeout is not None:
            limits[stream.name] = stream.stall_timeout.total_seconds()
        if isinstance(stream.sink, Calls) and stream.sink.timeout is not None:
            limits[call_of(stream.name)] = stream.sink.timeout.total_seconds()
    return limits
