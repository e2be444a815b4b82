"""A page over HTTP on loopback, on a store in memory, for tests."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tenure.agent.listening import HttpServer, listen
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.ui.access_rules import Access
from tenure.ui.app import Page, Site
from tenure.ui.store_client import StoreClient
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

CLOCK = SystemClock()
TOKEN = "a-token-of-many-characters"
TTL = timedelta(seconds=60)


@dataclass(frozen=True)
class Reply:
    code: int
    headers: Mapping[str, str]
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """The page and its store."""

    def __init__(self, access: Access, *, only: Scope | None = None) -> None:
        self.store = MemoryServer()
        self.page = Page(Site(StoreClient(lambda: MemoryStore(self.store)), CLOCK, access, "memory", only=only))
        self.server = HttpServer(self.page.asgi, listen("127.0.0.1:0"), name="page")
        self.host = f"127.0.0.1:{self.server.port}"
        self.origin = f"http://{self.host}"

    def ask(self, path: str, method: str = "GET", *, body: object = None, **headers: str) -> Reply:
        """One request. A header's `_` is `-`."""
        line = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=NEVER_S)
        named = {"Host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body is not None:
            named = {"Content-Type": "application/json", **named}
        line.request(method, path, body=None if body is None else json.dumps(body), headers=named)
        got = line.getresponse()
        given = {name.lower(): value for name, value in got.getheaders()}
        is_stream = given.get("content-type", "").startswith("text/event-stream")  # without an end
        found = Reply(got.status, given, "" if is_stream else got.read().decode())
        line.close()
        return found

    @contextmanager
    def stream(self, path: str, **headers: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The messages of a stream of the page."""
        line = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=NEVER_S)
        line.request("GET", path, headers={"Host": self.host, **headers})
        got = line.getresponse()
        assert got.status == 200, got.read()
        try:
            yield (json.loads(text[6:]) for raw in got if (text := raw.decode()).startswith("data: "))
        finally:
            got.close()
            line.close()

    def close(self) -> None:
        self.page.close()
        self.server.close()


@contextmanager
def led(store: MemoryServer, scope: str, member: str = "anna") -> Iterator[None]:
    """A leader of a scope, for as long as the block lasts."""
    client = MemoryStore(store)
    with SessionKeeper(client, ttl=TTL, clock=CLOCK) as keeper:
        election = Election(client, Scope(scope), member=member, clock=CLOCK)
        election.join(keeper, host="here", pid=7)
        assert election.campaign(keeper, stop=threading.Event()) is not None
        yield
