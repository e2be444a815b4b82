"""Spark's plans, read node by node, and the sources of a running query.

Promise: the same query, read in two processes, gives the same nodes, except for numbers that only one process knows. No
data of a stream is read. The stateful operators of the optimized plan do not depend on the tables beside the streams:
Spark moves none of them by statistics, and drops none for an empty table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from tenure.spark.expressions import Json, kind_of
from tenure.spark.releases import active_sessions, is_stateful

Nodes = Sequence[tuple[Any, Mapping[str, Json]]]
"""The nodes of a plan, each before its children: the JVM's object, and its JSON."""


_KAFKA: Final = "org.apache.spark.sql.kafka010.KafkaMicroBatchStream"


class DeclaredQuery(Protocol):
    """A query that a pipeline declares, as far as its plan is concerned."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> DataFrame: ...

    @property
    def output_mode(self) -> str: ...


_BYTES: Final = "[B@"
"""How Java prints an array of bytes: with a number that only one process knows."""


def read(plan: Any) -> Nodes:
    """The nodes of a plan."""
    nodes, text = list(walk(plan)), str(plan.toJSON())
    described = json.loads(text)
    if _BYTES in text:
        literals = [literal for node in nodes for literal in _literals(node)]
        _put_bytes(described, {json.loads(literal.toJSON())[0]["value"]: str(literal.sql()) for literal in literals})
    return list(zip(nodes, described, strict=True))


def optimized(rows: DataFrame) -> Any:
    """The optimized plan of a streaming query."""
    session: Any = rows._jdf.sparkSession()
    sessions = active_sessions(rows)
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)  # the optimizer reads the settings of the active session
    try:
        return session.sessionState().optimizer().execute(analyzed(rows))
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def analyzed(rows: DataFrame) -> Any:
    """The analysed plan of a streaming query."""
    return rows._jdf.queryExecution().analyzed()


def keeps_state(rows: DataFrame) -> bool:
    """Whether a streaming query has a stateful operator. Raises Spark's own errors."""
    return has_state(analyzed(rows), optimized(rows))


def has_state(*plans: Any) -> bool:
    """Whether a plan among these has a stateful operator."""
    return any(is_stateful(node) for plan in plans for node in walk(plan))


_FILE_SOURCE: Final = ".FileStreamSource"
"""How the class of Spark's own source of files ends."""


def file_limits_of(query: StreamingQuery) -> tuple[int | None, ...]:
    """`maxFilesPerTrigger` of each source of a running query; None: it has none, or is not Spark's own source of files.
    A source that is read twice is there once. Raises Spark's own errors."""
    limits: list[int | None] = []
    distinct: list[Any] = []
    for source in items(query._jsq.streamingQuery().sources()):
        if any(earlier.equals(source) for earlier in distinct):
            continue
        distinct.append(source)
        limit: Any = source.getDefaultReadLimit() if source.getClass().getName().endswith(_FILE_SOURCE) else None
        files = limit is not None and limit.getClass().getSimpleName() == "ReadMaxFiles"
        limits.append(int(limit.maxFiles()) if files else None)
    return tuple(limits)


def source_folders_of(query: StreamingQuery) -> tuple[str, ...]:
    """The folder below `sources/` for each line of the query's offsets. Spark 4.3 numbers sources by their first place
    in the plan; a source that is read twice has two lines and one folder."""
    distinct: list[Any] = []
    folders = []
    for source in items(query._jsq.streamingQuery().sources()):
        known = next((number for number, earlier in enumerate(distinct) if earlier.equals(source)), None)
        if known is None:
            known = len(distinct)
            distinct.append(source)
        folders.append(str(known))
    return tuple(folders)


def ask_kafka_for_newest(rows: DataFrame, query: StreamingQuery, offsets: Mapping[str, str | None]) -> None:
    """Let each source of Kafka ask for its newest offsets, as before it plans a batch. `rows`: those of a batch.
    `offsets`: the entry of that batch in the query's log, by source. Raises Spark's own errors."""
    for source, offset in zip(items(query._jsq.streamingQuery().sources()), offsets.values(), strict=True):
        if offset is not None and source.getClass().getName() == _KAFKA:
            jvm: Any = rows.sparkSession._jvm
            everything = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.allAvailable()
            source.latestOffset(source.deserializeOffset(offset), everything)


def items(sequence: Any) -> list[Any]:
    """The items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.size())]


def walk(tree: Any) -> Iterator[Any]:
    """The nodes of a tree in the order of its JSON."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        ahead += reversed(items(node.children()))


def _literals(node: Any) -> Iterator[Any]:
    """The literals in the expressions of a node of a plan."""
    for expression in items(node.expressions()):
        yield from (part for part in walk(expression) if part.nodeName() == "Literal")


def _put_bytes(described: Json, values: Mapping[str, str]) -> None:
    """Put the bytes of each literal in place of their number. Bytes of a plan within an expression are not known, and
    become null."""
    ahead = [described]
    while ahead:
        value = ahead.pop()
        if isinstance(value, dict):
            if "num-children" in value and kind_of(value) == "Literal" and _BYTES in str(value["value"]):
                value["value"] = values.get(value["value"])
            ahead += value.values()
        elif isinstance(value, list):
            ahead += value
