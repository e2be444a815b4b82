"""The batch without data that Spark owes after a batch. Pure: texts in, text out.

Spark closes windows, and fires timers, by what batch N brought only in batch N+1. It runs N+1 at once, also without new
data, but it remembers only in memory that it must (`MicroBatchExecution`, `lastExecution`): a Spark that starts after N
waits for new data. Rows that were due would come with the next data, and not at all in a night that ends by idleness.
So a seed plans N+1 where Spark would have run it. Not promised: that N+1 has rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from tenure.rundirs.seed_logs import corrupt, decode_json

_TIMERS: Final = ("flatMapGroupsWithState", "applyInPandasWithState", "transformWithState")
"""Beginnings of the names of operators that may owe a batch although the watermark stands still."""


def owed_batch(offsets: str, commit: str, *, operators: Iterable[str], now_ms: int, where: str) -> str | None:
    """The entry of the offset log for the batch without data after a batch that is done; None: Spark owes none.

    `offsets`, `commit`: the entries of that batch, which decode. `operators`: the names of the query's operators with
    state; empty where Spark gave them none. `now_ms`: since 1970. `where`: of the offsets, for CorruptRunDirectory.
    """
    names = list(operators)
    if not names:
        return None  # what a query without state was given, it has passed on
    version, text, *sources = offsets.split("\n")
    metadata = decode_json(text, where=where)
    before = _watermark(metadata.get("batchWatermarkMs", 0), where=where)
    after = _watermark(decode_json(commit.partition("\n")[2], where=where).get("nextBatchWatermarkMs", 0), where=where)
    if after <= before and not any(name.startswith(_TIMERS) for name in names):
        return None
    metadata |= {"batchWatermarkMs": max(before, after), "batchTimestampMs": now_ms}
    return "\n".join([version, json.dumps(metadata, separators=(",", ":")), *sources])


def _watermark(value: object, *, where: str) -> int:
    if not isinstance(value, int):
        raise corrupt(where, f"does not decode: the watermark is {value!r}")
    return value
