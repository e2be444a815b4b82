"""Snapshots that a standby makes of states which its leader has in changelogs only.

Spark writes a snapshot once in ten batches at most, and once in a minute. Until then a load replays all changes: some
seconds for each 100 MB. So a standby's JVM replays them before they are needed, and puts the snapshot into the mirror,
under the name that Spark would give it. The takeover then replays only later changes.

Promise: a snapshot is put by the thread that fills the mirror, while nobody has taken it. Nothing depends on a
snapshot: without it the changelogs are replayed. Only for RocksDB's stores with ids and without column families.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from tenure.clock import Clock
from tenure.errors import TenureError
from tenure.retry import exponential_delay
from tenure.rundirs.mirrored import Mirrored, Replay
from tenure.spark.errors import SPARK_ERRORS

LEAST_BYTES: Final = 4 * 1024 * 1024
"""Fewer bytes of changes are replayed at the takeover, in a part of a second."""

_PART: Final = 4
"""A snapshot is made once the changes have a quarter of the tables' bytes: the replay loads these tables, too."""

_AGAIN = exponential_delay(initial=timedelta(seconds=10), maximum=timedelta(minutes=10))
"""How long no snapshot is made after one failed."""

_FAILURES: Final = (*SPARK_ERRORS, TenureError)


class StateVersion(Protocol):
    """A version of a store, replayed. Its calls raise Spark's errors."""

    def put(self) -> None:
        """Write the snapshot."""
        ...

    def close(self) -> None:
        """Release it."""
        ...


class States(Protocol):
    """Replays versions of stores."""

    def replay(self, folder: str, *, version: int, unique: str) -> StateVersion:
        """Load a version of the store in a folder, which has a URL. Raises Spark's errors."""
        ...


@dataclass(slots=True)
class _Task:
    """One replay, on a thread of its own."""

    mirrored: Mirrored
    folder: str
    replay: Replay
    state: StateVersion | None = None
    failed: Exception | None = None
    over: bool = False
    abandoned: bool = False


class Snapshots:
    """The snapshots for the mirrors of one standby: one at a time. `step` is called by one thread."""

    def __init__(self, states: States, *, clock: Clock) -> None:
        self._states = states
        self._clock = clock
        self._lock = threading.Lock()  # guards _task, and what it has
        self._task: _Task | None = None
        self._again_s = float("-inf")
        self._delays: Iterator[float] = _AGAIN.delays_s()

    def step(self, mirrored: Mirrored) -> Exception | None:
        """Put the snapshot that is ready for this mirror, and begin with the next that is due. Return why the last
        replay failed; None: it did not."""
        with self._lock:
            task = self._task
            ready = task is not None and task.over and task.mirrored is mirrored
            if ready:
                self._task = None
        failed = self._finish(task) if ready and task is not None else None
        if failed is not None:
            self._again_s = self._clock.monotonic_s() + next(self._delays)
        with self._lock:
            if self._task is None and self._clock.monotonic_s() >= self._again_s:
                folder = due(mirrored)
                if folder is not None:
                    self._task = _Task(mirrored, folder, mirrored.replays[folder])
                    threading.Thread(target=self._run, args=(self._task,), name="tenure-replay", daemon=True).start()
        return failed

    def abandon(self, mirrored: Mirrored | None = None) -> None:
        """Put nothing for this mirror any more; None: for all. A running replay ends by itself."""
        with self._lock:
            task = self._task
            if task is None or (mirrored is not None and task.mirrored is not mirrored):
                return
            self._task, task.abandoned = None, True
            state = task.state
        if state is not None:  # nobody waits: a takeover calls this
            threading.Thread(target=_close, args=(state,), name="tenure-replay-end", daemon=True).start()

    def _run(self, task: _Task) -> None:
        replay = task.replay
        url = f"{task.mirrored.target.url}/{task.folder}"
        state: StateVersion | None = None
        failed: Exception | None = None
        try:
            state = self._states.replay(url, version=replay.version, unique=replay.unique)
        except _FAILURES as error:
            failed = error
        with self._lock:
            task.state, task.failed, task.over = state, failed, True
            abandoned = task.abandoned
        if abandoned and state is not None:
            _close(state)

    def _finish(self, task: _Task) -> Exception | None:
        if task.state is None:
            return task.failed
        replay = task.replay
        try:
            task.state.put()
            task.mirrored.add_snapshot(task.folder, f"{task.folder}/{replay.version}_{replay.unique}.zip")
        except _FAILURES as error:
            return error
        finally:
            _close(task.state)
        self._delays = _AGAIN.delays_s()
        return None


def due(mirrored: Mirrored) -> str | None:
    """The folder of the store whose load replays most, if that is worth a snapshot; None: there is none."""
    found = [
        (replay.changes, folder)
        for folder, replay in mirrored.replays.items()
        if replay.changes >= max(LEAST_BYTES, replay.tables // _PART)
    ]
    return max(found)[1] if found else None


def _close(state: StateVersion) -> None:
    try:
        state.close()
    except SPARK_ERRORS:
        return  # it went with its JVM
