"""`tenure remove`: takes the records of a retired scope out of the store.

Promise: without `--apply` nothing is written. With it, the name of the scope is typed once more. No file of a storage
and no row of an output is touched.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tenure.cli.completing import scope_names
from tenure.cli.options import OutputOption, open_existing, takes_settings
from tenure.cli.output import Output, note, print_document, show, show_done
from tenure.coordination.records import Scope
from tenure.errors import UsageError
from tenure.opening import storage_url
from tenure.operate.removal import Retired
from tenure.settings import Settings
from tenure.storage.reach import reach


@takes_settings("store", "storage")
def remove(
    retired: Annotated[
        str, typer.Argument(metavar="SCOPE", autocompletion=scope_names, help="The scope, also where one is set.")
    ],
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this flag, nothing is written.")] = False,
    confirmed: Annotated[
        str | None, typer.Option("--yes-remove", metavar="SCOPE", help="Its name again. Needed without a terminal.")
    ] = None,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove the records of a scope that has ended, so that tenure scopes shows it no more. Its members are gone.

    Example: tenure remove flights --apply --yes-remove flights
    """
    name = Scope(retired)
    is_empty = None if settings.storage is None else lambda: not reach(storage_url(settings, name)).entries()
    with open_existing(settings) as store:
        scope = Retired(store, name, is_empty)
        found = scope.look()
        if not apply:
            _show(found.keys, name, output)
            return
        _confirm(name, len(found.keys), confirmed)
        keys = scope.remove()
    line = f"{name} is removed: {len(keys)} records; a member that starts now begins a new pipeline"
    show_done(line, {"scope": name, "records": keys, "removed": True}, output=output)


def _show(keys: list[str], scope: Scope, output: Output) -> None:
    if output.is_data:
        print_document({"scope": scope, "records": keys, "removed": False}, output=output)
        return
    show([{"record": key} for key in keys], output=output, title=f"records of {scope}", columns=("record",))
    note("nothing was written; --apply removes them")


def _confirm(scope: Scope, count: int, confirmed: str | None) -> None:
    if confirmed is None:
        if not sys.stdin.isatty():
            raise UsageError("remove is for good, and there is no terminal to ask at", fix=f"add --yes-remove {scope}")
        confirmed = typer.prompt(f"{count} records go for good, with the history. Type the name of the scope")
    if confirmed != scope:
        raise UsageError(f"{confirmed!r} is not the scope {scope!r}; nothing was written", fix="type its name")
