"""The directives `{metrics}`, `{events}`, `{verdicts}` and `{checks}`: every figure of /metrics, every event of
`--event-log`, every rule of `tenure status`, and every check of `tenure doctor`.

Promise: the lists are made of the code at each build, so they cannot differ from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from inspect import getdoc
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from tenure.agent.metrics import METRICS
from tenure.doctor.checks import CHECKS
from tenure.events import Event
from tenure.operate.verdict import RULES
from tenure.progress import LongWork
from tenure.ui.fleet_figures import SCOPE_METRICS


def metrics() -> Iterator[str]:
    """The list of figures, in Markdown."""
    yield from _listed(METRICS)


def fleet_metrics() -> Iterator[str]:
    """The list of the figures of `tenure ui`, in Markdown."""
    yield from _listed(SCOPE_METRICS)


def _listed(table: Mapping[str, tuple[str, str, tuple[str, ...]]]) -> Iterator[str]:
    for name, (kind, what, labels) in table.items():
        beside = ", ".join(f"`{label}`" for label in labels)
        yield from (
            f"`tenure_{name}`",
            f": {what}.",
            "",
            f"  {kind.capitalize()}{beside and '; labels: '}{beside}.",
            "",
        )


def events() -> Iterator[str]:
    """The list of events with a place in the log, in Markdown."""
    for name, kind in sorted(Event.kinds.items()):
        if kind.__subclasses__() or kind is LongWork:
            continue  # a base of others
        own = ", ".join(f"`{one.name}`" for one in fields(kind) if one.name != "scope")
        about = " ".join((getdoc(kind) or "").split()) if "__doc__" in vars(kind) else ""
        said = about if about and not about.startswith(f"{name}(") else "The member prints the line for people."
        yield from (f"`{name}`", f": {said}", "", f"  Fields: {own or 'none'}.", "")


_NAMES = {"run": "tenure run", "log": "the file of --spark-log"}
"""What a rule fills in for its scope."""


def verdicts() -> Iterator[str]:
    """The rules of the verdict as a table, in Markdown."""
    yield from ("| symptom | level | rule | do |", "|---|---|---|---|")
    for rule in RULES:
        yield f"| {rule.when} | {rule.level.value} | `{rule.name}` | {rule.do.format_map(_NAMES) or 'nothing'} |"


def checks() -> Iterator[str]:
    """The checks of the doctor in their order, in Markdown."""
    for check in CHECKS:
        needs = f" Needs {', '.join(check.needs)}." if check.needs else ""
        yield from (f"`{check.name}`", f": Looks at this: {check.looks}.{needs}", "")
        yield from (f"  Where it fails: {check.otherwise}.", "")


class _List(Directive):
    lines = staticmethod(metrics)

    def run(self) -> list[nodes.Node]:
        found = nodes.container()
        self.state.nested_parse(StringList(list(self.lines()), source="tenure"), self.content_offset, found)
        return list(found.children)


class _FleetMetrics(_List):
    lines = staticmethod(fleet_metrics)


class _Events(_List):
    lines = staticmethod(events)


class _Verdicts(_List):
    lines = staticmethod(verdicts)


class _Checks(_List):
    lines = staticmethod(checks)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("metrics", _List)
    sphinx.add_directive("fleet-metrics", _FleetMetrics)
    sphinx.add_directive("events", _Events)
    sphinx.add_directive("verdicts", _Verdicts)
    sphinx.add_directive("checks", _Checks)
    return {"parallel_read_safe": True}
