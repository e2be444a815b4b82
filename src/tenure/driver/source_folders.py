"""Which folder below `sources/` of a run directory belongs to which line of the offsets.

Promise: the order is the one in which Spark 4.3 numbers the sources of a running query.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def source_folders_of(query: StreamingQuery) -> tuple[str, ...]:
    """The folder below `sources/` of each line of the query's offsets: Spark numbers them by the first time that a
    source comes in the plan, and one that is read twice has two lines."""
    sources: Any = query._jsq.streamingQuery().sources()
    distinct: list[Any] = []
    folders = []
    for position in range(sources.size()):
        source = sources.apply(position)
        known = next((number for number, one in enumerate(distinct) if one.equals(source)), None)
        if known is None:
            known = len(distinct)
            distinct.append(source)
        folders.append(str(known))
    return tuple(folders)
