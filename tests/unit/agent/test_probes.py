"""The agent's HTTP server, asked over a socket."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tenure.agent.member import Condition
from tenure.agent.probes import Metrics, ProbeServer, parse_address
from tenure.coordination.candidates import Lag, State
from tenure.errors import UsageError
from tenure.events import BatchCommitted, DriverEnded, RunDirectorySeeded, StoreAway, TermEnded, TermWon, WriteRefused
from tests.kit.waiting import NEVER_S

STARTING = Condition("anna", State.STARTING, None, ready=False)
CONDITIONS = {
    "starting": STARTING,
    "failing": replace(STARTING, state=State.FAILING),
    "ready": replace(STARTING, state=State.READY),
    "ready cold": replace(STARTING, state=State.READY, ready=True),
    "warm": replace(STARTING, state=State.WARM, ready=True),
    "leading": replace(STARTING, state=State.LEADING, epoch=3, ready=True),
}
ANSWERS = {
    "/leader": {"leading"},
    "/standby": {"failing", "ready", "ready cold", "warm"},
    "/health": {"failing", "ready", "ready cold", "warm", "leading"},
    "/livez": set(CONDITIONS),
    "/readyz": {"ready cold", "warm", "leading"},
}


class Site:
    """A server whose member is made up."""

    def __init__(self) -> None:
        self.condition = STARTING
        self.metrics = Metrics(member="anna")
        self.server = ProbeServer("127.0.0.1:0", condition=lambda: self.condition, metrics=self.metrics)

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
        }
        assert site.get(path, "HEAD") == (code, "")


def test_what_is_not_there(site: Site) -> None:
    assert site.get("/nothing")[0] == 404


def test_metrics_follow_the_events(site: Site) -> None:
    site.condition = replace(CONDITIONS["warm"], lag=Lag(2, 700))
    assert 'tenure_mirror_lag_batches{member="anna"} 2.0' in site.get("/metrics")[1]
    assert 'tenure_mirror_lag_bytes{member="anna"} 700.0' in site.get("/metrics")[1]
    site.condition = replace(CONDITIONS["leading"], behind={"copy": 120})
    assert 'tenure_source_offsets_behind{member="anna",query="copy"} 120.0' in site.get("/metrics")[1]
    site.condition = CONDITIONS["leading"]
    assert "tenure_source_offsets_behind{" not in site.get("/metrics")[1]
    assert "tenure_mirror_lag_bytes{" not in site.get("/metrics")[1], "a leader has no mirror"
    for event in (
        TermWon("rows", "anna", 3),
        BatchCommitted("rows", 3, "copy", 7, repeated=False, seconds=0.5),
        BatchCommitted("rows", 3, "copy", 8, repeated=False, seconds=0.25),
        RunDirectorySeeded("rows", 3, "copy", 7, files=2, seconds=0.125),
        WriteRefused("rows", 3, by="store", what="plan of batch 9"),
        TermEnded("rows", "anna", 3, why="not resigned, it ends with the session: the store is away"),
        DriverEnded("rows", "anna", why="signal SIGKILL", again_s=3),
        StoreAway("rows", "anna", why="locked", again_s=1),
    ):
        site.metrics(event)
    code, page = site.get("/metrics")
    assert code == 200
    lines = [line for line in page.splitlines() if not line.startswith("#") and "_created" not in line]
    assert {
        'tenure_state{member="anna",state="leading"} 1.0',
        'tenure_state{member="anna",state="warm"} 0.0',
        'tenure_epoch{member="anna",scope="rows"} 3.0',
        'tenure_terms_won_total{member="anna",scope="rows"} 1.0',
        'tenure_terms_ended_total{member="anna",scope="rows",why="not resigned, it ends with the session"} 1.0',
        'tenure_batches_committed_total{member="anna",query="copy",scope="rows"} 2.0',
        'tenure_last_batch{member="anna",query="copy",scope="rows"} 8.0',
        'tenure_last_batch_seconds{member="anna",query="copy",scope="rows"} 0.25',
        'tenure_last_seed_seconds{member="anna",query="copy",scope="rows"} 0.125',
        'tenure_writes_refused_total{by="store",member="anna",scope="rows"} 1.0',
        'tenure_drivers_replaced_total{member="anna",scope="rows"} 1.0',
        'tenure_store_failures_total{member="anna",scope="rows"} 1.0',
    } <= set(lines)


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


def test_an_address_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UsageError, match=f"--http '{address}' cannot be listened at: Address already in use"):
            ProbeServer(address, condition=lambda: STARTING, metrics=Metrics(member="anna"))
