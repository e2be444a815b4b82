"""An output that refuses what comes late: a folder of numbered entries, of which each is one batch.

Promise: an entry is put by one atomic step that fails if its number is taken, and only on top of all entries that it
was judged by. So of one query each batch is in at most once, in order, and never under a lower epoch than the one
before it. Nobody holds a lock: a process that is stopped in the middle keeps nobody waiting.

Each call leaves two lines in `calls.jsonl`: when it began, and how it ended.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


class RefusedError(Exception):
    """The ledger has an entry of a higher epoch: the caller leads no more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch."""

    scope: str
    query_id: str
    batch: int
    epoch: int
    rows: list[list[Any]]


class Ledger:
    """The entries of one query, below its output. Used by one thread of a process; by any number of processes."""

    def __init__(self, output: Path) -> None:
        self._folder = output / "ledger"
        self._known: list[Entry] = []

    def put(self, entry: Entry) -> bool:
        """Take the batch. False: it is in already. Raises RefusedError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        while True:
            known = self.entries()
            if known and known[-1].epoch > entry.epoch:
                raise RefusedError(f"batch {entry.batch} of epoch {entry.epoch}: epoch {known[-1].epoch} has written")
            if any(one.query_id == entry.query_id and one.batch >= entry.batch for one in known):
                return False
            hidden = self._folder / f".{os.getpid()}-{entry.epoch}-{entry.batch}"
            hidden.write_text(json.dumps(asdict(entry)))
            try:
                os.link(hidden, self._path(len(known)))
            except FileExistsError:
                continue  # somebody else was faster: judge again
            finally:
                hidden.unlink()
            return True

    def entries(self) -> list[Entry]:
        """All entries, in order."""
        while (path := self._path(len(self._known))).exists():
            self._known.append(Entry(**json.loads(path.read_text())))
        return list(self._known)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"


@dataclass(frozen=True, slots=True)
class Call:
    """A line of `calls.jsonl`. `newest`: the highest epoch in the ledger when it began; -1: it was empty. `ended`:
    `""` for the line of the beginning, then `taken`, `had it`, `refused`."""

    epoch: int
    batch: int
    newest: int
    ended: str
    rows: int

    @property
    def late(self) -> bool:
        """Whether a later leader had written before the function was called."""
        return self.newest > self.epoch


class Calls:
    """The calls of the function of one query, in the order in which they began and ended."""

    def __init__(self, output: Path) -> None:
        self._path = output / "calls.jsonl"

    def note(self, call: Call) -> None:
        """Append a line, by one write."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(asdict(call)) + "\n")

    def read(self) -> list[Call]:
        """All lines."""
        if not self._path.exists():
            return []
        lines = self._path.read_text().split("\n")
        return [Call(**json.loads(line)) for line in lines[:-1] if line]


def folded(entries: Iterable[Entry], *, mode: str, key: int) -> list[list[Any]]:
    """The rows that the entries add up to: all of them, those of the newest one (`complete`), or the newest one with
    each of the first `key` columns (`update`)."""
    batches: Sequence[list[list[Any]]] = [entry.rows for entry in entries]
    if mode == "append":
        return [row for rows in batches for row in rows]
    if mode == "complete":
        return batches[-1] if batches else []
    newest: dict[tuple[Any, ...], list[Any]] = {}
    for rows in batches:
        newest.update({tuple(row[:key]): row for row in rows})
    return list(newest.values())


def broken(entries: Sequence[Entry]) -> list[str]:
    """What a ledger must never show: another query id, a batch that is left out, an epoch that goes back."""
    found: list[str] = []
    for before, after in pairwise(entries):
        if after.query_id != before.query_id:
            found.append(f"batch {after.batch} has another query id: everything was begun anew")
        elif after.batch != before.batch + 1:
            found.append(f"batch {after.batch} follows batch {before.batch}")
        if after.epoch < before.epoch:
            found.append(f"batch {after.batch} of epoch {after.epoch} follows epoch {before.epoch}")
    if entries and entries[0].batch != 0:
        found.append(f"the first batch is {entries[0].batch}")
    return found
