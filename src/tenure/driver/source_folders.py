"""Maps the lines of a query's offsets to the folders below `sources/` of its run directory.

Promise: the numbers are those that Spark 4.3 gives the sources of a running query.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


def source_folders_of(query: StreamingQuery) -> tuple[str, ...]:
    """The folder of each line of the query's offsets. Spark numbers sources by their first place in the plan; a source
    that is read twice has two lines and one folder."""
    sources: Any = query._jsq.streamingQuery().sources()
    distinct: list[Any] = []
    folders = []
    for position in range(sources.size()):
        source = sources.apply(position)
        known = next((number for number, earlier in enumerate(distinct) if earlier.equals(source)), None)
        if known is None:
            known = len(distinct)
            distinct.append(source)
        folders.append(str(known))
    return tuple(folders)
