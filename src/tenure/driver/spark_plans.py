"""Spark's plans, read node by node.

Promise: a plan that is read in two processes says the same where its query is the same, but for the numbers that are of
one process. Nothing of a stream is read. Of stateful operators the optimized plan says the same whatever is in the
tables beside the streams: Spark moves none of them by statistics, and leaves none out as a table is empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from tenure.driver.spark_expressions import Json, kind_of

Nodes = Sequence[tuple[Any, Mapping[str, Json]]]
"""The nodes of a plan, each before those below it: what the JVM has, and what its JSON says."""

_BYTES: Final = "[B@"
"""How Java says an array of bytes: with a number of one process."""


def read(plan: Any) -> Nodes:
    """The nodes of a plan."""
    nodes, text = list(_walk(plan)), str(plan.toJSON())
    said = json.loads(text)
    if _BYTES in text:
        literals = [one for node in nodes for one in _literals(node)]
        _put_bytes(said, {json.loads(one.toJSON())[0]["value"]: str(one.sql()) for one in literals})
    return list(zip(nodes, said, strict=True))


def optimized(rows: DataFrame) -> Any:
    """What Spark's optimizer makes of the plan of a streaming query."""
    session: Any = rows._jdf.sparkSession()
    sessions: Any = rows.sparkSession._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr] # it has one
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)  # whose settings the optimizer reads
    try:
        return session.sessionState().optimizer().execute(rows._jdf.queryExecution().analyzed())
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def items(found: Any) -> list[Any]:
    """What is in a sequence of Scala's."""
    return [found.apply(index) for index in range(found.size())]


def _walk(tree: Any) -> Iterator[Any]:
    """The nodes of a tree in the order of its JSON."""
    ahead = [tree]
    while ahead:
        node = ahead.pop()
        yield node
        ahead += reversed(items(node.children()))


def _literals(node: Any) -> Iterator[Any]:
    """The literals in the expressions of a node of a plan."""
    for expression in items(node.expressions()):
        yield from (one for one in _walk(expression) if one.nodeName() == "Literal")


def _put_bytes(said: Json, values: Mapping[str, str]) -> None:
    """Say in each literal what its bytes are. One that is of a plan in an expression is not known: it says nothing."""
    ahead = [said]
    while ahead:
        one = ahead.pop()
        if isinstance(one, dict):
            if "num-children" in one and kind_of(one) == "Literal" and _BYTES in str(one["value"]):
                one["value"] = values.get(one["value"])
            ahead += one.values()
        elif isinstance(one, list):
            ahead += one
