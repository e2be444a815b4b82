"""Walks several pieces at a time, where a listing is waiting for a server most of the time.

Promise: what one walk after the other would find, in another order; about as much beyond the budget. Memory grows with
the walks' shares and not with the budget. Whoever stops asking, or is interrupted, does not wait for those that walk.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from typing import Final, Protocol, TypeVar

from tenure.storage.unlisted import Rest

AT_ONCE: Final = 8
"""Walks at a time."""
SHARE: Final = 10_000
"""Files that a walk lists before others may take what it has left: ten pages of S3."""


class _Found(Protocol):
    @property
    def names(self) -> Sequence[str]:
        """Each counts for the budget."""


F = TypeVar("F", bound=_Found)
T = TypeVar("T")


def side_by_side(
    walk: Callable[[Sequence[Rest], int], Iterator[F | Rest]], pieces: Sequence[Rest], *, budget: int
) -> Iterator[F | Rest]:
    """What walks of these pieces, and of those that they leave, find; then, after about `budget` files, what is left.
    Raises what a walk raises. `walk`: lists some pieces with a budget of its own."""
    todo = deque(pieces)
    room = budget
    running: dict[Future[list[F | Rest]], int] = {}
    while running or (todo and room > 0):
        while todo and room > 0 and len(running) < AT_ONCE:
            share = min(room, SHARE)
            room -= share
            running[begin(partial(_walk, walk, todo.popleft(), share))] = share
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        for one in done:
            room += running.pop(one)
            for found in one.result():
                if isinstance(found, Rest):
                    todo.append(found)
                else:
                    room -= len(found.names)
                    yield found
    yield from todo


def _walk(walk: Callable[[Sequence[Rest], int], Iterator[F | Rest]], piece: Rest, share: int) -> list[F | Rest]:
    return list(walk([piece], share))


def begin(work: Callable[[], T]) -> Future[T]:
    """Do it in a thread of its own. An executor's would be waited for when the process ends, however long a server that
    hangs is asked."""
    answer: Future[T] = Future()

    def do() -> None:
        try:
            answer.set_result(work())
        except Exception as error:  # noqa: BLE001 - whoever waits for the answer raises it
            answer.set_exception(error)

    threading.Thread(target=do, name="tenure-listing", daemon=True).start()
    return answer
