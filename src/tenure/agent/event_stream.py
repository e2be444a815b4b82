"""`/events` as a stream of server-sent events, for pages and for `curl -N`.

Promise: the stream begins after the number that the reader has (`Last-Event-ID`, or `?after=`), and sends each event of
the ring in order, with its number as `id`. A reader with a number that this agent has not reached has the number from
an earlier agent, and gets all events. The stream ends when the server closes; a browser then asks again by itself. A
comment each 15 s shows that the line stands. A reader that does not read costs one waiting write, and no memory but the
ring's. Not promised: events that fell out of the ring.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import StreamingResponse

from tenure.agent.rings import Rings

MEDIA_TYPE: Final = "text/event-stream"

_BEAT_S: Final = 15.0


class EventStreams:
    """The streams of one server."""

    def __init__(self, rings: Rings) -> None:
        self._rings = rings
        self._lock = threading.Lock()  # guards the two below
        self._wakes: set[Callable[[], None]] = set()
        self._closing = False

    @staticmethod
    def is_asked(request: Request) -> bool:
        """Whether the reader asks for a stream."""
        return MEDIA_TYPE in request.headers.get("accept", "")

    def answer(self, request: Request, *, after: int) -> StreamingResponse:
        """The stream. `after`: of the query; the number that a browser sends goes before it."""
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isdecimal() else after
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._lines(after), media_type=MEDIA_TYPE, headers=headers)

    def close(self) -> None:
        """Let each stream send the events that it has not sent, and end. Any thread may call it."""
        with self._lock:
            self._closing = True
            wakes = tuple(self._wakes)
        for wake in wakes:
            wake()

    async def _lines(self, after: int) -> AsyncIterator[str]:
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with suppress(RuntimeError):  # the loop is closed, and its streams with it
                loop.call_soon_threadsafe(news.set)

        if after > self._rings.newest:
            after = 0
        with self._lock:
            self._wakes.add(wake)
        try:
            with self._rings.listening(wake):
                yield "retry: 2000\n\n"
                while True:
                    news.clear()
                    closing = self._closing  # read first: the events before the end are sent
                    for event in self._rings.events(after=after):
                        after = event["number"]
                        yield f"id: {after}\ndata: {json.dumps(event)}\n\n"
                    if closing:
                        return
                    try:
                        await asyncio.wait_for(news.wait(), _BEAT_S)
                    except TimeoutError:
                        yield ": the agent lives\n\n"
        finally:
            with self._lock:
                self._wakes.discard(wake)
