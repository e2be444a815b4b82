"""The page beside the probes of an agent: for clients on its host, and never in the way of a probe."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator

import pytest

from tenure.agent.condition import Condition
from tenure.agent.metrics import Metrics
from tenure.agent.probes import ProbeServer
from tenure.agent.rings import Rings
from tenure.clock import SystemClock
from tenure.coordination.candidates import State
from tenure.coordination.records import Scope
from tenure.ui.access_rules import Access
from tenure.ui.app import Page, Site
from tenure.ui.late import LatePage
from tenure.ui.store_client import StoreClient
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

CLOCK = SystemClock()


class Agent:
    """Probes with a page, which is built once `may_build` is set."""

    def __init__(self) -> None:
        self.may_build, self.built = threading.Event(), 0
        self.may_build.set()
        store = MemoryServer()

        def build() -> Page:
            assert self.may_build.wait(NEVER_S)
            self.built += 1
            client = StoreClient(lambda: MemoryStore(store))
            return Page(Site(client, CLOCK, Access(), "memory", only=Scope("rows")))

        condition = Condition("anna", State.LEADING, 3, ready=True)
        metrics, rings = Metrics(member="anna", clock=CLOCK), Rings(CLOCK)
        self.page = LatePage(build)
        self.server = ProbeServer("127.0.0.1:0", self.page, condition=lambda: condition, metrics=metrics, rings=rings)

    def ask(self, path: str, *, host: str = "localhost") -> http.client.HTTPResponse:
        line = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=NEVER_S)
        line.request("GET", path, headers={"Host": host})
        return line.getresponse()


@pytest.fixture
def agent() -> Iterator[Agent]:
    made = Agent()
    yield made
    made.may_build.set()
    made.server.close()


def test_the_page_is_built_when_somebody_looks(agent: Agent) -> None:
    assert (agent.ask("/livez").status, agent.built) == (200, 0)
    body = agent.ask("/ui/").read().decode()
    assert 'data-root="/ui" data-scope="rows" data-alone="yes"' in body
    assert 'src="/ui/static/page.js"' in body
    assert agent.ask("/ui/static/page.js").status == 200
    assert agent.ask("/ui/", host="evil.example").status == 400
    assert agent.built == 1


def test_a_page_that_takes_long_to_build_makes_no_probe_wait(agent: Agent) -> None:
    agent.may_build.clear()
    asked = threading.Thread(target=agent.ask, args=("/ui/",))
    asked.start()
    assert agent.ask("/leader").status == 200
    assert agent.built == 0
    agent.may_build.set()
    asked.join()


def test_open_pages_end_with_the_agent(agent: Agent) -> None:
    reply = agent.ask("/ui/api/live")
    assert reply.readline().startswith(b"data: ")
    agent.server.close()
    reply.read()


def test_a_client_of_another_host_is_sent_away() -> None:
    sent = []

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "http.request"}

    def never() -> Page:
        raise AssertionError

    for client in (("10.0.0.9", 4711), None):
        scope: dict[str, object] = {"type": "http", "method": "GET", "path": "/ui/", "headers": [], "client": client}
        asking = LatePage(never)(scope, receive, send)  # type: ignore[arg-type] # plain dicts
        with pytest.raises(StopIteration):
            asking.send(None)
    assert [message["status"] for message in sent if "status" in message] == [403, 403]
