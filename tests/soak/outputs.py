"""What the queries of a run have written, and how it differs from the truth."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow.dataset import dataset

from tenure.storage.engines import delta_options
from tests.crash.truth import Row, Verdict, compare
from tests.soak.kinds import KINDS, Prefixes
from tests.soak.ledger import Ledger, folded
from tests.soak.places import Place
from tests.soak.plan import FILES, Query

_SHOWN_IN_A_REPORT = 6


class Output:
    """The output of one query. What was read is kept until something is written. Used by one thread."""

    def __init__(self, folder: Path, query: Query, *, tables: str | None = None, place: Place | None = None) -> None:
        """`folder`: of the run. `tables`: the URL of the Delta tables; None: they are there, too. `place`: where the
        target is, with others; None: it is there, too."""
        self.query = query
        self._kind = KINDS[query.kind]
        self._output = folder / "output" / query.name
        self._ledger = Ledger(self._output)
        self._table = f"{tables or folder / 'output'}/{query.name}"
        self._place = place
        self._mark: object = None  # what was read last; None: nothing yet
        self._rows: list[Row] = []

    def rows(self) -> list[Row]:
        """The rows that a reader sees."""
        if self._place is not None:
            return self._place.rows(self.query)
        if self.query.sink == "delta" and "://" in self._table:
            table = self._opened()
            if table is not None and table.version() != self._mark:
                self._rows, self._mark = self._delta(table), table.version()
            return self._rows
        if self.query.sink == FILES:
            batches = frozenset(path.name for path in (self._output / "files").glob("b*"))
            if batches and batches != self._mark:
                self._rows, self._mark = self._read(dataset(self._output / "files").to_table()), batches
            return self._rows
        log = self._output / ("_delta_log" if self.query.sink == "delta" else "ledger")
        names = frozenset(path.name for path in log.glob("*.json"))
        if names != self._mark:
            self._rows = self._delta(self._opened()) if self.query.sink == "delta" else self._kept()
            self._mark = names
        return self._rows

    def shown(self) -> Prefixes:
        """Which events the output shows to have been read."""
        return self._kind.shown(self.rows())

    def verdict(self, fed: Prefixes) -> Verdict:
        """The output against the truth about what was fed."""
        return compare(self._kind.rows(fed), self.rows())

    def close(self) -> None:
        """Close what was opened."""
        if self._place is not None:
            self._place.close()

    def _opened(self) -> DeltaTable | None:
        """The Delta table as it is now; None: there is none."""
        try:
            return DeltaTable(self._table, storage_options=delta_options(self._table, {}))
        except TableNotFoundError:
            return None

    def _delta(self, table: DeltaTable | None) -> list[Row]:
        return [] if table is None else self._read(table.to_pyarrow_table())

    def _read(self, table: pa.Table) -> list[Row]:
        return list(zip(*(table[column].to_pylist() for column in self._kind.columns), strict=True))

    def _kept(self) -> list[Row]:
        rows = folded(self._ledger.entries(), mode=self._kind.mode, key=len(self._kind.key))
        at = self._kind.columns.index("at") if "at" in self._kind.columns else None
        return [tuple(_moment(v) if i == at else v for i, v in enumerate(row)) for row in rows]


def _moment(text: str) -> datetime:
    """What Spark hands over as a time without a zone is in that of this process."""
    found = datetime.fromisoformat(text)
    return found.astimezone(UTC)


def _in_order(value: object) -> tuple[int, str]:
    return (value, "") if isinstance(value, int) else (0, str(value))


def told(verdict: Verdict) -> str:
    """How an output is wrong, in one line: how many rows, and the first ones."""

    def first(rows: list[Row]) -> str:
        more = ", ..." if len(rows) > _SHOWN_IN_A_REPORT else ""
        return ", ".join(f"({', '.join(map(str, row))})" for row in rows[:_SHOWN_IN_A_REPORT]) + more

    words = []
    for name, rows in (("lost", verdict.lost), ("surplus", verdict.surplus)):
        if rows:
            found = sorted(rows.elements(), key=lambda row: tuple(map(_in_order, row)))
            words.append(f"{len(found)} {name}: {first(found)}")
    return "; ".join(words) or "right"
