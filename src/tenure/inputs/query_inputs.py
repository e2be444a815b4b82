"""The planned inputs of a query's batches: files, and records of Kafka; and whether a batch may run without some.

Promise: inputs that are gone are an error that names them, unless they are records whose source tolerates that
(`failOnDataLoss` false) and the rules say that the output stays right, or an operator answers for it (`--short-batch`),
or files that an operator has taken out of the batch (`tenure batch quarantine`). The rules for the state hold for these
files, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.checkpoints.batch_rules import may_run_short, short_state
from tenure.checkpoints.left_out import LeftOut
from tenure.checkpoints.source import KAFKA, Source
from tenure.errors import InputsGone
from tenure.inputs.input_files import Missing, files_gone
from tenure.inputs.kafka_records import KafkaRecords, records_gone
from tenure.inputs.planned_inputs import OffsetRange, planned_inputs, planned_ranges
from tenure.rundirs.moved_files import Move, Times, check_known, check_moved
from tenure.rundirs.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class PlannedInputs:
    """Inputs of one batch."""

    files: tuple[str, ...] = ()
    records: tuple[OffsetRange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.records)


NO_INPUTS: Final = PlannedInputs()


@dataclass(frozen=True, slots=True)
class Shortness:
    """What decides whether a query may run a batch without records that are gone."""

    keeps_state: Callable[[], bool]
    names_batches: bool
    """Its sink knows which batches it has."""
    short_batch: bool
    """An operator answers for it."""


class QueryInputs:
    """The inputs of one query. Used by one thread at a time. The constructor does no I/O."""

    def __init__(
        self,
        query: str,
        records: KafkaRecords,
        *,
        missing: Missing,
        times: Times,
        shortness: Shortness,
        quarantine: Callable[[], LeftOut | None] = lambda: None,
    ) -> None:
        """`missing`: input files -> those that do not exist. `times`: input files -> when each was changed.
        `quarantine`: reads the files that an operator has taken out of a batch of this query; called only where files
        are missing."""
        self._quarantine = quarantine
        self._left_out: LeftOut | None = None  # None: not read yet, or there is none
        self._query = query
        self._records = records
        self._missing = missing
        self._times = times
        self._shortness = shortness
        self._last: tuple[int, str] | None = None  # a batch and its offsets; None: no batch was looked at

    def planned(
        self,
        directory: RunDirectory,
        batch: int,
        *,
        offsets: str,
        folders: Sequence[str],
        kinds: Mapping[str, str],
        moves: Mapping[str, Move],
    ) -> PlannedInputs:
        """The inputs of a batch, by the logs of its run directory. `offsets`, `folders`, `kinds`: as in its checkpoint.
        `moves`: of sources of files, by their folder. Raises CorruptRunDirectory, StorageError."""
        files = planned_inputs(directory, batch, offsets=offsets, folders=folders, kinds=kinds, moves=moves)
        return PlannedInputs(files, self.records(directory, batch, offsets=offsets, folders=folders, kinds=kinds))

    def records(
        self, directory: RunDirectory, batch: int, *, offsets: str, folders: Sequence[str], kinds: Mapping[str, str]
    ) -> tuple[OffsetRange, ...]:
        """The records among `planned`."""
        before = self._last[1] if self._last is not None and self._last[0] == batch - 1 else None
        self._last = (batch, offsets)
        return planned_ranges(directory, batch, offsets=offsets, before=before, folders=folders, kinds=kinds)

    def check_moved(
        self, directory: RunDirectory, moves: Mapping[str, Move], *, offsets: str, folders: Sequence[str]
    ) -> None:
        """Check that the files of sources with another path only moved. Raises as `moved_files.check_moved` does."""
        check_moved(directory, moves, query=self._query, offsets=offsets, folders=folders, times=self._times)

    def check_known(
        self, directory: RunDirectory, sources: Sequence[Source], *, offsets: str, folders: Sequence[str]
    ) -> None:
        """Check sources whose path is not in the checkpoint. Raises as `moved_files.check_known` does."""
        check_known(directory, sources, query=self._query, offsets=offsets, folders=folders)

    def gone(self, planned: PlannedInputs, *, batch: int) -> PlannedInputs:
        """The inputs that are gone; files that an operator has not taken out of the batch come first. Raises
        StorageError, SourceUnavailable, StoreUnavailable."""
        files = tuple(self._missing(planned.files)) if planned.files else ()
        if files:
            self._left_out = self._quarantine()
            left = self._taken_out(batch)
            if left:  # they are looked for on their own: a search for missing files ends at a number
                rest = [file for file in planned.files if file not in left]
                mine = [file for file in planned.files if file in left]
                files = tuple(file for some in (rest, mine) if some for file in self._missing(some))
        return PlannedInputs(files, self._records.lost(planned.records))

    def _taken_out(self, batch: int) -> frozenset[str]:
        left = self._left_out
        return frozenset() if left is None or left.batch != batch else frozenset(left.files)

    def leaves_out(self, batch: int) -> bool:
        """Whether the batch is known to run without files that an operator has taken out of it."""
        return bool(self._taken_out(batch))

    def may_be_short(self, gone: PlannedInputs, *, batch: int) -> bool:
        """Whether a batch may run again without these."""
        about = self._shortness
        if not self._taken_out(batch).issuperset(gone.files) or not self._records.tolerates(gone.records):
            return False
        if not gone.records:
            return True
        return about.short_batch or may_run_short(keeps_state=about.keeps_state(), names_batches=about.names_batches)

    def check(self, planned: PlannedInputs, *, batch: int, written: bool) -> PlannedInputs:
        """The inputs that a batch which ran again may lack: after its evaluation, so that none is overlooked. Without
        records of the other sources Spark itself refuses to go on. `written`: its function was called. Raises
        InputsGone: the batch may not run without them."""
        gone = self.gone(planned, batch=batch)
        gone = PlannedInputs(gone.files, tuple(one for one in gone.records if self._records.tolerates([one])))
        if gone and not self.may_be_short(gone, batch=batch):
            raise self.error(gone, batch=batch, written=written)
        return gone

    def check_state(self, without: PlannedInputs, *, batch: int, repeated: bool) -> None:
        """Called when the sink has a batch that ran without some inputs. Raises InputsGone: its state is short."""
        about = self._shortness
        if without and not about.short_batch and short_state(keeps_state=about.keeps_state(), repeated=repeated):
            raise self.error(without, batch=batch)

    def is_tolerant(self, planned: PlannedInputs) -> bool:
        """Whether the batch may lack records at its evaluation, and Spark says nothing of that."""
        return bool(planned.records) and self._records.tolerant

    def skipped(
        self, directory: RunDirectory, batch: int, *, offsets: str, folders: Sequence[str], kinds: Mapping[str, str]
    ) -> tuple[OffsetRange, ...]:
        """The records of a batch that are gone, where Spark says nothing of them. Raises SourceUnavailable."""
        if KAFKA not in kinds.values() or not self._records.tolerant:
            return ()
        return self._records.lost(self.records(directory, batch, offsets=offsets, folders=folders, kinds=kinds))

    def error(self, gone: PlannedInputs, *, batch: int, written: bool = False) -> InputsGone:
        """The error of a batch whose inputs are gone."""
        if gone.files:
            left = self._taken_out(batch)
            files = tuple(file for file in gone.files if file not in left) or gone.files
            return files_gone(files, query=self._query, batch=batch, written=written)
        tolerated = self._records.tolerates(gone.records)
        return records_gone(gone.records, query=self._query, batch=batch, tolerated=tolerated, written=written)

    def close(self) -> None:
        """Release the connections."""
        self._records.close()
