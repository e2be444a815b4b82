"""Pure: the guard that refused a commit -> the handle store's error. Nothing was written."""

from __future__ import annotations

from collections.abc import Sequence

from tenure.coordination.records import Absent, Exact, Guard
from tenure.errors import GuardFailed, HandleExists, HandleNotFound


def answer_to(refused: GuardFailed, *, guards: Sequence[Guard]) -> Exception:
    """The error for a refusal. A refusal by the caller's own `guards` stays GuardFailed."""
    guard = refused.guard
    if guard in guards:
        return refused
    if isinstance(guard, Exact):
        return HandleNotFound(f"handle {guard.key!r} is gone, or was replaced since it was read")
    assert isinstance(guard, Absent)
    return HandleExists(f"handle {guard.key!r} exists already")
