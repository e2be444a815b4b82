"""What decides the state of a query, read from Spark's analysed plan.

Promise: the same declaration has the same shape in each process. It differs where Spark's documentation says that a
query must not change over its state: the stateful operators, their kind, number and order; what rows are grouped,
deduplicated or joined by; the aggregates; the watermarks; the output mode; the columns of two sides that are joined,
and of state and output where a function keeps the state. Sources, filters and projections decide nothing, nor does the
code of a function. Not promised: that a column is computed as it was. It is known by its name and type where an
operator takes it, a window by its length, slide and start besides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.declarations.declaration import Shape
from tenure.pipelines.pipeline import Stream
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

_DECIDES_NOTHING: Final = frozenset(
    {
        *("class", "num-children", "child", "left", "right", "hint"),
        *("functionExpr", "func", "userFacingDataType"),
        *("hasInitialState", "initialState", "initGroupingAttrsLen", "initialStateSchema"),
        "limitExpr",  # what is kept is how many rows there were
    }
)
"""Fields of operators."""

_OF_WINDOWS: Final = "PreciseTimestampConversion"
"""An expression that nobody writes: Spark's analyser computes windows with it, in a projection before the operator."""


def shape_of(stream: Stream) -> Shape | None:
    """The shape of a declared query; None: it keeps no state."""
    plan = stream.rows._jdf.queryExecution().analyzed()
    if not plan.containsStatefulOperator():
        return None
    nodes = list(zip(_walk(plan), json.loads(plan.toJSON()), strict=True))
    windows = _Windows([said for _, said in nodes])
    found = [
        _watermark(node, said) if kind_of(said) == "EventTimeWatermark" else _operator(node, said, windows)
        for node, said in nodes
        if node.isStreaming() and (node.isStateful() or kind_of(said) == "EventTimeWatermark")
    ]
    text = json.dumps({"mode": stream.output_mode, "operators": [entry for entry, _ in found]}, sort_keys=True)
    return Shape.of(text, told="; ".join([*(words for _, words in found), f"{stream.output_mode} mode"]))


def _walk(plan: Any) -> Iterator[Any]:
    """The nodes of a plan in the order of its JSON."""
    ahead = [plan]
    while ahead:
        node = ahead.pop()
        yield node
        children = node.children()
        ahead += [children.apply(index) for index in reversed(range(children.size()))]


def _watermark(node: Any, said: Mapping[str, Json]) -> tuple[Json, str]:
    column, delay = said["eventTime"], node.delay().toString()
    return ["watermark", plain(column), delay], f"a watermark of {delay} on {in_words(column)}"


def _operator(node: Any, said: Mapping[str, Json], windows: _Windows) -> tuple[Json, str]:
    """What decides the state of a stateful operator, and the same for people."""
    fields = {name: value for name, value in said.items() if name not in _DECIDES_NOTHING}
    match kind_of(said):
        case "Aggregate":
            keys = expressions(fields.pop("groupingExpressions"))
            columns = expressions(fields.pop("aggregateExpressions"))
            functions = _once([one for column in columns for one in parts(column, "AggregateExpression")])
            entry = {"keys": [plain(one) for one in keys], "functions": [plain(one) for one in functions]}
            words = f"{_list(functions)} by {_list(keys)}"
        case "Join":
            condition = fields.pop("condition")
            keys = [condition] if is_expression(condition) else []
            entry = {side: _columns(getattr(node, side)()) for side in ("left", "right")}
            entry["condition"] = [plain(one, side=_side(node)) for one in keys]
            words = f"{plain_value(fields['joinType'])} join on {_list(keys)}"
        case "TransformWithStateInPySpark":
            keys = []
            entry = {"keys": _columns(node.left())[: fields.pop("groupingAttributesLen")]}
            words = f"transformWithState by {', '.join(name for name, _ in entry['keys'])}"
        case kind:
            keys = [one for value in fields.values() for one in expressions(value)]
            entry, words = {}, f"{kind} of {_list(keys)}"
    rest = {name: plain_value(value) for name, value in fields.items()}
    return {"is": kind_of(said), **entry, **rest, "windows": windows.behind(keys)}, words


def _once(found: Sequence[Expression]) -> list[Expression]:
    """Of those that are the same the first one, as Spark computes it once."""
    first: dict[str, Expression] = {}
    for one in found:
        first.setdefault(json.dumps(plain(one), sort_keys=True), one)
    return list(first.values())


def _list(found: Sequence[Expression]) -> str:
    return ", ".join(in_words(one) for one in found) or "nothing"


def _columns(node: Any) -> list[Json]:
    """The columns that a node of a plan gives, by name and type."""
    fields = json.loads(node.schema().json())["fields"]
    return [[field["name"].casefold(), plain_value(field["type"])] for field in fields]


def _side(join: Any) -> Callable[[int], str | None]:
    """Which side of a join a column in its condition is from."""
    columns, left = join.condition().get().references().toSeq(), join.left().outputSet()
    found = [columns.apply(index) for index in range(columns.size())]
    return {one.exprId().id(): "left" if left.contains(one) else "right" for one in found}.get


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
