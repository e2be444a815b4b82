"""`tenure scopes`: all pipelines of a store.

Promise: a store without scopes is a line, and no error.
"""

from __future__ import annotations

import sys
from dataclasses import asdict

from tenure.cli.options import OutputOption, open_existing, takes_settings
from tenure.cli.output import Output, show, warn
from tenure.clock import SystemClock
from tenure.durations import ago
from tenure.operate.scopes import CHECK_THE_STORE, ScopeStatus, scope_statuses
from tenure.settings import Settings

_CLOCK = SystemClock()


@takes_settings("store")
def scopes(settings: Settings, output: OutputOption = Output.TABLE) -> None:
    """The scopes of the store: who leads each, and when its newest batch was planned."""
    with open_existing(settings) as opened:
        name, found = opened.guarantees.name, scope_statuses(opened)
    if output is Output.TABLE and not found:
        sys.stdout.write(f"no scope is in this store ({name}): no member has led here; {CHECK_THE_STORE}\n")
        return
    rows = [
        {
            **asdict(one),
            "live": len(one.members),
            "newest_batch": None if one.planned_at is None else ago(one.planned_at, now=_CLOCK.now()),
            "state": _state(one),
        }
        for one in found
    ]
    if output is Output.JSON:
        rows = [asdict(one) for one in found]
    columns = ("scope", "leader", "epoch", "live", "newest_batch", "state")
    show(rows, output=output, title=f"scopes of this store ({name})", columns=columns)
    for one in found:
        if one.trouble is not None:
            warn(f"scope {one.scope!r}: {one.trouble}")


def _state(one: ScopeStatus) -> str:
    if one.trouble is not None:
        return "unreadable"
    if one.ended is not None:
        return one.ended
    return "paused" if one.paused else "led" if one.leader is not None else "not led"
