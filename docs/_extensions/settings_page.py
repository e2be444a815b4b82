"""The directive `{settings}`: every setting of `tenure.settings`, with its flag, variable, default and meaning.

Promise: the page is made of the class that reads the settings and of the command that takes the flags, at each build,
so it cannot differ from them. A setting without a docstring ends the build.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import typer.main
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from tenure.cli.commands import COMMANDS, app_of
from tenure.cli.options import flag_of
from tenure.settings import Settings


@dataclass(frozen=True)
class Setting:
    """One setting as a reader of the page sees it."""

    name: str
    flag: str | None
    """None: no command has a flag for it."""
    variable: str
    default: str
    meaning: str


def all_settings() -> Iterator[Setting]:
    """Every setting, in the order of the class."""
    flags = flags_of_commands()
    for name, field in Settings.model_fields.items():
        if field.description is None:
            raise ValueError(f"setting {name!r} has no docstring")
        flag = flag_of(name)
        default = shown(field.get_default(call_default_factory=True))
        yield Setting(
            name,
            flag if flag in flags else None,
            f"TENURE_{name.upper()}",
            default,
            " ".join(field.description.split()),
        )


def flags_of_commands() -> set[str]:
    """The flags of all commands."""

    def walk(command: Any) -> Iterator[str]:
        for parameter in command.params:
            yield from parameter.opts
        for below in getattr(command, "commands", {}).values():
            yield from walk(below)

    return set(walk(typer.main.get_command(app_of(COMMANDS))))


def shown(default: object) -> str:
    """A default as a person writes it."""
    if isinstance(default, timedelta):
        seconds = default.total_seconds()
        return f"`{seconds / 3600:g}h`" if seconds >= 3600 else f"`{seconds:g}s`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return "not set" if default in (None, {}, []) else f"`{default}`"


def as_markdown(setting: Setting) -> list[str]:
    """A heading of the list and what stands below it."""
    places = [f"`{setting.flag}`"] if setting.flag else []
    places.append(f"`{setting.variable}`")
    return [f"`{setting.name}`", f": {setting.meaning}", "", f"  {', '.join(places)}. Default: {setting.default}.", ""]


class SettingsList(Directive):
    """The directive."""

    def run(self) -> list[nodes.Node]:
        lines = StringList([line for one in all_settings() for line in as_markdown(one)], source="tenure.settings")
        found = nodes.container()
        self.state.nested_parse(lines, self.content_offset, found)
        return list(found.children)


def setup(sphinx: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    sphinx.add_directive("settings", SettingsList)
    return {"parallel_read_safe": True}
