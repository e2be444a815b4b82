"""What decides the state of a query, read from Spark's analysed plan, and from what its optimizer makes of that.

Promise: the same declaration has the same shape whenever and wherever it is declared. It differs where Spark's
documentation says that a query must not change over its state: the stateful operators, their kind, number and order;
what rows are grouped, deduplicated or joined by; the aggregates; the watermarks; the output mode; of state and output
what is declared where a function keeps the state. It differs as well where what is above an operator decides what Spark
keeps in it: which aggregates, in which order, which columns of two sides that are joined, and by what they are joined.
Other projections and filters decide nothing, nor do sources, or the code of a function. Not promised: that a column is
computed as it was. It is known by its name and type where an operator takes it, a window by its length, slide and start
besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tenure.declarations.declaration import Shape
from tenure.driver.spark_expressions import (
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
from tenure.driver.spark_plans import Nodes, items, optimized, read
from tenure.errors import PipelineFileError
from tenure.pipelines.pipeline import Stream
from tenure.spark.errors import one_line

_DECIDES_NOTHING: Final = frozenset(
    {
        *("class", "num-children", "child", "left", "right", "hint"),
        *("functionExpr", "func", "userFacingDataType"),
        *("hasInitialState", "initialState", "initGroupingAttrsLen", "initialStateSchema"),
        "limitExpr",  # what is kept is how many rows there were
    }
)
"""Fields of operators."""

_SETS: Final = frozenset({"Distinct", "Intersect", "Except"})
"""Operators that Spark makes aggregates of, by all their columns."""

_NOW: Final = re.compile("Current(Timestamp|Date|Time)|Now$|LocalTimestamp")
"""Expressions that are another value whenever Spark makes a plan."""

_OF_WINDOWS: Final = "PreciseTimestampConversion"
"""An expression that nobody writes: Spark's analyser computes windows with it, in a projection before the operator."""


def shape_of(stream: Stream) -> Shape | None:
    """The shape of a declared query; None: it keeps no state. Raises PipelineFileError: Spark makes no plan of it."""
    try:
        kept_of = optimized(stream.rows)
    except (PySparkException, Py4JJavaError) as error:
        raise PipelineFileError(f"stream {stream.name!r}: Spark makes no plan of it: {one_line(error)}") from error
    plan = stream.rows._jdf.queryExecution().analyzed()
    if not plan.containsStatefulOperator() and not kept_of.containsStatefulOperator():
        return None
    nodes = read(plan)
    windows, kept = _Windows([said for _, said in nodes]), _Kept(nodes, read(kept_of))
    found = [
        _watermark(node, said) if kind_of(said) == "EventTimeWatermark" else _operator(node, said, windows, kept)
        for node, said in nodes
        if node.isStreaming() and (node.isStateful() or kind_of(said) in {"EventTimeWatermark", *_SETS})
    ]
    text = json.dumps(
        {"mode": stream.output_mode, "operators": [entry for entry, _ in found], "kept": kept.operators},
        sort_keys=True,
    )
    words = [*(words for _, words in found), *kept.of_joins, f"{stream.output_mode} mode"]
    return Shape.of(text, told="; ".join(words))


def _watermark(node: Any, said: Mapping[str, Json]) -> tuple[Json, str]:
    column, delay = said["eventTime"], node.delay().toString()
    return ["watermark", plain(column), delay], f"a watermark of {delay} on {in_words(column)}"


def _operator(node: Any, said: Mapping[str, Json], windows: _Windows, kept: _Kept) -> tuple[Json, str]:
    """What decides the state of a stateful operator, and the same for people."""
    fields = {name: value for name, value in said.items() if name not in _DECIDES_NOTHING}
    match kind_of(said):
        case "Aggregate":
            keys = expressions(fields.pop("groupingExpressions"))
            functions = _once(_functions(fields.pop("aggregateExpressions")))
            entry = {"keys": [plain(one) for one in keys], "functions": [plain(one) for one in functions]}
            taken, left = kept.divide(functions)
            words = f"{_list(taken)} by {_list(keys)}{f', without {_list(left)}' if left else ''}"
        case "Join":
            condition = fields.pop("condition", None)
            keys = [condition] if is_expression(condition) else []
            entry = {"condition": [plain(one, side=_side(node)) for one in keys]}
            words = f"{plain_value(fields['joinType'])} join on {_list(keys)}"
        case "TransformWithStateInPySpark":
            keys = []
            entry = {"keys": _columns(node.left())[: fields.pop("groupingAttributesLen")]}
            words = f"transformWithState by {', '.join(name for name, _ in entry['keys'])}"
        case kind if kind in _SETS:
            keys = []
            entry = {"keys": _columns(node)}
            words = f"{kind} of {', '.join(name for name, _ in entry['keys'])}"
        case kind:
            keys = [one for value in fields.values() for one in expressions(value)]
            entry, words = {}, f"{kind} of {_list(keys)}"
    rest = {name: plain_value(value) for name, value in fields.items()}
    return {"is": kind_of(said), **entry, **rest, "windows": windows.behind(keys)}, words


