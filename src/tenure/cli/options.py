"""The options of commands that are settings, and the store that they name."""

from __future__ import annotations

import getpass
import inspect
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import wraps
from inspect import Parameter
from typing import Annotated, Any

import typer

from tenure.cli.completing import scope_names
from tenure.cli.output import Output, check_output
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.opening import scope_store
from tenure.settings import Settings, load_settings

OutputOption = Annotated[Output, typer.Option("--output", "-o", callback=check_output, help="How to print.")]


def takes_settings(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of these settings, in the place of its parameter `settings`. The name of a
    parameter of its own puts that parameter between the options. A parameter `flags` gets the given flags."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        ours = [name for name in names if name not in own]
        at_settings = [own.get(name) or _option(name) for name in names]
        shown = [
            one.replace(kind=Parameter.KEYWORD_ONLY)
            for name, parameter in own.items()
            if name not in names and name != "flags"
            for one in (at_settings if name == "settings" else [parameter])
        ]

        @wraps(command)
        def called(**given: Any) -> None:
            flags = {name: _read(name, given.pop(name)) for name in ours}
            more = {"flags": flags} if "flags" in own else {}
            command(settings=load_settings(**flags), **more, **given)

        called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined] # what typer reads
        called.__annotations__ = {one.name: one.annotation for one in shown}
        return called

    return decorated


def flag_of(name: str) -> str:
    """The flag of a setting."""
    return "--param" if name == "params" else f"--{name.replace('_', '-')}"


def _option(name: str) -> Parameter:
    """The option of a setting. Its help is the first line below the field."""
    field = Settings.model_fields[name]
    default = field.get_default(call_default_factory=True)
    kind: Any = list[str] if isinstance(default, (list, dict)) else type(default) if isinstance(default, int) else str
    option = typer.Option(
        flag_of(name),
        help=(field.description or "").partition("\n")[0],
        show_default=_default(default),
        autocompletion=scope_names if name == "scope" else None,
    )
    return Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option])


def _default(default: Any) -> str | bool:
    """The default of a setting as its help shows it; False: it is no value."""
    if default in (None, [], {}) or isinstance(default, bool):
        return False
    return f"{default.total_seconds():g}s" if isinstance(default, timedelta) else str(default)


def _read(name: str, given: Any) -> Any:
    """The value of a flag; None: it is not given."""
    is_pairs = Settings.model_fields[name].default_factory is dict
    return pairs(given, flag=flag_of(name)) if is_pairs else None if given == [] else given


@contextmanager
def open_existing(settings: Settings) -> Iterator[CoordinationStore]:
    """The store of the settings, which must exist. It is closed after the block."""
    opened = scope_store(settings, existing=True)
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def open_scope(settings: Settings) -> Iterator[tuple[CoordinationStore, Scope]]:
    """The store of the settings, which must exist, and the scope in it. The store is closed after the block."""
    name = Scope(settings.required("scope"))
    with open_existing(settings) as opened:
        yield opened, name


def operator() -> str:
    """Who gives the command, for the history."""
    user = ""
    with suppress(OSError, KeyError):  # a container's user may have no name
        user = getpass.getuser()
    return f"{user or 'somebody'}@{socket.gethostname()}"


def pairs(given: list[str] | None, *, flag: str) -> dict[str, str] | None:
    """The values of a repeated flag, by name; None: the flag is not given. Raises UsageError."""
    if not given:
        return None
    values = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"{flag} {text!r} has no value", fix=f"write {flag} NAME=VALUE")
        values[name] = value
    return values


def duration_of(timeout: str) -> timedelta:
    """The value of `--timeout`. Raises UsageError."""
    try:
        return parse_duration(timeout)
    except ValueError as error:
        raise UsageError(f"--timeout {timeout!r} is not a duration", fix=str(error)) from error
