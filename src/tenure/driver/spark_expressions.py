"""Spark's expressions as plain data: the JSON of a node of Spark's plans without what is of one process.

Promise: the same expression, analysed in two processes, is the same data, however deep it is. A column is its name and
type. No Spark in here: what comes in is what `TreeNode.toJSON` said, each node before those below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

Json = Any
"""What a JSON text says."""

Expression = Sequence[Mapping[str, Json]]
"""The nodes of one expression."""

_NOT_COMPARED: Final = frozenset({"nullable", "containsNull", "valueContainsNull", "metadata", "serializedClass"})
"""Of types: Spark lets them change over stored state; the last is code of Python's."""

_OF_ONE_PROCESS: Final = frozenset({"class", "exprId", "resultId", "qualifier", "func"})
"""Of nodes, or told otherwise."""

_OF_A_QUERY: Final = frozenset({"plan"})
"""Of an expression that is a query of its own: it computes a value."""

_SEED: Final = {"CountMinSketchAgg": "seedExpression"}
"""Of a function, which of its children is a seed: one that is not given is another one whenever a query is declared."""


def is_expression(value: Json) -> bool:
    """Whether a field holds an expression, and not a list of them, or something else."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def expressions(value: Json) -> list[Expression]:
    """The expressions in a field that holds a list of them; none: it holds something else."""
    return [one for one in value if is_expression(one)] if isinstance(value, list) else []


def kind_of(node: Mapping[str, Json]) -> str:
    """The class of a node without its package."""
    return _short(node["class"])


def column_id(node: Mapping[str, Json]) -> int | None:
    """The number that a column, or what is named as one, has in its process; None: the node is neither."""
    found = node.get("exprId")
    return None if found is None else int(found["id"])


def parts(one: Expression, kind: str) -> Iterator[Expression]:
    """The expressions of a kind that are in one, in order."""
    for begin, node in enumerate(one):
        if kind_of(node) == kind:
            yield one[begin : _end(one, begin)]


def plain(one: Expression, *, side: Callable[[int], str | None] = lambda column: None, values: bool = True) -> Json:
    """The expression as data. `side`: of a join, which of them a column is from. `values`: with those of literals."""
    seeds = _seeds(one)
    variables: dict[int, int] = {}  # of lambda functions: the number of one in its process -> which it is in here
    said = []
    for position, node in enumerate(one):
        match kind_of(node):
            case "Alias":
                continue
            case "NamedLambdaVariable":
                number = variables.setdefault(node["exprId"]["id"], len(variables))
                said.append({"is": "NamedLambdaVariable", "number": number, "type": plain_value(node["dataType"])})
            case "Literal" if position in seeds or not values:
                said.append({"is": "Literal", "type": plain_value(node["dataType"])})
            case _:
                said.append(_plain_node(node, side))
    return said


def plain_value(value: Json) -> Json:
    """The value of a field as data: an expression, a type, a word of Spark's, or lists of these."""
    if is_expression(value):
        return plain(value)
    if isinstance(value, list):
        return [plain_value(one) for one in value]
    if isinstance(value, dict):
        if set(value) == {"object"}:
            return _short(value["object"])
        return {name: plain_value(one) for name, one in value.items() if name not in _NOT_COMPARED}
    return value


def in_words(one: Expression) -> str:
    """The expression for people, in short."""
    made: list[str] = []  # what is below a node is made before it
    for node in reversed(one):
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
    return {"is": kind, **{name: plain_value(value) for name, value in node.items() if name not in left_out}}


def _seeds(one: Expression) -> set[int]:
    """Where the seeds are."""
    found = set()
    for position, node in enumerate(one):
        if (field := _SEED.get(kind_of(node))) is not None:
            child = position + 1
            for _ in range(node[field]):
                child = _end(one, child)
            found |= set(range(child, _end(one, child)))
    return found


def _end(one: Expression, begin: int) -> int:
    """Where what is below a node ends."""
    end, open_ends = begin, 1
    while open_ends:
        open_ends += one[end]["num-children"] - 1
        end += 1
    return end


def _short(name: str) -> str:
    return name.rstrip("$").replace("$", ".").rsplit(".", 1)[-1]
