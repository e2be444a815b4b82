"""What feeds `bench.takeover`, and what becomes of its figures."""

from __future__ import annotations

import shutil
import statistics
import threading
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from bench.harness import describe_machine
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Scope

FEED_S = 0.25
KEEP = 240
"""How many files stay in the members' folder, which is listed for each batch, and when a query is declared; more where
a batch of all keys takes longer than they last."""
SCOPE = Scope("takeover")
_IN_A_FOLDER = 1000
PHASES = ("notice", "elect", "seed", "start", "first_batch")


def now() -> datetime:
    """The wall clock that events carry."""
    return datetime.now(UTC)


@dataclass
class Takeover:
    """One takeover. `seconds`: fault to first batch. `after_grant`: of these, since the term was won."""

    seconds: float
    after_grant: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)
    sweep_s: float | None = None
    """From the first batch until all orphans were gone; None: nobody looked."""


@dataclass(frozen=True)
class Side:
    """What takes turns with others."""

    store: str
    watched: bool = False

    def __str__(self) -> str:
        return f"{self.store}, watched" if self.watched else self.store


@dataclass
class Found:
    """What all turns of a side found. `batch_s`: of each batch. `standby`: of each turn."""

    takeovers: dict[str, list[Takeover]] = field(default_factory=dict)
    batch_s: list[float] = field(default_factory=list)
    standby: list[dict[str, float]] = field(default_factory=list)

    def add(self, turn: dict[str, list[Takeover]]) -> None:
        """One more turn's takeovers, by scenario."""
        for name, takeovers in turn.items():
            self.takeovers.setdefault(name, []).extend(takeovers)

    def figures(self) -> dict[str, Any]:
        """The medians."""
        batch = {"median_s": round(statistics.median(self.batch_s), 4), "batches": len(self.batch_s)}
        return {**medians(self.takeovers), "batch": batch, "standby": self.standby}

    def raw(self) -> dict[str, Any]:
        """All figures."""
        return {name: [asdict(one) for one in takeovers] for name, takeovers in self.takeovers.items()}


class Feeder:
    """Keys `0..keys` once, then every `FEED_S` a file of 99 of them and a new one; the same into both folders. From
    the members' the oldest go; plain Spark, which does not run all the time, removes those that it is done with."""

    def __init__(self, members: Path, plain: Path, *, keys: int) -> None:
        self._folders = (members, plain)
        self._keys = keys
        self._keep = KEEP + keys // 5_000
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._number = 0

    def start(self) -> None:
        """Release all keys, and begin."""
        self._release(np.arange(self._keys))
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _feed(self) -> None:
        chance = np.random.default_rng(7)
        while not self._stop.wait(FEED_S):
            known = chance.integers(0, self._keys, 99)
            self._release(np.append(known, self._keys + self._number))
            (self._folders[0] / f"{self._number - self._keep:06d}.parquet").unlink(missing_ok=True)

    def _release(self, keys: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        times = pa.array([now()] * len(keys), pa.timestamp("us", tz="UTC"))
        table = pa.table({"key": pa.array(keys, pa.int64()), "at": times})
        for folder in self._folders:
            hidden = folder / f".{self._number:06d}.parquet"
            pq.write_table(table, hidden)
            hidden.rename(folder / f"{self._number:06d}.parquet")
        self._number += 1


def put_orphans(folder: Path, count: int) -> list[Path]:
    """What dead leaders left in the storage: half of the files in run directories, half of them blobs; all at once.
    Returns the folders with all of them."""
    made, storage = folder / "orphans", folder / "storage" / SCOPE
    names = [f"runs/keys/e00000000-gone-{new_uid()[:12]}/state" for _ in range(0, count // 2, _IN_A_FOLDER)]
    names += [f"blobs/e00000000/checkpoints/{number:04d}" for number in range(0, count // 2, _IN_A_FOLDER)]
    for name in names:
        (made / name).mkdir(parents=True)
        for number in range(_IN_A_FOLDER):
            (made / name / f"{number:04d}").touch()
    (storage / "blobs").mkdir(exist_ok=True)
    tops = sorted({"/".join(name.split("/")[: 3 if name.startswith("runs") else 2]) for name in names})
    for top in tops:
        (made / top).rename(storage / top)
    shutil.rmtree(made)
    return [storage / top for top in tops]


def medians(found: dict[str, list[Takeover]]) -> dict[str, Any]:
    """The figures of one size of the state."""
    figures: dict[str, Any] = {}
    for name, takeovers in found.items():
        seconds = statistics.median(one.seconds for one in takeovers)
        key = "median_gap_s" if name == "switchover" else "median_s"
        figures[name] = {key: round(seconds, 3), "worst_s": round(max(one.seconds for one in takeovers), 3)}
        if name != "cold_spark":
            figures[name]["median_after_grant_s"] = round(statistics.median(one.after_grant for one in takeovers), 3)
            swept = [one.sweep_s for one in takeovers if one.sweep_s is not None]
            if swept:
                figures[name]["median_sweep_s"] = round(statistics.median(swept), 3)
            figures[name]["phases_s"] = {
                phase: round(statistics.median(one.phases[phase] for one in takeovers), 3) for phase in PHASES
            }
    if {"among_none", "among_orphans"} <= figures.keys():
        # Of each round by itself: a machine that slows down during the run slows down both.
        rounds = zip(found["among_orphans"], found["among_none"], strict=True)
        ratio = statistics.median(among.after_grant / none.after_grant for among, none in rounds)
        figures["ratios"] = {"after_grant_among_orphans": round(ratio, 3)}
    return figures


def show(figures: dict[str, dict[str, dict[str, Any]]], rounds: int, console: Console) -> None:
    """The table: keys, sides, scenarios."""
    table = Table(title=f"takeover: medians of {rounds} rounds, seconds", caption=str(describe_machine()))
    for heading in ("keys", "store", "scenario", "median", "worst", "after grant", *PHASES):
        table.add_column(heading, justify="left" if heading in ("store", "scenario") else "right")
    for keys, by_side in figures.items():
        for side, found in by_side.items():
            for name, one in found.items():
                if name in ("ratios", "standby", "batch"):
                    continue
                median = one.get("median_s", one.get("median_gap_s"))
                phases = [f"{one['phases_s'][phase]:.2f}" if "phases_s" in one else "" for phase in PHASES]
                grant = str(one.get("median_after_grant_s", ""))
                table.add_row(keys, side, name, f"{median:.2f}", f"{one['worst_s']:.2f}", grant, *phases)
            batch = found["batch"]
            table.add_row(keys, side, f"batch, of {batch['batches']}", f"{batch['median_s']:.4f}")
    console.print(table)
