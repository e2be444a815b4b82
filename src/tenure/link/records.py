"""The records of a scope, as an agent hears them and sends them to its driver.

Promise: the sender never waits for the driver: the next part leaves only when the driver has taken the part before, and
a part fits into the socket. The driver sees whole pictures only, each as the agent had it at one look, never older than
the picture before. Not promised: that a picture is fresh (`ask` asks for a fresh one), nor that each picture arrives:
the newest counts.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tenure.clock import Clock
from tenure.coordination.records import Key, Record, SessionId, Version
from tenure.errors import StoreUnavailable
from tenure.link.words import AskRecords, GotRecords, Records, Word

_PART: Final = 16 * 1024
"""Characters of a part. The socket takes some of them at once, also from a driver that does not read."""

PATIENCE_S: Final = 30.0
"""How long a driver waits for an answer: the agent tries a read again for half of that."""

_STEP_S: Final = 0.5


class RecordsSender:
    """The agent's side, for one driver. Thread-safe."""

    def __init__(self, send: Callable[[Word], None]) -> None:
        self._send = send
        self._lock = threading.Lock()  # guards all below; held while a part is sent
        self._sent: Mapping[Key, Record] = {}  # as the driver has them once it has all parts
        self._newest: Mapping[Key, Record] | None = None  # None: nothing was heard yet
        self._parts: deque[str] = deque()
        self._waits = False  # for the driver to take a part
        self._asked = self._answered = 0

    def offer(self, records: Iterable[Record], *, answers: int = 0) -> None:
        """Send these records, or later records in their place. `answers`: the number of the question that they answer;
        0: none."""
        with self._lock:
            self._newest = {record.key: record for record in records}
            self._asked = max(self._asked, answers)
            self._go_on()

    def answer(self, number: int) -> None:
        """Answer a question with the records that were offered last."""
        with self._lock:
            self._asked = max(self._asked, number)
            self._go_on()

    def taken(self) -> None:
        """The driver has taken the last part."""
        with self._lock:
            self._waits = False
            self._go_on()

    def _go_on(self) -> None:
        if self._waits or self._newest is None:
            return
        if not self._parts:
            if self._newest == self._sent and self._asked == self._answered:
                return
            text = _difference(self._sent, self._newest)
            self._parts.extend(text[start : start + _PART] for start in range(0, len(text), _PART))
            self._sent, self._answered = self._newest, self._asked
        part = self._parts.popleft()
        self._waits = True
        self._send(Records(part, None if self._parts else self._answered))


class HeardRecords:
    """The driver's side. One thread calls `take`; any thread reads."""

    def __init__(self, send: Callable[[Word], None], *, clock: Clock) -> None:
        self._send = send
        self._clock = clock
        self._lock = threading.Lock()  # guards the four below
        self._news = threading.Event()
        self._records: Mapping[Key, Record] | None = None  # None: nothing has arrived yet
        self._asked = 0
        self._answered = 0
        self._parts: list[str] = []  # only the reading thread uses it

    def take(self, word: Records) -> None:
        """Take a part, and ask for the next."""
        self._parts.append(word.part)
        if word.answers is not None:
            parts, self._parts = "".join(self._parts), []
            with self._lock:
                self._records = _changed(self._records or {}, parts)
                self._answered = word.answers
                self._news.set()
        self._send(GotRecords())

    def last(self) -> Sequence[Record]:
        """The records as they arrived last, ordered by key. Raises StoreUnavailable: none have arrived for long."""
        return self._wait(0)

    def ask(self) -> Sequence[Record]:
        """The records as the agent has them after this call began: while the driver is prepared, as the store has them.
        Raises StoreUnavailable: the agent does not answer."""
        with self._lock:
            self._asked += 1
            number = self._asked
        self._send(AskRecords(number))
        return self._wait(number)

    def _wait(self, number: int) -> Sequence[Record]:
        end_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            with self._lock:
                if self._records is not None and self._answered >= number:
                    return sorted(self._records.values(), key=lambda record: record.key)
                self._news.clear()
            left_s = end_s - self._clock.monotonic_s()
            if left_s <= 0:
                raise StoreUnavailable(f"the agent has sent no records for {PATIENCE_S:g} s")
            self._clock.wait(self._news, timeout_s=min(_STEP_S, left_s))  # another waiter may clear it first


def _difference(before: Mapping[Key, Record], after: Mapping[Key, Record]) -> str:
    """The change from one picture to the next, as text."""
    changed = [
        [record.key, b64encode(record.value).decode(), record.version, record.session]
        for key, record in after.items()
        if before.get(key) != record
    ]
    return json.dumps({"changed": changed, "gone": [key for key in before if key not in after]})


def _changed(before: Mapping[Key, Record], text: str) -> dict[Key, Record]:
    """The picture after the change."""
    change = json.loads(text)
    after = {key: record for key, record in before.items() if key not in change["gone"]}
    for key, value, version, session in change["changed"]:
        bound = None if session is None else SessionId(session)
        after[Key(key)] = Record(Key(key), b64decode(value), Version(version), bound)
    return after
