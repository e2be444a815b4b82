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

    @property
    def resource_version(self) -> int:
        """Of the object; 0: there is none. Of one object in one etcd they grow, also when it is made anew."""
        return 0 if self.found is None else int(self.found["metadata"]["resourceVersion"])


class Known:
    """What is known of one scope. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Seen | None = None  # None: nothing yet
        self._newest = 0  # the newest resourceVersion that was seen, also of a ConfigMap that is gone

    @property
    def seen(self) -> Seen | None:
        """The newest; None: nothing is known."""
        return self._seen

    def take(self, seen: Seen, *, at: int | None = None) -> bool:
        """Take a state; whether it is news. `at`: the resourceVersion at which there was no ConfigMap; None: now, as
        the answer to a read says."""
        version = seen.resource_version if seen.found is not None else (self._newest if at is None else at)
        with self._lock:
            if version < self._newest or (seen == self._seen):
                return False
            self._newest = version
            self._seen = seen
            return True
