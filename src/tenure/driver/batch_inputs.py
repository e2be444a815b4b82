"""The questions about a batch's inputs around its evaluation: are they there, and is it right to go on without some.

Promise: `batch_rules` decides when a question is asked. For a batch that ran again without records, the sink's commit
comes after the answer, and Spark notes the batch as done only if its state is not short. Records that a first
evaluation may have skipped are an event after the sink has the batch.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TypedDict, Unpack

from tenure.checkpoints.left_out import LeftOut
from tenure.coordination.term import Term
from tenure.driver.spark_plans import keeps_state
from tenure.errors import InputsGone
from tenure.events import Events, RecordsSkipped
from tenure.pipelines.pipeline import Stream
from tenure.sinks.sink import Stages
from tenure.spark.errors import words_of
from tenure.takeover.input_files import Missing
from tenure.takeover.kafka_records import LOSS, KafkaRecords
from tenure.takeover.moved_files import modification_times
from tenure.takeover.offset_ranges import count_of, in_words
from tenure.takeover.query_inputs import NO_INPUTS, PlannedInputs, QueryInputs, Shortness
from tenure.takeover.query_takeover import Begun
from tenure.takeover.run_directory import RunDirectory


class Logged(TypedDict):
    """The words of Spark's logs about a batch."""

    directory: RunDirectory
    offsets: str
    folders: tuple[str, ...]
    kinds: Mapping[str, str]


class BatchInputs:
    """The inputs of one query under one term. Used by one thread at a time. The constructor does no I/O."""

    def __init__(
        self, declared: Stream, *, missing: Missing, accepts_short: bool, quarantine: Callable[[], LeftOut | None]
    ) -> None:
        shortness = Shortness(
            lambda: keeps_state(declared.rows), names_batches=isinstance(declared.sink, Stages), accepted=accepts_short
        )
        self._query = declared.name
        self._stages = isinstance(declared.sink, Stages)
        self.of_query = QueryInputs(
            declared.name,
            KafkaRecords(declared.rows),
            missing=missing,
            times=functools.partial(modification_times, declared.rows.sparkSession),
            shortness=shortness,
            quarantine=quarantine,
        )
        """For the takeover of the query."""
        self.begun = Begun("")
        """Set when the query is taken over."""
        self._without = NO_INPUTS  # of the batch that runs again, when it was looked at last

    def may_be_short(self, batch: int) -> bool:
        """Whether the batch runs again, and may lack inputs that an earlier attempt had."""
        if batch != self.begun.retaken:
            return False
        return self.of_query.is_tolerant(self.begun.inputs) or self.of_query.leaves_out(batch)

    def look(self, batch: int, *, written: bool) -> None:
        """Around the evaluation of a batch that runs again: are its inputs there? `written`: the sink, which may have
        evaluated the rows late, has the batch. Raises InputsGone."""
        if not (written and self._stages):
            self._without = self.of_query.check(self.begun.inputs, batch=batch, written=written)

    def look_at_state(self, batch: int, *, repeated: bool) -> None:
        """When the sink has a batch that ran again. Raises InputsGone: it ran without some records, and its state is
        short."""
        self.of_query.check_state(self._without, batch=batch, repeated=repeated)

    def gone(self, error: Exception, batch: int, **logged: Unpack[Logged]) -> InputsGone | None:
        """The error in our words, where Spark refuses to read on without records that are gone; None: another error."""
        if LOSS not in words_of(error):
            return None
        records = self.of_query.records(batch=batch, **logged)
        gone = self.of_query.gone(PlannedInputs(records=records), batch=batch)
        return self.of_query.error(gone, batch=batch) if gone else None

    def report_skipped(self, batch: int, *, term: Term, events: Events, **logged: Unpack[Logged]) -> None:
        """Emit an event when records of a batch that is in the sink are gone: Spark may have read them as nothing."""
        skipped = self.of_query.skipped(batch=batch, **logged)
        if skipped:
            events.emit(
                RecordsSkipped(
                    term.scope,
                    epoch=term.epoch,
                    query=self._query,
                    batch=batch,
                    offsets=count_of(skipped),
                    what=in_words(skipped),
                )
            )

    def close(self) -> None:
        """Release the connections."""
        self.of_query.close()
