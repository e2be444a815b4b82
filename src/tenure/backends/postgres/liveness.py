"""Which sessions have lost the lock of their process.

Promise: pure, but for the memory of the process. A session holds an advisory lock, which the server frees with the
connection of its owner. A free lock counts only while the server lives on in which it was taken: after a restart and
after a failover all locks are free. It counts only when it was free at two looks, `GRACE_S` apart: an owner whose line
broke takes it again within that time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tenure.backends.shared.renewals import SessionRow
from tenure.coordination.records import SessionId

GRACE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class HeldSession(SessionRow):
    """`home`: the life of the server in which its lock was taken. `held`: whether a connection holds the lock."""

    home: str
    held: bool


class FreeLocks:
    """The free locks that the observers of this process have seen. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _since
        self._since: dict[SessionId, float] = {}

    def dead(
        self, rows: Sequence[HeldSession], *, home: str, asked_at_s: float, answered_at_s: float
    ) -> list[HeldSession]:
        """Those of the rows whose locks stayed free. `home`: the life of the server that answered."""
        with self._lock:
            for row in rows:
                if row.held or row.home != home:
                    self._since.pop(row.id, None)
                else:
                    self._since.setdefault(row.id, answered_at_s)
            return [row for row in rows if asked_at_s >= self._since.get(row.id, float("inf")) + GRACE_S]

    def forget(self, ended: set[SessionId]) -> None:
        """Forget sessions that have ended."""
        with self._lock:
            for session in ended:
                self._since.pop(session, None)

    def clear(self) -> None:
        """In a forked child: begin anew."""
        self._lock = threading.Lock()
        self._since.clear()


FREE_LOCKS: Final = FreeLocks()
os.register_at_fork(after_in_child=FREE_LOCKS.clear)
