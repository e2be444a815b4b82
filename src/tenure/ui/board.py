"""What a page shows, as named parts and logs that its readers follow.

Promise: a reader that names the version that it has gets all later changes, each part once and in its newest state. A
part that is put as it was is no change. A log keeps its newest lines. A slow reader holds nobody up, and no queue grows
for it. Every text is without passwords. Thread-safe. Not promised: each state of a part that changes faster than its
reader reads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tenure.wording import masked

LOG_MOST: Final = 4000
"""How many lines of a log are kept."""

Wake = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Update:
    """The changes after a version. A part that is None is gone."""

    version: int
    parts: Mapping[str, Any] = field(default_factory=dict)
    logs: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing new."""
        return not self.parts and not self.logs


class Board:
    """Parts and logs of one page."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self._version = 0
        self._parts: dict[str, tuple[int, Any]] = {}
        self._logs: dict[str, deque[tuple[int, Any]]] = {}
        self._readers: set[Wake] = set()

    def put(self, parts: Mapping[str, Any]) -> None:
        """Replace the parts of these names."""
        shown = {name: without_passwords(value) for name, value in parts.items()}
        with self._lock:
            changed = {name: value for name, value in shown.items() if self._parts.get(name, (0, None))[1] != value}
            if not changed:
                return
            self._version += 1
            self._parts.update({name: (self._version, value) for name, value in changed.items()})
            readers = tuple(self._readers)
        _wake(readers)

    def append(self, log: str, lines: Iterable[Any]) -> None:
        """Add lines to the end of a log."""
        shown = [without_passwords(line) for line in lines]
        if not shown:
            return
        with self._lock:
            self._version += 1
            self._logs.setdefault(log, deque(maxlen=LOG_MOST)).extend((self._version, line) for line in shown)
            readers = tuple(self._readers)
        _wake(readers)

    def names(self) -> Sequence[str]:
        """The names of the parts that are there."""
        with self._lock:
            return [name for name, (_, value) in self._parts.items() if value is not None]

    def after(self, version: int) -> Update:
        """All changes after a version; 0: everything."""
        with self._lock:
            return Update(
                self._version,
                {
                    name: value
                    for name, (at, value) in self._parts.items()
                    if at > version and (version or value is not None)
                },
                {
                    name: lines
                    for name, log in self._logs.items()
                    if (lines := [line for at, line in log if at > version])
                },
            )

    def attach(self, wake: Wake) -> None:
        """Call `wake` after each change, in the thread that makes the change, until `detach`."""
        with self._lock:
            self._readers.add(wake)

    def detach(self, wake: Wake) -> None:
        """End that."""
        with self._lock:
            self._readers.discard(wake)

    def wake_all(self) -> None:
        """Wake the readers though nothing changed: they look whether the page has ended."""
        with self._lock:
            readers = tuple(self._readers)
        _wake(readers)


def without_passwords(data: Any) -> Any:
    """The data with `***` for each password in its texts."""
    if isinstance(data, str):
        return masked(data)
    if isinstance(data, Mapping):
        return {name: without_passwords(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_passwords(value) for value in data]
    return data


def _wake(readers: Iterable[Wake]) -> None:
    for wake in readers:
        wake()
