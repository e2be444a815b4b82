"""The limit for calls into libraries that have none of their own.

Promise: the caller gets the answer, the error, or `Unanswered` after the limit. Not promised: the end of the call. It
goes on in its thread, which does not keep the process, and may still have its effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, TypeAlias, TypeVar

T = TypeVar("T")

THREAD: Final = "tenure-patience"
"""The name of each thread."""
_Answer: TypeAlias = tuple[Any, BaseException | None]


class Unanswered(TimeoutError):
    """The limit has passed."""


def answered(call: Callable[[], T], *, within_s: float) -> T:
    """What `call` returns, in another thread. Raises Unanswered, and what `call` raises."""
    try:
        worker = idle.pop()
    except IndexError:
        worker = _Worker()
    try:
        result, error = worker.ask(call).get(timeout=within_s)
    except Empty:
        raise Unanswered(f"no answer for {within_s:g} s") from None
    if error is not None:
        raise error
    answer: T = result
    return answer


class _Worker:
    """A thread for one call at a time. A new one for each call would cost as much as a request to a near server."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], SimpleQueue[_Answer]]] = SimpleQueue()
        Thread(target=self._work, name=THREAD, daemon=True).start()

    def ask(self, call: Callable[[], Any]) -> SimpleQueue[_Answer]:
        """Where the answer will be."""
        answer: SimpleQueue[_Answer] = SimpleQueue()
        self._calls.put((call, answer))
        return answer

    def _work(self) -> None:
        while True:
            self._answer(*self._calls.get())

    def _answer(self, call: Callable[[], Any], answer: SimpleQueue[_Answer]) -> None:
        outcome: _Answer
        try:
            outcome = call(), None
        except BaseException as error:  # noqa: BLE001 - who waits raises it
            outcome = None, error
        idle.append(self)
        answer.put(outcome)


idle: Final[list[_Worker]] = []
"""The threads that have no call."""
os.register_at_fork(after_in_child=idle.clear)  # a fork copies no threads
