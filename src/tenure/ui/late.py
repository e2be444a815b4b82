"""The page of one scope beside the probes of its agent: built at its first request.

Promise: only a client on the agent's own host gets the page, also where others reach the probes: the page reads the
store, and has no token here. `kubectl port-forward` is such a client. Until somebody looks, an agent has neither the
page's code nor a connection for it. The page is built on a thread of its own, and has a client of the store of its own:
a store that hangs makes no probe wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from starlette.responses import PlainTextResponse

from tenure.ui.access_rules import is_loopback

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from tenure.ui.app import Page


ELSEWHERE: Final = "this page is for clients on the host of the member; from elsewhere, run tenure ui\n"


class LatePage:
    """An application. `build`: makes the page."""

    def __init__(self, build: Callable[[], Page]) -> None:
        self._build = build
        self._building: asyncio.Task[Page] | None = None  # None: nobody has looked yet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        client = scope.get("client")
        if client is None or not is_loopback(client[0]):
            await PlainTextResponse(ELSEWHERE, status_code=403)(scope, receive, send)
            return
        if self._building is None:
            self._building = asyncio.create_task(asyncio.to_thread(self._build))
        page = await asyncio.shield(self._building)
        await page.asgi(scope, receive, send)

    def close(self) -> None:
        """End the page, if there is one."""
        building = self._building
        if building is not None and building.done() and building.exception() is None:
            building.result().close()
