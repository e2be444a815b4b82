"""`tenure handles`: the handles that services keep, and the locks of their readers.

Promise: only `release` writes, and it takes locks away, and nothing else. A reader that lives gets an error at the end
of its block (`LockLost`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from tenure.cli.options import OutputOption, open_scope, takes_settings
from tenure.cli.output import Output, print_document, show, show_done, show_record
from tenure.clock import SystemClock
from tenure.coordination.encoding import text_or_base64
from tenure.coordination.records import Key, Record, Scope
from tenure.errors import UsageError
from tenure.handles.areas import HANDLES, area_of, checked_name, handles_in
from tenure.handles.handle import Handle, Lock, decode_handle
from tenure.handles.record_store import NoBlobs
from tenure.handles.store import HandleStore, HeldLock, locks_in
from tenure.opening import scope_context
from tenure.operate.scopes import known_records
from tenure.settings import Settings

_CLOCK = SystemClock()
_SHOWN: Final = 2000
"""Characters of a payload that a table shows."""

handles_app = typer.Typer(no_args_is_help=True, help="Handles that services keep (tenure.lead), and their locks.")

AreaArgument = Annotated[str, typer.Argument(metavar="AREA", help="The area of the handle.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the handle.")]
OneAreaArgument = Annotated[str | None, typer.Argument(metavar="AREA", help="An area; by default all.")]


@handles_app.command("list")
@takes_settings("store", "scope")
def list_(
    area: OneAreaArgument = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The handles: their size in bytes, the epoch that wrote each, and how many readers have locked it.

    Example: tenure handles list daily
    """
    with open_scope(settings) as (opened, name):
        records = known_records(opened, name)
    found = _of_area([decode_handle(record) for record in handles_in(records)], area, name)
    locks = locks_in(records)
    rows = [_row(handle, locks) for handle in found]
    columns = ("area", "name", "bytes", "epoch", "locks", "place")
    show(rows, output=output, title=f"handles of {name}", columns=columns)


@handles_app.command("show")
@takes_settings("store", "storage", "scope")
def show_(
    area: AreaArgument,
    name: NameArgument,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """One handle, with its payload. JSON has the payload as `text`, or as `base64` where it is no text.

    Example: tenure handles show daily 2026-11
    """
    with open_scope(settings) as (opened, scope_name):
        records = known_records(opened, scope_name)
        handle = _handle(records, area, name, scope_name)
        payload = handle.inline
        if payload is None:
            payload = scope_context(settings, opened, scope_name, clock=_CLOCK).handles(area_of(area)).payload(handle)
    row = {**_row(handle, locks_in(records)), **text_or_base64(payload)}
    if output.is_data:
        print_document(row, output=output)
        return
    text = row.pop("text", None)
    row.pop("base64", None)
    row["payload"] = "(no text)" if text is None else text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    show_record(row, output=output, title=f"handle {name} of {area}")


@handles_app.command("locks")
@takes_settings("store", "scope")
def locks_(
    area: OneAreaArgument = None,
    *,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """The locks of readers. Without AREA also those on checkpoints, as of `tenure export`.

    Example: tenure handles locks
    """
    with open_scope(settings) as (opened, name):
        records = known_records(opened, name)
    locks = locks_in(records)
    if area is not None:
        _of_area([decode_handle(record) for record in handles_in(records)], area, name)
        locks = [lock for lock in locks if lock.handle.is_under(area_of(area))]
    rows = [
        {"area": of, "name": lock.handle.name, "by": lock.by or None, "session": lock.session, "lock": lock.key.name}
        for lock in locks
        for of in [_area(lock.handle)]
    ]
    columns = ("area", "name", "by", "session", "lock")
    show(rows, output=output, title=f"locks of {name}", columns=columns)


@handles_app.command("release")
@takes_settings("store", "scope")
def release(
    area: AreaArgument,
    name: NameArgument,
    *,
    force: Annotated[bool, typer.Option("--force", help="Do not ask. Needed without a terminal.")] = False,
    settings: Settings,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take the locks of a handle away from readers that live, and hang. The locks of a dead reader go by themselves.

    Example: tenure handles release daily 2026-11
    """
    with open_scope(settings) as (opened, scope_name):
        records = known_records(opened, scope_name)
        handle = _handle(records, area, name, scope_name)
        locks = [lock for lock in locks_in(records) if lock.handle == handle.key]
        taken = {"area": area, "name": name, "taken_away": len(locks)}
        if not locks:
            show_done(f"{area}/{name} has no lock", taken, output=output)
            return
        if not force:
            _confirm(locks, f"{area}/{name}")
        handles = HandleStore(opened, scope_name, area=area_of(area), blobs=NoBlobs(), clock=_CLOCK)
        for lock in locks:
            handles.release(Lock(lock.key, lock.version, handle))
    show_done(f"{area}/{name} has no lock any more; taken away: {len(locks)}", taken, output=output)


def _confirm(locks: Sequence[HeldLock], what: str) -> None:
    if not sys.stdin.isatty():
        raise UsageError("release takes a lock from its reader, and there is no terminal to ask at", fix="add --force")
    readers = ", ".join(lock.by or f"session {lock.session}" for lock in locks)
    typer.confirm(f"{readers}: reads {what}. Take the lock away? The read may fail", abort=True)


def _of_area(handles: Sequence[Handle], area: str | None, scope: Scope) -> Sequence[Handle]:
    """The handles of an area, or all. Raises UsageError: the area has none."""
    if area is None:
        return handles
    checked_name(area, of="area")
    found = [handle for handle in handles if handle.key.is_under(area_of(area))]
    if not found:
        known = sorted({_area(handle.key) for handle in handles})
        raise UsageError(f"area {area!r} has no handle in scope {scope!r}", fix=f"known: {known}")
    return found


def _handle(records: Sequence[Record], area: str, name: str, scope: Scope) -> Handle:
    """The handle of that name. Raises UsageError: there is none; CorruptHandle."""
    key = area_of(area).child(checked_name(name, of="handle"))
    record = next((record for record in handles_in(records) if record.key == key), None)
    if record is None:
        fix = f"see tenure handles list {area}"
        raise UsageError(f"area {area!r} has no handle {name!r} in scope {scope!r}", fix=fix)
    return decode_handle(record)


def _row(handle: Handle, locks: Sequence[HeldLock]) -> dict[str, Any]:
    return {
        "area": _area(handle.key),
        "name": handle.name,
        "bytes": handle.size,
        "epoch": handle.epoch,
        "locks": sum(lock.handle == handle.key for lock in locks),
        "place": "the store" if handle.blob is None else f"blobs/{handle.blob.address}",
    }


def _area(key: Key) -> str:
    """The area of a handle, as a user names it; of a checkpoint, with its kind."""
    return key.rpartition("/")[0].removeprefix(f"{HANDLES}/")
