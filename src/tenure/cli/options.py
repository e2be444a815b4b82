"""The flags that several commands share, and the store that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Annotated

import typer

from tenure.assembly import scope_store
from tenure.cli.output import Output
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.settings import Settings

StoreOption = Annotated[str | None, typer.Option("--store", help="URL of the coordination store: sqlite:///path")]
StorageOption = Annotated[str | None, typer.Option("--storage", help="URL of the storage: file:///path, s3://...")]
ScopeOption = Annotated[str | None, typer.Option("--scope", help="The pipeline's scope (by default its name).")]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]


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
