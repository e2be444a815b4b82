"""Spark's expressions as plain data: the JSON of Spark's plans without the parts that only one process knows.

Promise: the same expression, analysed in two processes, gives the same data, at any depth. A column is its name and
type. Nothing here calls Spark: the input is the JSON of `TreeNode.toJSON`, each node before its children.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tenure.spark.releases import field_now, name_now, nodes_now

Json = Any
"""The value of a JSON text."""

Expression = Sequence[Mapping[str, Json]]
"""The nodes of one expression."""

_NOT_COMPARED: Final = frozenset({"nullable", "containsNull", "valueContainsNull", "metadata", "serializedClass"})
"""Fields of types. Spark lets them change over stored state; the last holds code of Python."""

_OF_ONE_PROCESS: Final = frozenset({"class", "exprId", "resultId", "qualifier", "func"})
"""Fields of nodes that differ between processes, or whose facts stand in other fields."""

_OF_A_QUERY: Final = frozenset({"plan"})
"""A field of an expression that is a query of its own: that query computes a value."""

_SEED: Final = {"CountMinSketchAgg": "seedExpression"}
"""Function -> its child that is a seed. A seed that is not given differs in each declaration of a query."""


def is_expression(value: Json) -> bool:
    """Whether a field holds one expression, not a list of expressions or another value."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def expressions(value: Json) -> list[Expression]:
    """The expressions of a field that holds a list of them; empty for any other field."""
    return [entry for entry in value if is_expression(entry)] if isinstance(value, list) else []


def kind_of(node: Mapping[str, Json]) -> str:
    """The class of a node without its package."""
    return _short(node["class"])


def column_id(node: Mapping[str, Json]) -> int | None:
    """The number of a column or alias in its process; None: the node is neither."""
    number = node.get("exprId")
    return None if number is None else int(number["id"])


def parts(expression: Expression, kind: str) -> Iterator[Expression]:
    """The parts of an expression that are of a kind, in order."""
    for begin, node in enumerate(expression):
        if kind_of(node) == kind:
            yield expression[begin : _end(expression, begin)]


def plain(
    expression: Expression, *, side: Callable[[int], str | None] = lambda column: None, values: bool = True
) -> Json:
    """The expression as data. `side`: column -> its side of a join. `values`: include the values of literals."""
    seeds = _seeds(expression)
    variables: dict[int, int] = {}  # a lambda variable's number in its process -> its number in this expression
    nodes: list[Json] = []
    for position, node in enumerate(nodes_now(expression)):
        match kind_of(node):
            case "Alias":
                continue
            case "NamedLambdaVariable":
                number = variables.setdefault(node["exprId"]["id"], len(variables))
                nodes.append({"is": "NamedLambdaVariable", "number": number, "type": plain_value(node["dataType"])})
            case "Literal" if position in seeds or not values:
                nodes.append({"is": "Literal", "type": plain_value(node["dataType"])})
            case _:
                nodes.append(_plain_node(node, side))
    return nodes


def plain_value(value: Json) -> Json:
    """The value of a field as data: an expression, a type, a name of Spark's, or a list of these."""
    if is_expression(value):
        return plain(value)
    if isinstance(value, list):
        return [plain_value(entry) for entry in value]
    if isinstance(value, dict):
        if set(value) == {"object"}:
            return _short(value["object"])
        return {name: plain_value(field) for name, field in value.items() if name not in _NOT_COMPARED}
    return value


def in_words(expression: Expression) -> str:
    """The expression for people, in short."""
    made: list[str] = []  # the texts of children, which come before their node
    for node in reversed(expression):
        below = [made.pop() for _ in range(node["num-children"])]
        match kind_of(node):
            case "Alias" | "AggregateExpression" | "Cast":
                made.append(below[0])
            case "AttributeReference":
                made.append(str(node["name"]))
            case "Literal":
                made.append(str(node["value"]))
            case "NamedLambdaVariable":
                made.append(re.sub(r"_\d+$", "", node["name"]))
            case "PythonUDF":
                made.append(f"{node['name']}({', '.join(below)})")
            case kind:
                made.append(f"{kind.lower()}({', '.join(below)})")
    return made[0]


def _plain_node(node: Mapping[str, Json], side: Callable[[int], str | None]) -> Json:
    kind, column = kind_of(node), column_id(node)
    if kind == "AttributeReference" and column is not None:
        return [node["name"].casefold(), plain_value(node["dataType"]), side(column)]
    left_out = _OF_ONE_PROCESS | _NOT_COMPARED | _OF_A_QUERY
    kept = {field_now(kind, name): plain_value(value) for name, value in node.items() if name not in left_out}
    return {"is": name_now(kind), **kept}


def _seeds(expression: Expression) -> set[int]:
    """The positions of the nodes of seeds."""
    seeds = set()
    for position, node in enumerate(expression):
        if (field := _SEED.get(kind_of(node))) is not None:
            child = position + 1
            for _ in range(node[field]):
                child = _end(expression, child)
            seeds |= set(range(child, _end(expression, child)))
    return seeds


def _end(expression: Expression, begin: int) -> int:
    """The position after the last node below the node at `begin`."""
    end, open_ends = begin, 1
    while open_ends:
        open_ends += expression[end]["num-children"] - 1
        end += 1
    return end


def _short(name: str) -> str:
    return name.rstrip("$").replace("$", ".").rsplit(".", 1)[-1]
