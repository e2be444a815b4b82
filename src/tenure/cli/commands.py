"""The commands of `tenure`, and the module of each.

Promise: a command imports its own module alone, so a look at a pipeline does not pay for the code of a member. The
help, the completion, and a word that is no command see all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import version as installed_version
from typing import Annotated, Final

import typer

COMMANDS: Final = {
    "run": "run:run",
    "doctor": "doctor:doctor",
    "status": "look:status",
    "history": "look:history",
    "list": "look:list_members",
    "scopes": "scopes:scopes",
    "events": "events:events",
    "ui": "ui:ui",
    "switchover": "verbs:switchover",
    "failover": "verbs:failover",
    "pause": "verbs:pause",
    "resume": "verbs:resume",
    "restart": "verbs:restart",
    "reinit": "verbs:reinit",
    "remove": "removing:remove",
    "adopt": "moves:adopt",
    "export": "moves:export",
    "config": "config:config_app",
    "checkpoints": "checkpoints:checkpoints_app",
    "handles": "handles:handles_app",
    "batch": "batch:batch_app",
    "result": "results:result_app",
    "cleanup": "results:cleanup_app",
    "sweep": "sweep:sweep_app",
}
"""Command -> its module in `tenure.cli`, and the function or the group in it. The order is that of the help."""


def app_for(words: Sequence[str]) -> typer.Typer:
    """The application for a command line: with the command that it names, or with all."""
    if any(name.endswith("_COMPLETE") for name in os.environ):
        words = _completed()
    named = words[0] if words else ""
    return app_of([named] if named in COMMANDS else COMMANDS)


def _completed() -> Sequence[str]:
    """The words of a command line that the shell completes, but for the last of them, which may have no end yet."""
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    return line.split(" ")[1:-1]


def app_of(names: Iterable[str]) -> typer.Typer:
    """The application with these commands."""
    app = typer.Typer(
        no_args_is_help=True,
        help="Keeps PySpark pipelines running, and their output right.",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(root)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(f"tenure.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    app.command()(version)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps PySpark pipelines running, and their output right."""


def version() -> None:
    """Print the version.

    Example: tenure version
    """
    sys.stdout.write(f"tenure {installed_version('tenure')}\n")
