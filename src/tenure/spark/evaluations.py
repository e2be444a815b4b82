"""What a second evaluation of one batch may compute otherwise, read from the plan of a query that keeps state.

The sink takes the first evaluation of a batch, and Spark's state is that of the last: where they differ, output and
state part for ever. Promise: each difference that Spark's plan shows below a stateful operator is named: a function
that is not deterministic, a sample, the clock, a table beside the streams. Not promised: what Spark does not know. A
function in Python counts as deterministic unless it is declared otherwise, and so do values that the pipeline file
computes. The order of rows within a batch is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

from tenure.spark.expressions import Json, expressions, is_expression, kind_of, parts
from tenure.spark.plans import Nodes, analyzed, has_state, items, optimized, read, walk
from tenure.spark.releases import is_stateful

TABLES: Final = "tables"
"""The name under which a pipeline allows the tables beside its streams."""

_CLOCKS: Final = {"Now": "now", "CurrentTime": "current_time"}
"""Expressions that read the clock at each evaluation. Spark puts the batch's own time, which the offsets keep, in the
place of the other functions of time."""

_CLOCK_TEXTS: Final = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Texts that Spark reads as times by the clock."""

_SAME: Final = frozenset({"InputFileName"})
"""Expressions that Spark calls not deterministic, and that are the same for the same inputs."""

_OF_THE_FILE: Final = frozenset({"Range", "LocalRelation", "LogicalRDD", "OneRowRelation"})
"""Tables whose rows the pipeline file itself has."""

_WITH_NAMES: Final = frozenset({"DataSourceV2Relation", "StreamingDataSourceV2Relation"})


@dataclass(frozen=True, slots=True, order=True)
class Difference:
    """A part of a query that may differ between two evaluations."""

    name: str
    """The name under which `job.may_differ` allows it."""
    told: str
    """For people."""


def differences(rows: DataFrame) -> tuple[Difference, ...]:
    """What may differ between two evaluations of a batch of a streaming query, below its stateful operators; empty also
    for a query without state. Raises Spark's own errors."""
    plan, optimized_plan = analyzed(rows), optimized(rows)
    if not has_state(plan, optimized_plan):
        return ()
    # The optimizer drops unused columns, and reads the clock: so the clocks are looked for in the plan before it.
    nodes = read(optimized_plan)
    found = {*_clocks(read(plan)), *_samples(nodes), *_tables(nodes)}
    if not optimized_plan.deterministic():
        found |= set(_functions(nodes))
    return tuple(sorted(found))


def _below_state(nodes: Nodes) -> Iterator[tuple[Any, Mapping[str, Json], bool]]:
    """The nodes of a plan, each with whether a stateful operator takes its rows."""
    ahead = [False]
    for node, data in nodes:
        below = ahead.pop() or kind_of(data) == "CTERelationDef"  # its rows go where its name stands
        yield node, data, below
        ahead += [below or is_stateful(node)] * int(data["num-children"])


def _clocks(nodes: Nodes) -> Iterator[Difference]:
    for node, data, below in _below_state(nodes):
        looked_at = list(data.values()) if below else _of_state(data) if is_stateful(node) else []
        for expression in _expressions(looked_at):
            for part, after in zip(expression, [*expression[1:], {}], strict=True):
                kind = kind_of(part)
                if kind in _CLOCKS:
                    yield Difference(_CLOCKS[kind], f"{_CLOCKS[kind]}()")
                elif kind == "Cast" and _is_clock(after) and str(part["dataType"]).startswith(("date", "timestamp")):
                    yield Difference("now", f"the time {after['value']!r}")


def _of_state(data: Mapping[str, Json]) -> list[Json]:
    """The fields of a stateful operator from which its state is computed."""
    if kind_of(data) != "Aggregate":
        return list(data.values())
    functions = [
        part for one in expressions(data["aggregateExpressions"]) for part in parts(one, "AggregateExpression")
    ]
    return [data["groupingExpressions"], functions]


def _expressions(fields: list[Json]) -> Iterator[Any]:
    """The expressions in fields of a node."""
    for field in fields:
        if is_expression(field):
            yield field
        elif isinstance(field, list):
            yield from _expressions(field)


def _is_clock(data: Mapping[str, Json]) -> bool:
    is_text = bool(data) and kind_of(data) == "Literal" and data["dataType"] == "string"
    return is_text and _CLOCK_TEXTS.match(str(data["value"])) is not None


def _samples(nodes: Nodes) -> Iterator[Difference]:
    """A sample draws by the order of the rows, and its seed is another in each process unless it is given."""
    for _, data, below in _below_state(nodes):
        if below and kind_of(data) == "Sample":
            yield Difference("sample", "a sample")


def _tables(nodes: Nodes) -> Iterator[Difference]:
    for node, _, below in _below_state(nodes):
        if below and not node.isStreaming():
            yield from _table(node)
        if below or is_stateful(node):
            for subquery in items(node.subqueries()):
                for leaf in walk(subquery):
                    yield from _table(leaf)


def _table(node: Any) -> Iterator[Difference]:
    if node.children().isEmpty() and node.nodeName() not in _OF_THE_FILE:
        yield Difference(TABLES, f"the table {_name_of(node)}")


def _name_of(leaf: Any) -> str:
    """A table beside the streams, for people."""
    kind = str(leaf.getClass().getSimpleName())
    if kind == "DataSourceV2ScanRelation":
        return str(leaf.relation().name())
    if kind in _WITH_NAMES:
        return str(leaf.name())
    if kind == "LogicalRelation":
        table, relation = leaf.catalogTable(), leaf.relation()
        if table.isDefined():
            return str(table.get().identifier().unquotedString())
        if relation.getClass().getSimpleName() == "HadoopFsRelation":
            return ", ".join(str(path.toString()) for path in items(relation.location().rootPaths()))
        return str(relation.toString())
    return str(leaf.nodeName())


def _functions(nodes: Nodes) -> Iterator[Difference]:
    for node, _, below in _below_state(nodes):
        if not below or node.deterministic():
            continue
        for expression in items(node.expressions()):
            for part in walk(expression):
                if _begins(part) and part.nodeName() not in _SAME:
                    yield Difference(_function(part), f"{_function(part)}()")


def _begins(part: Any) -> bool:
    """Whether a part of an expression is not deterministic by itself."""
    return not part.deterministic() and all(child.deterministic() for child in items(part.children()))


def _function(part: Any) -> str:
    kind = str(part.getClass().getSimpleName())
    return str(part.name() if "UDF" in kind or "UDTF" in kind else part.prettyName())
