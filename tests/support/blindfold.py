"""What a member sees that must not notice what became of it: no session ends, no time passes while it is stopped."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from tenure.clock import SystemClock
from tenure.coordination.records import Key, Scope
from tenure.coordination.store import Session
from tenure.errors import SessionEnded
from tests.kit.faulty import FaultyStore


class NeverToldStore(FaultyStore):
    """A store whose sessions never say that they have ended."""

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> Session:
        return _NeverTold(super().open_session(ttl=ttl, purpose=purpose))


class _NeverTold:
    def __init__(self, session: Session) -> None:
        self._session = session
        self.id = session.id
        self.ttl = session.ttl
        self.testament = session.testament

    def renew(self) -> None:
        try:
            self._session.renew()
        except SessionEnded:
            return

    def amend(self, scope: Scope, key: Key, value: bytes) -> None:
        self._session.amend(scope, key, value)

    def close(self) -> None:
        self._session.close()


class BlindClock(SystemClock):
    """A clock that does not see that time passed while the process was stopped."""

    _leap_s = 1.0

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the two below: a leap that two threads see is one leap
        self._last_s = super().monotonic_s()
        self._hidden_s = 0.0

    def monotonic_s(self) -> float:
        with self._lock:
            now_s = super().monotonic_s()
            leap_s = now_s - self._last_s
            if leap_s > self._leap_s:
                self._hidden_s += leap_s
            self._last_s = now_s
            return now_s - self._hidden_s

    def now(self) -> datetime:
        return datetime.fromtimestamp(super().now().timestamp() - self._hidden_s, UTC)

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        return super().wait(event, timeout_s=min(timeout_s, self._leap_s / 2))