class _Kept:
    """What Spark keeps of what is declared: it leaves out what nothing above an operator takes, and a projection above
    aggregates puts them into its own order."""

    def __init__(self, declared: Nodes, kept: Nodes) -> None:
        columns = [said["aggregateExpressions"] for _, said in declared if kind_of(said) == "Aggregate"]
        self._declared = {_result_id(one): one for some in columns for one in _functions(some)}
        self._values = not any(_NOW.match(kind) for _, said in declared for kind in _kinds(said))
        self._order: dict[str, int] = {}  # the text of a function -> where it is in the state
        self.of_joins: list[str] = []
        """What is kept of two sides, for people."""
        self.operators = [
            [kind_of(said), self._of(node, said)] for node, said in kept if node.isStreaming() and node.isStateful()
        ]
        """Of each stateful operator what it keeps."""

    def divide(self, functions: Sequence[Expression]) -> tuple[list[Expression], list[Expression]]:
        """Those that are kept, in the order in which they are, and those that are not."""
        taken = sorted((one for one in functions if _text(one) in self._order), key=lambda one: self._order[_text(one)])
        return taken, [one for one in functions if _text(one) not in self._order]

    def _of(self, node: Any, said: Mapping[str, Json]) -> Json:
        match kind_of(said):
            case "Aggregate":
                return [plain(one) for one in self._functions(said)]
            case "Join":
                left, right, condition = _columns(node.left()), _columns(node.right()), said.get("condition", ())
                sides = (", ".join(name for name, _ in side) for side in (left, right))
                self.of_joins.append("the join keeps ({}) and ({})".format(*sides))
                on = plain(condition, side=_side(node), values=self._values) if is_expression(condition) else None
                return [left, right, on, plain_value(said["joinType"])]
            case _:
                return None

    def _functions(self, said: Mapping[str, Json]) -> list[Expression]:
        """The functions of an aggregate as they were declared: a filter may have made others of them, which keep the
        same."""
        functions = _functions(said["aggregateExpressions"])
        found = _once([self._declared.get(_result_id(one), one) for one in functions])
        for one in found:
            self._order.setdefault(_text(one), len(self._order))
        return found


def _functions(columns: Json) -> list[Expression]:
    """The functions in the columns of an aggregate."""
    return [one for column in expressions(columns) for one in parts(column, "AggregateExpression")]


def _result_id(function: Expression) -> int:
    """The number that a function has in its process, whatever becomes of what it computes."""
    return int(function[0]["resultId"]["id"])


def _kinds(value: Json) -> Iterator[str]:
    """The classes of the nodes in a field."""
    if is_expression(value):
        yield from (kind_of(node) for node in value)
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _kinds(one)


def _text(one: Expression) -> str:
    return json.dumps(plain(one), sort_keys=True)


def _once(found: Sequence[Expression]) -> list[Expression]:
    """Of those that are the same the first one, as Spark computes it once."""
    first: dict[str, Expression] = {}
    for one in found:
        first.setdefault(_text(one), one)
    return list(first.values())


def _list(found: Sequence[Expression]) -> str:
    return ", ".join(in_words(one) for one in found) or "nothing"


def _columns(node: Any) -> list[Json]:
    """The columns that a node of a plan gives, by name and type."""
    fields = json.loads(node.schema().json())["fields"]
    return [[field["name"].casefold(), plain_value(field["type"])] for field in fields]


def _side(join: Any) -> Callable[[int], str | None]:
    """Which side of a join a column in its condition is from."""
    columns, left = items(join.condition().get().references().toSeq()), join.left().outputSet()
    return {one.exprId().id(): "left" if left.contains(one) else "right" for one in columns}.get


class _Windows:
    """How the windows of a plan are computed."""

    def __init__(self, nodes: Sequence[Mapping[str, Json]]) -> None:
        self._computed: dict[int, list[Expression]] = {}  # the id of a column -> what is computed for it
        for node in nodes:
            match kind_of(node):
                case "Project":
                    named = expressions(node["projectList"])
                    self._note([one[0] for one in named], [named])
                case "Expand":
                    columns = expressions(node["output"])
                    self._note([one[0] for one in columns], [expressions(row) for row in node["projections"]])

    def behind(self, keys: Sequence[Expression]) -> list[Json]:
        """How those are computed that the keys are, or are taken from."""
        found: list[Json] = []
        seen: set[int] = set()
        ahead = [column_id(node) for key in keys for node in key]
        while ahead:
            column = ahead.pop(0)
            if column is None or column in seen:
                continue
            seen.add(column)
            for computed in self._computed.get(column, ()):
                if any(kind_of(node) == _OF_WINDOWS for node in computed):
                    found.append(plain(computed))
                else:
                    ahead += [column_id(node) for node in computed]
        return found

    def _note(self, columns: Sequence[Mapping[str, Json]], rows: Sequence[Sequence[Expression]]) -> None:
        for index, node in enumerate(columns):
            column = column_id(node)
            if column is not None and kind_of(rows[0][index][0]) != "AttributeReference":
                self._computed[column] = [row[index] for row in rows]
