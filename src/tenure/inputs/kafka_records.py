"""The planned records of a query's Kafka sources, and whether the broker still has them.

With `failOnDataLoss` false, Spark reads records that are gone as nothing, without an error. Promise: `lost` asks the
broker, through Spark's own reader with the options of the source, for the offsets that it has. Not promised: that a
record which compaction removed is missed, or that a topic that was made again under its name is noticed where it has
as many records as before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tenure.errors import BatchMayBeShort, InputsGone, SourceUnavailable
from tenure.inputs.planned_inputs import Edges, OffsetRange, Partitions, in_words, lost_of
from tenure.spark.errors import SPARK_ERRORS, one_line, words_of
from tenure.spark.source_plans import is_kafka, streaming_leaves

LOSS: Final = "data may have been lost because they are not available in Kafka"
"""In the errors with which Spark refuses to read on."""
TOLERATE: Final = "to go on without them, set the option failOnDataLoss of the source to false, and start again"
_GONE: Final = "UnknownTopicOrPartitionException"
_NOWHERE: Final = "file:///nonexistent"
"""Spark's reader keeps the start of a source below a path. It is written at the source's first batch, and never by the
reader's questions."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A Kafka source of a query, with Spark's reader of its offsets."""

    reader: Any
    tolerant: bool
    """Its `failOnDataLoss` is false."""


class KafkaRecords:
    """The records of the Kafka sources of one query. Used by one thread at a time. The constructor does no I/O."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    @cached_property
    def _sources(self) -> Mapping[str, _Source]:
        """The Kafka sources by their folder."""
        kafka = {folder: leaf for folder, leaf in streaming_leaves(self._rows) if is_kafka(leaf)}
        return {
            folder: _Source(_reader(leaf), not leaf.extraOptions().getBoolean("failOnDataLoss", True))
            for folder, leaf in kafka.items()
        }

    @property
    def tolerant(self) -> bool:
        """Whether a source of the query reads lost records as nothing."""
        return any(source.tolerant for source in self._sources.values())

    def tolerates(self, lost: Sequence[OffsetRange]) -> bool:
        """Whether all lost records are of sources that read lost records as nothing."""
        return all(one.folder in self._sources and self._sources[one.folder].tolerant for one in lost)

    def lost(self, ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, ...]:
        """The parts of the ranges that are gone. Nobody is asked for ranges of a source in whose place the query has no
        source of Kafka any more: an operator has allowed that. Raises SourceUnavailable: the broker does not answer;
        the gateway's own error when the JVM is gone."""
        lost: list[OffsetRange] = []
        for folder in sorted({one.folder for one in ranges}):
            if folder not in self._sources:
                continue
            mine = [one for one in ranges if one.folder == folder]
            lost += lost_of(mine, self._edges(self._sources[folder].reader))
        return tuple(lost)

    def _edges(self, reader: Any) -> Edges:
        nothing_known = self._rows.sparkSession._jvm.scala.Option.empty()  # type: ignore[union-attr] # it has one
        try:
            return Edges(
                _partitions(reader.fetchEarliestOffsets()), _partitions(reader.fetchLatestOffsets(nothing_known))
            )
        except (PySparkException, Py4JJavaError) as error:
            if _GONE in words_of(error):
                return Edges({}, {})
            raise SourceUnavailable(f"Kafka does not say which records it has: {one_line(error)}") from error

    def close(self) -> None:
        """Close the connections to the brokers."""
        for source in self.__dict__.pop("_sources", {}).values():
            try:
                source.reader.close()
            except SPARK_ERRORS:
                continue  # the JVM is gone, and the connections with it


def _reader(leaf: Any) -> Any:
    """Spark's reader of the offsets of a source: it connects at the first question."""
    return leaf.table().newScanBuilder(leaf.extraOptions()).build().toMicroBatchStream(_NOWHERE).kafkaOffsetReader()


def _partitions(offsets: Any) -> Partitions:
    """A map of Scala's, whose keys print as `topic-partition`."""
    lines = offsets.mkString("\n").splitlines()
    pairs = [line.rpartition(" -> ") for line in lines]
    places = [(place.rpartition("-"), int(number)) for place, _, number in pairs]
    return {(topic, int(partition)): number for (topic, _, partition), number in places}


def records_gone(
    lost: Sequence[OffsetRange], *, query: str, batch: int, tolerated: bool, written: bool = False
) -> InputsGone:
    """The error of a batch whose records are gone. `tolerated`: the sources would go on without them, and the output
    may not. `written`: its function was called with the remaining records."""
    what = f"records that are planned for batch {batch} of query {query!r} are gone from Kafka: {in_words(lost)}"
    fix = TOLERATE
    if tolerated:
        what += "; the output may have them, and what the query remembers would lack them"
        fix = (
            f"begin again in another scope with an empty output, or go on all the same, once, by --short-batch {query}"
        )
    if written:
        what += "; its function was called while they went, so the target may hold a short batch"
        return BatchMayBeShort(what, fix=fix)
    return InputsGone(what, fix=fix)
