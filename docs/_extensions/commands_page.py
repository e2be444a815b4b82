"""The directive `{commands}`: every command of `tenure`, with arguments, flags, defaults, variables, and an example.

Promise: the list is made of the command line itself at each build, so it cannot differ from it. The example is that of
the help.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import typer.main
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from settings_page import shown

from tenure.cli.commands import COMMANDS, app_of
from tenure.settings import Settings

_EXAMPLE: Final = "Example:"
_WIDEST: Final = 76
"""Columns of an example."""


def commands() -> Iterator[tuple[str, Any]]:
    """Each command by the words that name it, in the order of the help."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        below = getattr(command, "commands", None)
        if not below:
            yield name, command
        for word, one in (below or {}).items():
            yield from walk(f"{name} {word}", one)

    return walk("tenure", typer.main.get_command(app_of(COMMANDS)))


def example_of(command: Any) -> tuple[str, str]:
    """The help of a command without its example, and the example; empty: there is none."""
    text, _, example = (command.help or "").partition(_EXAMPLE)
    return text.strip(), " ".join(example.split())


def described(parameter: Any) -> Iterator[str]:
    """One argument or flag, in Markdown."""
    setting = Settings.model_fields.get(parameter.name)
    kind = parameter.type_descriptor.annotation
    takes = "" if kind is bool else f" {parameter.metavar or _placeholder(kind)}"
    is_flag = parameter.opts[0].startswith("-")
    name = ", ".join((*parameter.opts, *parameter.secondary_opts)) + takes if is_flag else _argument(parameter)
    meaning = " ".join((setting.description if setting and setting.description else parameter.help or "").split())
    default = setting.get_default(call_default_factory=True) if setting else parameter.default
    facts = [f"Variable: `TENURE_{parameter.name.upper()}`."] if setting else []
    if kind is not bool and default not in (None, "", [], {}, ()):
        facts.append(f"Default: {shown(getattr(default, 'value', default))}.")
    if parameter.required:
        facts.append("Required.")
    said = " ".join((meaning.rstrip(".") + ".", *facts))
    yield from (f"`{name}`", f": {said}", "")


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _placeholder(kind: Any) -> str:
    words = getattr(kind, "__members__", None)
    if words:
        return "|".join(str(one.value) for one in words.values())
    return "NUMBER" if kind is int else "TEXT"


def _folded(example: str) -> str:
    """The example on lines that fit on the page."""
    lines = [""]
    for part in re.split(r" (?=--)", example):
        if lines[-1] and len(lines[-1]) + len(part) > _WIDEST:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".strip()
    return " \\\n    ".join(lines)


def markdown() -> Iterator[str]:
    """The whole list."""
    for name, command in commands():
        text, example = example_of(command)
        yield from (f"### {name}", "", text, "", "```sh", _folded(example or name), "```", "")
        for parameter in command.params:
            yield from described(parameter)


class _Commands(Directive):
    def run(self) -> list[nodes.Node]:
        found = nodes.section()
        lines = StringList(list(markdown()), source="tenure")
        self.state.nested_parse(lines, self.content_offset, found, match_titles=True)
        return list(found.children)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("commands", _Commands)
    return {"parallel_read_safe": True}
