"""What a member's session is for, in words for people who look at the store with its own tools. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tenure.checkpoints.store import newest_batches
from tenure.coordination.candidates import State
from tenure.coordination.records import Record

_STANDING = {
    State.STARTING: "starts for",
    State.FAILING: "stands by (failing) for",
    State.READY: "stands by for",
    State.WARM: "stands by (warm) for",
}


def leading(member: str, scope: str, *, epoch: int, records: Iterable[Record]) -> str:
    """For example `anna leads shop, epoch 3, totals batch 12`: each query with its newest planned batch."""
    batches = newest_batches(records)
    return ", ".join(
        [f"{member} leads {scope}, epoch {epoch}", *(f"{q} batch {n}" for q, n in sorted(batches.items()))]
    )


def standing_by(member: str, scope: str, state: State) -> str:
    """For example `bert stands by (warm) for shop`."""
    return f"{member} {_STANDING[state]} {scope}"
