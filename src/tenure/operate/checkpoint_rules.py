"""The meaning of damage of a checkpoint, for operators. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Advice:
    """What damage of a checkpoint means, and what to do."""

    meaning: str
    fix: str


def advice(*, newest: int, batch: int, leader: str | None) -> Advice:
    """On damage of the checkpoint of `batch`. `newest`: the newest planned batch of the query; `leader`: None: nobody
    leads."""
    if batch < newest:
        return Advice(
            f"no takeover reads it: a leader goes on at batch {newest}",
            "nothing has to be done: it goes with the next batches, or with tenure checkpoints unpin",
        )
    restore = "restore the files from a backup of the storage (docs/operate.md, Back up), and verify again"
    if leader is None:
        return Advice("no member can go on: each ends with exit code 5, and takes nothing older in its place", restore)
    return Advice(
        f"{leader} goes on, and a takeover would end with exit code 5",
        f"let {leader} lead: no switchover, no restart. Verify again after some batches, which may need other files; "
        f"else {restore}",
    )
