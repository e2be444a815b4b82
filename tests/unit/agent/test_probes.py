"""The agent's HTTP server, asked over a socket."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from tenure.agent.condition import Condition
from tenure.agent.listening import parse_address
from tenure.agent.metrics import Metrics
from tenure.agent.probes import ProbeServer
from tenure.agent.rings import Rings
from tenure.coordination.candidates import State
from tenure.errors import UsageError
from tenure.events import BatchCommitted, BatchMeasured, BatchStarted, TermEnded, TermWon
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S, wait_until

STARTING = Condition("anna", State.STARTING, None, ready=False, scope="rows")
CONDITIONS = {
    "starting": STARTING,
    "failing": replace(STARTING, state=State.FAILING),
    "ready": replace(STARTING, state=State.READY),
    "ready cold": replace(STARTING, state=State.READY, ready=True),
    "warm": replace(STARTING, state=State.WARM, ready=True),
    "leading": replace(STARTING, state=State.LEADING, epoch=3, ready=True),
    "leading, silent": replace(STARTING, state=State.LEADING, epoch=3, ready=True, silent_s=7),
    "away": replace(STARTING, state=State.AWAY, away="no answer", away_since="noon"),
}
ANSWERS = {
    "/leader": {"leading", "leading, silent"},
    "/standby": {"failing", "ready", "ready cold", "warm"},
    "/health": {"failing", "ready", "ready cold", "warm", "leading", "away"},
    "/livez": set(CONDITIONS),
    "/readyz": {"ready cold", "warm", "leading"},
    "/status": set(CONDITIONS),
}


class Site:
    """A server whose member is made up."""

    def __init__(self) -> None:
        self.condition = STARTING
        self.clock = ManualClock()
        self.metrics, self.rings = Metrics(member="anna", clock=self.clock), Rings(self.clock)
        self.server = ProbeServer(
            "127.0.0.1:0", condition=lambda: self.condition, metrics=self.metrics, rings=self.rings
        )

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=NEVER_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.server.close()


@pytest.mark.parametrize("path", ANSWERS)
def test_each_probe_answers_its_question(site: Site, path: str) -> None:
    for name, condition in CONDITIONS.items():
        site.condition = condition
        code, body = site.get(path)
        assert (name, code) == (name, 200 if name in ANSWERS[path] else 503)
        assert json.loads(body) == {
            "member": "anna",
            "state": condition.state.value,
            "epoch": condition.epoch,
            "ready": condition.ready,
            "lag": None,
            "behind": {},
            "paused": "",
            "failing": "",
            "scope": "rows",
            "leader": "",
            "newest_epoch": 0,
            "spark": "",
            "away": condition.away,
            "away_since": condition.away_since,
            "silent_s": condition.silent_s,
            "session_s": None,
            "queries": {},
            "scraped_s": None,
            "progress": [],
        }
        assert site.get(path, "HEAD") == (code, "")


def test_what_is_not_there(site: Site) -> None:
    assert site.get("/nothing")[0] == 404


def test_the_page_of_metrics_is_served(site: Site) -> None:
    code, page = site.get("/metrics")
    assert code == 200
    assert 'tenure_state{member="anna",scope="rows",state="starting"} 1.0' in page
    site.clock.advance(timedelta(seconds=7))
    assert json.loads(site.get("/status")[1])["scraped_s"] == 7


def test_events_and_batches_come_after_a_number(site: Site) -> None:
    for number in (7, 8):
        site.rings(BatchCommitted("rows", 3, "copy", number, repeated=False, seconds=0.5))
    site.rings(TermEnded("rows", "anna", 3, why="failed", detail="no such column"))
    code, told = site.get("/events")
    assert code == 200
    lines = [json.loads(line) for line in told.splitlines()]
    assert [(line["number"], line["event"]) for line in lines] == [
        (1, "BatchCommitted"), (2, "BatchCommitted"), (3, "TermEnded"),
    ]  # fmt: skip
    assert (lines[2]["detail"], lines[2]["at"][:10]) == ("no such column", "2030-01-01")
    assert [json.loads(line)["number"] for line in site.get("/events?after=2")[1].splitlines()] == [3]
    assert site.get("/events?after=3") == (200, "")
    (batch,) = [json.loads(line) for line in site.get("/batches?after=1")[1].splitlines()]
    assert {name: batch[name] for name in ("number", "query", "batch", "seconds")} == {
        "number": 2, "query": "copy", "batch": 8, "seconds": 0.5,
    }  # fmt: skip
    site.rings(BatchMeasured("rows", 3, "copy", 8, rows=40, rows_per_s=80.0, state_rows=7))
    (figures,) = [json.loads(line) for line in site.get("/batches?after=2")[1].splitlines()]
    assert {name: figures[name] for name in ("number", "epoch", "query", "batch", "rows", "state_rows", "backlog")} == {
        "number": 4, "epoch": 3, "query": "copy", "batch": 8, "rows": 40, "state_rows": 7, "backlog": {},
    }  # fmt: skip
    assert site.get("/events?after=x") == (400, "after='x' is no number\n")


class Stream:
    """A reader of the stream of events. `last`: the number that a browser sends after a broken line."""

    def __init__(self, site: Site, path: str = "/events", *, last: int | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", site.server.port, timeout=NEVER_S)
        headers = {"Accept": "text/event-stream"} | ({} if last is None else {"Last-Event-ID": str(last)})
        self._connection.request("GET", path, headers=headers)
        self.answer = self._connection.getresponse()
        assert self.answer.headers["content-type"].startswith("text/event-stream")

    def next(self) -> tuple[int, str] | None:
        """The number and the kind of the next event; None: the stream has ended."""
        number = 0
        while line := self.answer.readline().decode():
            name, _, value = line.strip().partition(": ")
            assert name or not value, "no event came: the stream says that it lives"
            if name == "id":
                number = int(value)
            elif name == "data":
                event = json.loads(value)
                assert event["number"] == number
                return number, event["event"]
        assert self.answer.isclosed(), "the stream broke off"
        self._connection.close()
        return None


def test_events_are_streamed_as_they_come(site: Site) -> None:
    site.rings(TermWon("rows", "anna", 3))
    site.rings(BatchStarted("rows", 3, "copy", 7))
    stream, second = Stream(site), Stream(site, "/events?after=1")
    assert [stream.next(), stream.next(), second.next()] == [(1, "TermWon"), (2, "BatchStarted"), (2, "BatchStarted")]
    site.rings(BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=0.5))
    assert stream.next() == second.next() == (3, "BatchCommitted")
    assert Stream(site, last=2).next() == (3, "BatchCommitted"), "it goes on where the line broke"
    assert Stream(site, "/events?after=0", last=2).next() == (3, "BatchCommitted")
    assert Stream(site, last=700).next() == (1, "TermWon"), "the number is of an earlier agent"


def test_a_stream_ends_with_its_agent_and_has_the_last_event(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    stream, idle = Stream(site), Stream(site, last=0)
    site.rings(TermEnded("rows", "anna", 3, why="stopped"))
    site.server.close()
    for one in (stream, idle):
        assert [one.next(), one.next()] == [(1, "TermEnded"), None]
    assert "Cancel" not in caplog.text, "the server did not have to break them off"


def test_a_reader_that_went_away_is_forgotten(site: Site) -> None:
    stream = Stream(site)
    stream.answer.close()
    stream._connection.close()

    def is_forgotten() -> bool:
        site.rings(BatchStarted("rows", 3, "copy", 7))  # a write finds out
        return not site.rings._listeners

    wait_until(is_forgotten, what="the end of the stream")


def test_the_status_has_the_queries_of_the_present_term(site: Site) -> None:
    site.rings(TermWon("rows", "anna", 3))
    site.rings(BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=0.5))
    site.rings(BatchMeasured("rows", 3, "copy", 7, rows=40, rows_per_s=80.0, backlog={"a": {"offsets": 2}}))
    site.rings(BatchMeasured("rows", 2, "copy", 6, rows=1, rows_per_s=1.0))
    site.rings(BatchStarted("rows", 3, "copy", 8))
    queries = json.loads(site.get("/status")[1])["queries"]
    assert (
        queries["copy"].pop("committed_at") == queries["copy"].pop("running_since") == "2030-01-01T00:00:00.000+00:00"
    )
    assert queries == {
        "copy": {
            "batch": 7,
            "seconds": 0.5,
            "running": 8,
            "rows": 40,
            "rows_per_s": 80.0,
            "state_rows": None,
            "state_bytes": None,
            "watermark_lag_s": None,
            "backlog": {"a": {"offsets": 2}},
            "at_limit": False,
        }
    }
    site.rings(TermEnded("rows", "anna", 3, why="switchover"))
    site.rings(BatchMeasured("rows", 3, "copy", 8, rows=40, rows_per_s=80.0))
    assert json.loads(site.get("/status")[1])["queries"] == {}


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:8008", ("127.0.0.1", 8008)), (":8008", ("", 8008)), ("[::1]:8008", ("::1", 8008))],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8008", "here:", "here:x", "here:70000", ""])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is no address; write HOST:PORT"):
        parse_address(text)


def test_an_address_that_is_taken(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"--http '{address}' cannot be listened at: Address already in use"):
            ProbeServer(address, condition=lambda: STARTING, metrics=site.metrics, rings=site.rings)
