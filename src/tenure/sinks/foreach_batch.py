"""The sink for everything else: a function of the user, called with each batch.

Promise: the function is called only after the batch is planned, or retaken, by the very term that calls, and the store
is asked for the term immediately before the call; the batch carries an idempotency key that is the same for every
attempt at it, and the epoch. Not promised: that nothing is written late. A process that is paused inside the function
may go on writing when it wakes up, after newer batches of its successor; only the target can refuse that, by the epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from tenure.durations import parse_duration
from tenure.errors import UsageError
from tenure.events import Events
from tenure.sinks.sink import Batch, OutputMode, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHORTEST_TIMEOUT = timedelta(seconds=5)  # a driver tells of its calls every second


class ForeachBatch:
    """Call `function(rows, batch)` for each batch.

    `idempotent=True` is its author's word that a second call for the same `batch.idempotency_key` changes nothing:
    then each row counts once, as long as no call is paused in its midst until a newer batch is written. A target in
    which the last write wins (an upsert, an overwritten file) needs more: it has to refuse a write with a lower
    `batch.epoch` than it has seen. `idempotent=False`: at least once; a batch that was being written when a leader died
    is written again by the next one.

    The function evaluates `rows` exactly once (persist them for more), also when it recognises the batch as
    repeated: a stateful query must move its state on, for example by `rows.write.format("noop").mode("append").save()`.
    It may return `tenure.Written(repeated=True)` to say that the target had the batch already; raise `tenure.Fenced`
    when the target refused the epoch, which ends the term; and call `batch.check()` to ask the store once more whether
    the term stands. `timeout` (`10m`): a call that lasts longer is taken for hung, and the driver is replaced.
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
        self._timeout = _timeout(timeout)
        self._calls: dict[
            str, str
        ] = {}  # query -> the batch that its call is for; one `ForeachBatch` may serve several
        self._lock = threading.Lock()  # guards _calls

    @property
    def delivery(self) -> str:
        """What a reader of the output can rely on."""
        return "exactly once (idempotent function)" if self.idempotent else "at least once"

    @property
    def timeout(self) -> timedelta | None:
        """For how long one call may last; None: for ever."""
        return self._timeout

    def call(self, query: str) -> str | None:
        """The batch of a query that the function is called for, in its epoch; None: none."""
        with self._lock:
            return self._calls.get(query)

    def check(self, *, output_mode: OutputMode) -> None:
        """Every output mode is the function's own matter."""

    def write(self, rows: DataFrame, batch: Batch, *, planned: Callable[[], None], events: Events) -> Written:
        """Call the function once the batch is planned and the store has said, once more, that the term stands."""
        planned()
        batch.check()
        call = f"{batch.epoch}/{batch.id}"
        with self._lock:
            self._calls[batch.query] = call
        try:
            answer = self._function(rows, batch)
        finally:
            with self._lock:
                if self._calls.get(batch.query) == call:  # else it is a call of an earlier term that has hung
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
