"""The sink for any other target: a function of the user, called with each batch.

Promise: the function is called only after the calling term itself has planned or retaken the batch, and the store is
asked for the term immediately before the call. The batch carries the epoch, and an idempotency key that is the same for
every attempt at the batch. Not promised: that nothing is written late. A process that is paused inside the function may
go on writing when it wakes up, after newer batches of its successor; only the target can refuse that, by the epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.event import Events
from tenure.sinks.sink import Batch, OutputMode, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHORTEST_TIMEOUT = timedelta(seconds=5)  # the driver sends the marks of its calls every second


class ForeachBatch:
    """Call `function(rows, batch)` for each batch.

    `idempotent=True`: you promise that a second call for the same `batch.idempotency_key` changes nothing. Then each
    row counts once, as long as no call is paused in its midst until a newer batch is written. A target in which the
    last write wins (an upsert, an overwritten file) needs more: it has to refuse a write whose `batch.epoch` is lower
    than an earlier write's. `idempotent=False`: at least once; the next leader writes a batch again if a leader died
    while it wrote that batch.

    The function evaluates `rows` exactly once (persist them for more), also when it recognises the batch as
    repeated: a stateful query must move its state on, for example by `rows.write.format("noop").mode("append").save()`.
    It may return `tenure.Written(repeated=True)` when the target had the batch already; raise `tenure.Fenced` when the
    target refused the epoch, which ends the term; and call `batch.check()` to ask the store once more whether the term
    stands. `timeout` (`10m`): a call that lasts longer counts as hung, and the driver is replaced.
    """

    def __init__(
        self,
        function: Callable[[DataFrame, Batch], object],
        *,
        idempotent: bool,
        timeout: str | timedelta | None = None,
    ) -> None:
        """Raises UsageError."""
        self._function = function
        self.idempotent = idempotent
        self.timeout = _timeout(timeout)
        """For how long one call may last; None: for ever."""
        self._calls: dict[str, str] = {}  # query -> the batch of its call; several queries may share this object
        self._lock = threading.Lock()  # guards _calls

    @property
    def delivery(self) -> str:
        """The promise to the readers of the output."""
        return "exactly once (idempotent function)" if self.idempotent else "at least once"

    def call(self, query: str) -> str | None:
        """The epoch and batch of the present call for a query; None: there is no call."""
        with self._lock:
            return self._calls.get(query)

    def check(self, *, output_mode: OutputMode) -> None:
        """The function decides on output modes."""

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Call the function once the batch is planned and the store confirms, once more, that the term stands."""
        planned()
        batch.check()
        call = f"{batch.epoch}/{batch.id}"
        with self._lock:
            self._calls[batch.query] = call
        try:
            answer = self._function(rows, batch)
        finally:
            with self._lock:
                if self._calls.get(batch.query) == call:  # else this call hung, and a later term has its own
                    del self._calls[batch.query]
        return answer if isinstance(answer, Written) else Written(repeated=False)


def _timeout(given: str | timedelta | None) -> timedelta | None:
    try:
        timeout = None if given is None else parse_duration(given)
    except ValueError as error:
        raise UsageError(f"timeout {given!r} of a function is not a duration", fix=str(error)) from error
    if timeout is not None and timeout < _SHORTEST_TIMEOUT:
        raise UsageError(
            f"timeout {given!r} of a function is too short to tell a slow call from a hung one",
            fix=f"give {_SHORTEST_TIMEOUT.total_seconds():g}s or more",
        )
    return timeout
