"""Server-sent events: the changes of a board, to one viewer.

Promise: the first event has everything, each later event the changes since the event before, at most two a second. A
viewer that leaves, and the end of the page, end the answer at once. A line that is empty for a proxy comes every 15 s.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from tenure.clock import Clock, timestamp
from tenure.coordination.records import Scope as PipelineScope
from tenure.ui.board import Board
from tenure.ui.boards import Boards

_APART_S: Final = 0.5
_BEAT_S: Final = 15.0
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


class EventStream:
    """An answer of Starlette that goes on until its viewer leaves. `scope` None: the board of all scopes."""

    def __init__(self, boards: Boards, scope: PipelineScope | None, *, clock: Clock) -> None:
        self._boards = boards
        self._scope = scope
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer. Raises TooManyViewers before anything is sent."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(news.set)

        with self._boards.viewed(self._scope) as board:
            board.attach(wake)
            leaves = asyncio.create_task(_left(receive))
            leaves.add_done_callback(lambda task: news.set())
            try:
                await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
                await self._send_all(board, send, news, leaves)
                with suppress(OSError):
                    await send({"type": "http.response.body", "body": b""})
            finally:
                board.detach(wake)
                leaves.cancel()

    async def _send_all(self, board: Board, send: Send, news: asyncio.Event, leaves: asyncio.Task[None]) -> None:
        version, is_first = 0, True
        while not (leaves.done() or self._boards.is_over):
            news.clear()
            update = board.after(version)
            version = update.version
            if is_first or not update.is_empty:
                data = {"now": timestamp(self._clock), "first": is_first, "parts": update.parts, "logs": update.logs}
                body = f"data: {json.dumps(data)}\n\n"
                is_first = False
            else:
                body = ": \n\n"
            await send({"type": "http.response.body", "body": body.encode(), "more_body": True})
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _BEAT_S)
            if not (leaves.done() or self._boards.is_over):
                await asyncio.sleep(_APART_S)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
