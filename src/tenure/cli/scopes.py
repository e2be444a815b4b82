"""`tenure scopes`: who leads each scope of a store. It needs the store alone."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial

from tenure.cli.options import OutputOption, open_existing, takes_settings
from tenure.cli.output import Output, show, warn
from tenure.cli.watching import EveryOption, Look, Viewed, WatchOption, interval, look_at
from tenure.clock import SystemClock
from tenure.coordination.store import CoordinationStore
from tenure.durations import ago
from tenure.operate.scopes import CHECK_THE_STORE, ScopeStatus, scope_statuses
from tenure.settings import Settings


@takes_settings("store")
def scopes(
    settings: Settings, output: OutputOption = Output.TABLE, watch: WatchOption = False, every: EveryOption = None
) -> None:
    """The scopes of the store: who leads each, and when its newest batch was planned.

    Example: tenure scopes --store sqlite:///srv/ha.db
    """
    viewed = Viewed(partial(open_existing, settings), None, _scopes)
    look_at(viewed, output=output, every=interval(watch, every))


def _scopes(store: CoordinationStore) -> Look:
    name, found = store.guarantees.name, scope_statuses(store)
    troubles = [f"scope {one.scope!r}: {one.trouble}" for one in found if one.trouble is not None]

    def tables() -> None:
        if not found:
            sys.stdout.write(f"no scope is in this store ({name}): no member has led here; {CHECK_THE_STORE}\n")
            return
        rows = [
            {
                **asdict(one),
                "live": len(one.members),
                "newest_batch": None if one.planned_at is None else ago(one.planned_at, now=SystemClock().now()),
                "state": _state(one),
            }
            for one in found
        ]
        columns = ("scope", "leader", "epoch", "live", "newest_batch", "state")
        show(rows, output=Output.TABLE, title=f"scopes of this store ({name})", columns=columns)
        for line in troubles:
            warn(line)

    return Look([asdict(one) for one in found], tables, troubles)


def _state(one: ScopeStatus) -> str:
    if one.trouble is not None:
        return "unreadable"
    if one.ended is not None:
        return one.ended
    return "paused" if one.paused else "led" if one.leader is not None else "not led"
