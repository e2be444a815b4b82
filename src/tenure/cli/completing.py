"""The names that the Tab key offers: the scopes of a store, and the live members of a scope.

Promise: only names are printed, never an error, a warning, an address or a password. A store that does not answer
within 1.5 s is given up, and nothing is offered. Nothing is written, and no store is made. Not promised: names for a
store that stands later in the command line than the cursor.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from typing import Any, Final

import typer

from tenure.coordination.candidates import MEMBERS, members_in
from tenure.coordination.records import Scope
from tenure.coordination.store import CoordinationStore
from tenure.opening import scope_store
from tenure.settings import Settings, load_settings

_PATIENCE_S: Final = 1.5
_SETTINGS: Final = ("store", "scope")


def scope_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The scopes of the store of the command line, or of the settings."""
    return _offered(ctx, incomplete, lambda store, settings: store.scopes())


def member_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The live members of the scope of the command line, or of the settings."""
    return _offered(ctx, incomplete, _members)


def _members(store: CoordinationStore, settings: Settings) -> Iterable[str]:
    return members_in(store.list(Scope(settings.required("scope")), MEMBERS).records)


def _offered(
    ctx: typer.Context, incomplete: str, ask: Callable[[CoordinationStore, Settings], Iterable[str]]
) -> list[str]:
    found: list[str] = []
    flags = {name: ctx.params.get(name) for name in _SETTINGS}
    asking = threading.Thread(target=lambda: found.extend(_names(flags, ask)), name="tenure-names", daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    return sorted(name for name in found if name.startswith(incomplete))


def _names(flags: dict[str, Any], ask: Callable[[CoordinationStore, Settings], Iterable[str]]) -> list[str]:
    logging.disable(logging.CRITICAL)
    with suppress(Exception), warnings.catch_warnings():  # a prompt is no place for errors; the command reports them
        warnings.simplefilter("ignore")
        settings = load_settings(**flags)
        with closing(scope_store(settings, existing=True)) as store:
            return [str(name) for name in ask(store, settings)]
    return []
