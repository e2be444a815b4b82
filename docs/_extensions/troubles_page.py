"""The directive `{troubles}`: each error of `tenure.errors`, its meaning, its exit code, and the lines that carry it.

Promise: the lists are made of the sources at each build: a line is the text that a `raise` or a helper gives to a class
of errors, with a word in capitals in the place of each value. Each class is there. Not promised: a line whose whole
text is computed, or comes from another program.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import getdoc
from pathlib import Path
from typing import Any, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from public_names import errors

import tenure

SOURCES: Final = Path(tenure.__file__).parent
_EDGE: Final = "\0"
"""Stands around the name of a value in a text."""
_VALUE: Final = re.compile(f"(?P<joined>(?<=[a-z]))?{_EDGE}(?P<name>[^{_EDGE}]*){_EDGE}(?P<again>(?=[a-z]))?")
COMPUTED: Final = "Do as the line says."
"""The remedy of a line that has one of many."""
_LEAST: Final = 7
"""Letters of its own that a line needs, to be found by them."""


@dataclass(frozen=True, order=True)
class Line:
    """One line that a user may see. `do` empty: the meaning of its class says what to do."""

    text: str
    kind: str
    do: str


def lines() -> list[Line]:
    """All lines of the sources, sorted."""
    trees = [ast.parse(module.read_text(encoding="utf-8")) for module in sorted(SOURCES.rglob("*.py"))]
    known: dict[str, str] = {}
    for tree in (*trees, *trees):  # twice: a text may have another text in it
        known |= _texts(tree.body, known)
    found: dict[tuple[str, str], Line] = {}
    for tree in trees:
        for line in (*_raised(tree, known), *_of_classes(tree, known)):
            before = found.get((line.kind, line.text))
            if before is None or before.do in ("", COMPUTED):
                found[line.kind, line.text] = line
    return sorted(line for line in found.values() if len(re.sub(r"[^a-z]", "", _VALUE.sub("", line.text))) >= _LEAST)


def _raised(tree: ast.Module, known: Mapping[str, str]) -> Iterator[Line]:
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        here = {**known, **_texts(ast.walk(function), known)}
        for node in ast.walk(function):
            called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
            if isinstance(node, ast.Call) and called in errors() and node.args:
                yield Line(_text(node.args[0], here), called, _fix(node, here, _ambiguous(function)))


def _of_classes(tree: ast.Module, known: Mapping[str, str]) -> Iterator[Line]:
    """The lines of classes that make their own text."""
    for kind in tree.body:
        if isinstance(kind, ast.ClassDef) and kind.name in errors():
            for node in ast.walk(kind):
                called = node.func if isinstance(node, ast.Call) else None
                if isinstance(called, ast.Attribute) and called.attr == "__init__" and isinstance(node, ast.Call):
                    yield Line(_text(node.args[0], known) if node.args else "", kind.name, _fix(node, known))


def _ambiguous(function: ast.FunctionDef) -> set[str]:
    """The names that a function gives several values."""
    given = Counter(
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    )
    return {name for name, count in given.items() if count > 1}


def _fix(call: ast.Call, known: Mapping[str, str], ambiguous: Collection[str] = ()) -> str:
    found = next((one.value for one in call.keywords if one.arg == "fix"), None)
    if isinstance(found, ast.Name) and found.id in ambiguous:
        return COMPUTED
    none = found is None or (isinstance(found, ast.Constant) and found.value is None)
    return "" if none or found is None else _text(found, known) or COMPUTED


def _texts(nodes: Iterable[ast.AST], known: Mapping[str, str]) -> dict[str, str]:
    """The texts and numbers to which assignments give a name."""
    found: dict[str, str] = {}
    for node in nodes:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        names = node.targets if isinstance(node, ast.Assign) else [node.target]
        text = "" if node.value is None else _text(node.value, known)
        for one in names:
            if isinstance(one, ast.Name) and text:
                found.setdefault(one.id, text)
    return found


def _text(node: ast.expr, known: Mapping[str, str]) -> str:
    """The words of an expression; a value is its name in capitals. Empty: it has none."""
    if isinstance(node, ast.Constant):
        return str(node.value) if isinstance(node.value, str | int) and not isinstance(node.value, bool) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_value(one, known) for one in node.values)
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "how_to_install":
        return "install it: the line has the command"
    return ""


def _value(node: ast.expr, known: Mapping[str, str]) -> str:
    if not isinstance(node, ast.FormattedValue):
        return _text(node, known)
    value: Any = node.value
    if isinstance(value, ast.Name) and known.get(value.id):
        return known[value.id]
    while isinstance(value, ast.Call):
        value = value.args[0] if value.args else value.func
    named = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else "value"
    return f"{_EDGE}{'target' if named == 'self' else named.strip('_')}{_EDGE}"


def markdown() -> Iterator[str]:
    """The whole list."""
    found = lines()
    for name in errors():
        kind = getattr(tenure, name)
        yield from (f"### {name}", "", " ".join((getdoc(kind) or "").split()), "", f"Exit code {kind.exit_code}.", "")
        for line in found:
            if line.kind == name:
                yield from (f"`{_flat(line.text)}`", f": {_flat(line.do) or _meaning(kind)}", "")


def pattern(text: str) -> re.Pattern[str]:
    """Matches the beginning of a printed line of this text, until its second value."""
    words = _VALUE.sub(_EDGE, text).rstrip(f" :;({_EDGE}")
    return re.compile(".*".join(re.escape(part) for part in words.split(_EDGE)[:2]))


def _meaning(kind: type) -> str:
    """What to do where no line says it."""
    return "Do as the meaning of the error says." if kind is not tenure.UsageError else "Mend the argument."


def _flat(text: str) -> str:
    """On one line, without backticks and without values inside words: those are parts that may be missing."""
    named = _VALUE.sub(
        lambda one: "" if one["joined"] is not None or one["again"] is not None else one["name"].upper(), text
    )
    return " ".join(named.replace("`", "").split())


class _Troubles(Directive):
    def run(self) -> list[nodes.Node]:
        found = nodes.section()
        self.state.nested_parse(
            StringList(list(markdown()), source="tenure"), self.content_offset, found, match_titles=True
        )
        return list(found.children)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("troubles", _Troubles)
    return {"parallel_read_safe": True}
