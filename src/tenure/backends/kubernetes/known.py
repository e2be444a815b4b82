"""The newest state of a scope that a client knows, from its own answers and from its watch.

Promise: pure but for a lock. The state never goes back: an event that comes late, also of a ConfigMap that was removed
meanwhile, changes nothing.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from tenure.backends.kubernetes.objects import ScopeState

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A ConfigMap and what it holds. `found` None: there is none."""

    found: Object | None
    state: ScopeState


class Known:
    """The knowledge of one scope. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Seen | None = None  # None: nothing yet
        self._newest = 0  # the newest resourceVersion that was seen, also of a ConfigMap that is gone

    @property
    def seen(self) -> Seen | None:
        """The newest; None: nothing is known."""
        return self._seen

    @property
    def newest(self) -> int:
        """The newest resourceVersion that was seen. Asked before a read, it dates the answer that there is none."""
        return self._newest

    def take(self, seen: Seen, *, at: int) -> bool:
        """Take a state; whether it is news. `at`: the resourceVersion of the object; where there is none, one at which
        there was none."""
        with self._lock:
            is_late = at < self._newest or (at == self._newest and self._seen is not None and seen.found is not None)
            if is_late or seen == self._seen:
                return False
            self._newest = at
            self._seen = seen
            return True


def version_of(found: Object) -> int:
    """The resourceVersion of an object or a list. In one store of the API server they grow, so they can be compared."""
    return int(found["metadata"]["resourceVersion"])
