"""The shape of a query's state, read from Spark's analysed and optimized plans.

Promise: the same declaration has the same shape at any time, in any process, and with each release of Spark that Tenure
runs on. Two declarations differ in shape where Spark's documentation forbids a change over existing state: in the
stateful operators, their kind, number and order; in the keys of groups, deduplications and joins; in the aggregates,
the watermarks and the output mode; where a function keeps the state, in its declared state and output. They also differ
where the operators above decide which state Spark keeps: the aggregates and their order, the columns of the two sides
of a join, and its condition. Other projections and filters, sources, and the code of functions do not count. Not
promised: that a column is computed as before. The shape has the name and type of a column that an operator takes, and
the length, slide and start of a window.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tenure.declarations.declaration import Shape
from tenure.errors import PipelineFileError
from tenure.spark.errors import one_line
from tenure.spark.expressions import (
    Expression,
    Json,
    column_id,
    expressions,
    in_words,
    is_expression,
    kind_of,
    parts,
    plain,
    plain_value,
)
from tenure.spark.plans import DeclaredQuery, Nodes, analyzed, has_state, items, optimized, read
from tenure.spark.releases import TRANSFORM_IN_PYTHON, is_stateful, name_now, refuse_arrow

_DECIDES_NOTHING: Final = frozenset(
    {
        *("class", "num-children", "child", "left", "right", "hint"),
        *("functionExpr", "func", "userFacingDataType"),
        *("hasInitialState", "initialState", "initGroupingAttrsLen", "initialStateSchema"),
        "limitExpr",  # the state is the number of rows so far
    }
)
"""Fields of operators that the shape leaves out."""

_SETS: Final = frozenset({"Distinct", "Intersect", "Except"})
"""Operators that Spark turns into aggregates over all their columns."""

_NOW: Final = re.compile("Current(Timestamp|Date|Time)|Now$|LocalTimestamp")
"""Expressions whose value differs each time Spark makes a plan."""

_OF_WINDOWS: Final = "PreciseTimestampConversion"
"""The expression with which Spark's analyser computes windows, in a projection before the operator."""


def shape_of(stream: DeclaredQuery) -> Shape | None:
    """The shape of a declared query; None: the query keeps no state. Raises PipelineFileError: Spark cannot plan it;
    UsageError: it fails with the installed packages."""
    try:
        plan, optimized_plan = analyzed(stream.rows), optimized(stream.rows)
        if not has_state(plan, optimized_plan):
            return None
        nodes, optimized_nodes = read(plan), read(optimized_plan)
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineFileError(f"stream {stream.name!r}: Spark makes no plan of it: {one_line(error)}") from error
    windows, kept = _Windows([data for _, data in nodes]), _Kept(nodes, optimized_nodes)
    operators = [
        _watermark(node, data) if kind_of(data) == "EventTimeWatermark" else _operator(node, data, windows, kept)
        for node, data in nodes
        if node.isStreaming() and (is_stateful(node) or kind_of(data) in {"EventTimeWatermark", *_SETS})
    ]
    text = json.dumps(
        {"mode": stream.output_mode, "operators": [entry for entry, _ in operators], "kept": kept.operators},
        sort_keys=True,
    )
    words = [*(words for _, words in operators), *kept.of_joins, f"{stream.output_mode} mode"]
    return Shape.of(text, told="; ".join(words))


def _watermark(node: Any, data: Mapping[str, Json]) -> tuple[Json, str]:
    column, delay = data["eventTime"], node.delay().toString()
    return ["watermark", plain(column), delay], f"a watermark of {delay} on {in_words(column)}"


def _operator(node: Any, data: Mapping[str, Json], windows: _Windows, kept: _Kept) -> tuple[Json, str]:
    """The part of a stateful operator in the shape, and its text for people."""
    fields = {name: value for name, value in data.items() if name not in _DECIDES_NOTHING}
    refuse_arrow(kind_of(data))
    match kind_of(data):
        case "Aggregate":
            keys = expressions(fields.pop("groupingExpressions"))
            functions = _once(_functions(fields.pop("aggregateExpressions")))
            entry = {"keys": [plain(key) for key in keys], "functions": [plain(function) for function in functions]}
            taken, dropped = kept.divide(functions)
            words = f"{_list(taken)} by {_list(keys)}{f', without {_list(dropped)}' if dropped else ''}"
        case "Join":
            condition = fields.pop("condition", None)
            keys = [condition] if is_expression(condition) else []
            entry = {"condition": [plain(key, side=_side(node)) for key in keys]}
            words = f"{plain_value(fields['joinType'])} join on {_list(keys)}"
        case kind if name_now(kind) == TRANSFORM_IN_PYTHON:
            keys = []
            entry = {"keys": _columns(node.left())[: fields.pop("groupingAttributesLen")]}
            words = f"transformWithState by {', '.join(name for name, _ in entry['keys'])}"
        case kind if kind in _SETS:
            keys = []
            entry = {"keys": _columns(node)}
            words = f"{kind} of {', '.join(name for name, _ in entry['keys'])}"
        case kind:
            keys = [key for value in fields.values() for key in expressions(value)]
            entry, words = {}, f"{kind} of {_list(keys)}"
    # An older release of Spark does not have the fields that are empty here.
    rest = {name: plain_value(value) for name, value in fields.items() if value is not None}
    return {"is": name_now(kind_of(data)), **entry, **rest, "windows": windows.behind(keys)}, words


