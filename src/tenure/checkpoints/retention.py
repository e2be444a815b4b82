"""Pure: which checkpoints fall out when a checkpoint is added."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def falls_out(batches: Sequence[int], *, adding: int, keep: int, locked: Collection[int] = ()) -> list[int]:
    """The batches whose checkpoints go when `adding` comes, oldest first, so that `keep` checkpoints remain.

    A locked checkpoint stays, and goes a later time. The newest of `batches` always stays: until the commit is done, a
    takeover needs it. `keep` >= 1.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint is kept, got keep={keep}")
    ordered = sorted(batch for batch in batches if batch != adding)
    surplus = ordered[: max(0, len(ordered) + 1 - keep)]
    return [batch for batch in surplus if batch not in locked]
