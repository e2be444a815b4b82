"""Members are asked at the addresses that they announced, and nowhere else."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenure.agent.condition import Condition
from tenure.agent.metrics import Metrics
from tenure.agent.probes import ProbeServer
from tenure.agent.rings import Rings
from tenure.clock import SystemClock
from tenure.coordination.candidates import Candidate, State
from tenure.events import BatchCommitted
from tenure.ui.asking import Asking

CLOCK = SystemClock()
ANNA = Candidate("anna", "here", 7, "2030-01-01T00:00:00+00:00")


class Member:
    """The probes of a member that is made up."""

    def __init__(self) -> None:
        self.rings = Rings(CLOCK)
        condition = Condition("anna", State.LEADING, 3, ready=True)
        metrics = Metrics(member="anna", clock=CLOCK)
        self.server = ProbeServer("127.0.0.1:0", condition=lambda: condition, metrics=metrics, rings=self.rings)
        self.known = replace(ANNA, http=f"127.0.0.1:{self.server.port}")

    def commit(self, batch: int) -> None:
        self.rings(BatchCommitted("rows", 3, "copy", batch, repeated=False, seconds=0.5))


@pytest.fixture
def member() -> Iterator[Member]:
    made = Member()
    yield made
    made.server.close()


@pytest.fixture
def asking() -> Iterator[Asking]:
    made = Asking()
    yield made
    made.close()


def test_each_line_is_read_once(member: Member, asking: Asking) -> None:
    member.commit(1)
    (answer,) = asking.ask([member.known, replace(ANNA, member="silent")])
    assert (answer.member, answer.status["state"]) == ("anna", "leading")
    assert [line["batch"] for line in answer.batches] == [1]
    assert [(line["event"], line["of"]) for line in answer.events] == [("BatchCommitted", "anna")]
    assert asking.ask([member.known])[0].events == []
    member.commit(2)
    assert [line["batch"] for line in asking.ask([member.known])[0].batches] == [2]


def test_a_member_that_was_started_anew_is_read_from_the_first(member: Member, asking: Asking) -> None:
    member.commit(1)
    asking.ask([member.known])
    (answer,) = asking.ask([replace(member.known, pid=8)])
    assert [line["batch"] for line in answer.batches] == [1]


def test_a_member_that_does_not_answer_is_shown_so(member: Member, asking: Asking) -> None:
    member.server.close()
    (answer,) = asking.ask([member.known])
    assert "refused" in answer.status["trouble"]
    assert member.known.http in answer.status["trouble"]


def test_another_server_at_the_address_is_no_member(member: Member, asking: Asking) -> None:
    (answer,) = asking.ask([replace(member.known, member="ben")])
    assert "another server" in answer.status["trouble"]


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:80",
        "127.0.0.1:80/admin?x=",
        "user@127.0.0.1:80",
        "127.0.0.1",
        "127.0.0.1:80#",
        "a b:80",
        "\n:80",
    ],
)
def test_an_address_is_a_host_and_a_port(asking: Asking, address: str) -> None:
    (answer,) = asking.ask([replace(ANNA, http=address)])
    assert "it is no address of a member" in answer.status["trouble"]


def test_no_redirection_is_followed_and_no_proxy_is_used(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Leads(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *words: object) -> None: ...

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with http.server.HTTPServer(("127.0.0.1", 0), Leads) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (answer,) = asking.ask([replace(ANNA, http=f"127.0.0.1:{server.server_port}")])
        server.shutdown()
    assert (asked, "it answered 302" in answer.status["trouble"]) == (["/status"], True)


@pytest.mark.parametrize("line", ["[]", '{"number": "x"}', '{"number": 1}', "no json"])
def test_a_line_that_is_none_is_trouble_and_no_more(asking: Asking, line: str) -> None:
    class Speaks(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"member": "anna"}) if self.path == "/status" else line
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *words: object) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Speaks) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (answer,) = asking.ask([replace(ANNA, http=f"127.0.0.1:{server.server_port}")])
        server.shutdown()
    assert answer.status["trouble"]
