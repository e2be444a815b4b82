"""The directive `{public}`: the public names of Tenure with their docstrings. `{public} Job pipeline` shows these names
of the package, `{public} sinks.Delta` that of a module of it, and `{public} errors` all errors.

Promise: names, signatures and texts are those of the code at each build (Sphinx's autodoc). Docstrings of the tree are
Markdown: their code in backticks becomes code here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import tenure

SHOWN: Final = {
    "tenure.Batch": "(scope, query, query_id, id, epoch, short=False, ttl=timedelta(seconds=10))",
    "tenure.sinks.Delta": "(path_or_url, *, key=(), partition_by=(), storage_options=None, name=None)",
    "tenure.sinks.Kafka": "(servers, topic=None, *, settings={}, ledger=None)",
    "tenure.sinks.MySQL": "(url, table, *, mode='append', keys=())",
    "tenure.sinks.Postgres": "(url, table, *, mode='append', keys=())",
}
"""Signatures of classes whose own has more than callers need, or says less."""

CALLED: Final = ("Job", "Batch", "Written", "Delta", "Iceberg", "Files", "Postgres", "MySQL", "Kafka", "ForeachBatch")
"""Classes whose objects a pipeline or its tests make."""

_CODE: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def errors() -> list[str]:
    """The names of all errors, in the order of their module: roots before what descends from them."""
    family = [tenure.TenureError]
    for kind in family:
        family += kind.__subclasses__()  # grows while it is walked
    named = {kind.__name__ for kind in family}
    return [name for name in vars(tenure.errors) if name in named]


def described(name: str) -> list[str]:
    """What autodoc is asked for a name."""
    found: Any = tenure
    for part in name.split("."):
        found = getattr(found, part)
    if not isinstance(found, type):
        return [f".. autofunction:: tenure.{name}"]
    if issubclass(found, tenure.TenureError):
        return [f".. autoexception:: tenure.{name}", "   :show-inheritance:"]
    members = [] if name.startswith("sinks.") else ["   :members:"]  # the methods of a sink are those of `Sink`
    inherited = ["   :inherited-members:"] if found.__name__.endswith("Handles") else []
    return [f".. autoclass:: tenure.{name}", *members, *inherited]


def markdown(names: Sequence[str]) -> Iterator[str]:
    """The names, as a page says it."""
    yield "```{eval-rst}"
    for name in errors() if list(names) == ["errors"] else names:
        yield from (*described(name), "")
    yield "```"


def as_rst(*called: Any) -> None:
    """Let Sphinx read the code of a docstring as code, and other marks of its own as text."""
    lines: list[str] = called[-1]
    parts = _CODE.split("\n".join(lines))
    plain = [re.sub(r"([*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    code = [f"``{part}``" for part in parts[1::2]]
    lines[:] = "".join(part for pair in zip(plain, [*code, ""], strict=True) for part in pair).split("\n")


def as_called(_: Any, what: str, name: str, *called: Any) -> tuple[str, str | None] | None:
    """The signature of a class that callers make; none where Tenure makes the objects."""
    if what not in ("class", "exception"):
        return None
    makes = what == "class" and name.rpartition(".")[2] in CALLED
    *_, given, _ = called
    return (SHOWN.get(name, given) if makes else "", None)


class _Public(Directive):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        found = nodes.container()
        lines = markdown(self.arguments[0].split())
        self.state.nested_parse(StringList(list(lines), source="tenure"), self.content_offset, found)
        return list(found.children)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.setup_extension("sphinx.ext.autodoc")
    sphinx.add_directive("public", _Public)
    sphinx.connect("autodoc-process-docstring", as_rst)
    sphinx.connect("autodoc-process-signature", as_called)
    return {"parallel_read_safe": True}
