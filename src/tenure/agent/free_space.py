"""Asks again and again what the disk of the storage has free, for `/metrics`.

Promise: a disk that hangs holds up this thread alone, and no page of the agent. Where the disk does not answer, nothing
is known. A storage that is no folder of this machine is never asked: its figure is not there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from tenure.clock import Clock
from tenure.storage.disk import free_space

EVERY_S: Final = 15.0

FreeTold = Callable[[int | None], None]
"""Hears of the free bytes; None: they are not known."""


class FreeSpaceWatch:
    """Watches on a thread of its own, from `start` to `close`."""

    def __init__(self, folder: str, *, told: FreeTold, clock: Clock) -> None:
        self._folder = folder
        self._told = told
        self._clock = clock
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-free-space", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """End. A look that hangs is not waited for."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            self.look()
            self._clock.wait(self._over, timeout_s=EVERY_S)

    def look(self) -> None:
        """Ask once."""
        try:
            free = free_space(self._folder).bytes
        except OSError:
            self._told(None)
        else:
            self._told(free)
