"""Pure: how far a switchover has come, for the operator who waits for it. No I/O, no clock.

Not promised: that the named batch still runs: the store knows the newest planned batch alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenure.coordination.election import View


def handover_line(view: View, *, epoch: int, batches: Mapping[str, int]) -> str:
    """What a switchover from the term `epoch` waits for. `batches`: query -> its newest planned batch."""
    if view.leader is not None and view.epoch == epoch:
        newest = ", ".join(f"{batch} of {query}" for query, batch in sorted(batches.items()))
        now = f"{view.leader} ends batch {newest}" if newest else f"{view.leader} ends its batch"
    elif view.pause is not None:
        now = "nobody leads, and the scope is paused"
    else:
        now = "nobody leads, a standby takes over"
    waiting = [one for one in view.members if one.member != view.leader]
    named = view.switchover.to if view.switchover is not None else None
    best = [one for one in waiting if one.member == named] or sorted(
        (one for one in waiting if one.ready), key=lambda one: one.rank, reverse=True
    )
    standby = f"{best[0].member} is {best[0].state.value}" if best else "no standby is ready"
    return f"{now}; {standby}"
