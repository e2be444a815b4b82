"""How long a session has been silent, as an observer may count it.

Promise: pure. A session is dead once the observer has seen the same state of its Lease for the whole ttl, on its own
monotonic clock. No wall clock and no time of another process takes part. Time in which the observer could not read, or
did not look, does not count: between two looks at most half of the ttl counts, and nothing while a look fails. So an
observer that was stopped, or cut off from the server, never ends a session that renews when it can.
"""

from __future__ import annotations

from dataclasses import dataclass

_FIRST = 0.5
"""The share of the ttl after which the observer asks for the Lease. Who lives renews at a third of it."""
_NEXT = 0.25
_AGAIN_S = 0.5
"""The pause after a look that failed."""


@dataclass(slots=True)
class Silence:
    """The silence of one session since it was seen to renew. `version`: of its Lease, compared by equality only."""

    version: str
    ttl_s: float
    seen_s: float
    """When the version was seen first, or confirmed last."""
    counted_s: float = 0.0
    next_look_s: float = 0.0

    def __post_init__(self) -> None:
        self.next_look_s = self.seen_s + _FIRST * self.ttl_s

    def confirmed(self, *, asked_s: float, answered_s: float) -> None:
        """A look has shown the same version again."""
        self.counted_s += max(0.0, min(asked_s - self.seen_s, _FIRST * self.ttl_s))
        self.seen_s = answered_s
        rest_s = self.ttl_s - self.counted_s
        self.next_look_s = answered_s + min(max(rest_s, 0.0), _NEXT * self.ttl_s)

    def interrupted(self, *, at_s: float) -> None:
        """A look has failed: the time since the last look does not count."""
        self.seen_s = at_s
        self.next_look_s = at_s + min(_AGAIN_S, _NEXT * self.ttl_s)

    @property
    def is_death(self) -> bool:
        """Whether the whole ttl has passed in silence."""
        return self.counted_s >= self.ttl_s - 1e-6
