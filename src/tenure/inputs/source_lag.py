"""How far a query is behind its sources, by Spark's own progress. Pure.

Promise: no source is asked. Spark looks at the end of each topic when it plans a batch, so the figure is as old as the
newest batch, or ten seconds where there is nothing to read. Not promised: records; an offset of a compacted topic or of
a transaction may be no record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tenure.inputs.offset_ranges import count_of, kafka_partitions, ranges_between

_KAFKA: Final = "KafkaV2["
"""The begin of what Spark's source of Kafka calls itself."""


def offsets_behind(progress: Mapping[str, Any]) -> int | None:
    """The offsets of all Kafka sources after the end of the batch; None: no source has them, or Spark does not know the
    end of one, as in the first batch of a leader."""
    behind: int | None = None
    for source in progress["sources"]:
        if not source["description"].startswith(_KAFKA):
            continue
        end, latest = (kafka_partitions(source[name]) for name in ("endOffset", "latestOffset"))
        if end is None:
            continue
        if latest is None:
            return None
        behind = (behind or 0) + count_of(ranges_between("", end, latest))
    return behind