class _Kept:
    """The state that Spark keeps of a declaration: without the columns that no operator above takes, and with
    aggregates in the order of the projection above them."""

    def __init__(self, declared: Nodes, kept: Nodes) -> None:
        columns = [data["aggregateExpressions"] for _, data in declared if kind_of(data) == "Aggregate"]
        self._declared = {_result_id(function): function for some in columns for function in _functions(some)}
        self._values = not any(_NOW.match(kind) for _, data in declared for kind in _kinds(data))
        self._order: dict[str, int] = {}  # the text of a function -> its position in the state
        self.of_joins: list[str] = []
        """The kept columns of each join, for people."""
        self.operators = [[name_now(kind_of(data)), self._of(node, data)] for node, data in kept if is_stateful(node)]
        """Each stateful operator and its kept state."""

    def divide(self, functions: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """The kept functions, in the order of the state, and the dropped functions."""
        texts = {_text(function): function for function in functions}
        taken = sorted((text for text in texts if text in self._order), key=self._order.__getitem__)
        return [texts[text] for text in taken], [texts[text] for text in texts if text not in self._order]

    def _of(self, node: Any, data: Mapping[str, Json]) -> Json:
        match kind_of(data):
            case "Aggregate":
                return [plain(function) for function in self._functions(data)]
            case "Join":
                left, right, condition = _columns(node.left()), _columns(node.right()), data.get("condition", ())
                sides = (", ".join(name for name, _ in side) for side in (left, right))
                self.of_joins.append("the join keeps ({}) and ({})".format(*sides))
                on = plain(condition, side=_side(node), values=self._values) if is_expression(condition) else None
                return [left, right, on, plain_value(data["joinType"])]
            case _:
                return None

    def _functions(self, data: Mapping[str, Json]) -> list[Expression]:
        """The functions of an aggregate as declared: a filter may have rewritten them, with the same state."""
        optimized_functions = _functions(data["aggregateExpressions"])
        functions = _once([self._declared.get(_result_id(function), function) for function in optimized_functions])
        for function in functions:
            self._order.setdefault(_text(function), len(self._order))
        return functions


def _functions(columns: Json) -> list[Expression]:
    """The functions in the columns of an aggregate."""
    return [function for column in expressions(columns) for function in parts(column, "AggregateExpression")]


def _result_id(function: Expression) -> int:
    """The number of a function in its process, which rewrites keep."""
    return int(function[0]["resultId"]["id"])


def _kinds(value: Json) -> Iterator[str]:
    """The classes of the nodes in a field."""
    if is_expression(value):
        yield from (kind_of(node) for node in value)
    elif isinstance(value, list | dict):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _kinds(part)


def _text(expression: Expression) -> str:
    return json.dumps(plain(expression), sort_keys=True)


def _once(functions: Sequence[Expression]) -> list[Expression]:
    """The functions without repetitions, as Spark computes equal functions once."""
    first: dict[str, Expression] = {}
    for function in functions:
        first.setdefault(_text(function), function)
    return list(first.values())


def _list(listed: Sequence[Expression]) -> str:
    return ", ".join(map(in_words, listed)) or "nothing"


def _columns(node: Any) -> list[Json]:
    """The output columns of a node of a plan: their names and types."""
    fields = json.loads(node.schema().json())["fields"]
    return [[field["name"].casefold(), plain_value(field["type"])] for field in fields]


def _side(join: Any) -> Callable[[int], str | None]:
    """A function: the number of a column in a join's condition -> the column's side."""
    columns, left = items(join.condition().get().references().toSeq()), join.left().outputSet()
    return {column.exprId().id(): "left" if left.contains(column) else "right" for column in columns}.get


class _Windows:
    """How the windows of a plan are computed."""

    def __init__(self, nodes: Sequence[Mapping[str, Json]]) -> None:
        self._computed: dict[int, list[Expression]] = {}  # the number of a column -> its expressions
        for node in nodes:
            match kind_of(node):
                case "Project":
                    named = expressions(node["projectList"])
                    self._note([expression[0] for expression in named], [named])
                case "Expand":
                    columns = expressions(node["output"])
                    rows = [expressions(row) for row in node["projections"]]
                    self._note([expression[0] for expression in columns], rows)

    def behind(self, keys: Sequence[Expression]) -> list[Json]:
        """The expressions of the windows from which the keys are computed."""
        windows: list[Json] = []
        visited: set[int] = set()
        ahead = [column_id(node) for key in keys for node in key]
        while ahead:
            column = ahead.pop(0)
            if column is None or column in visited:
                continue
            visited.add(column)
            for computed in self._computed.get(column, ()):
                if any(kind_of(node) == _OF_WINDOWS for node in computed):
                    windows.append(plain(computed))
                else:
                    ahead += [column_id(node) for node in computed]
        return windows

    def _note(self, columns: Sequence[Mapping[str, Json]], rows: Sequence[Sequence[Expression]]) -> None:
        for index, node in enumerate(columns):
            column = column_id(node)
            if column is not None and kind_of(rows[0][index][0]) != "AttributeReference":
                self._computed[column] = [row[index] for row in rows]
