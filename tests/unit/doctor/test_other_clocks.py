"""The clocks of others, as far as they are shown."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tenure.coordination.examination import Grade, Remark
from tenure.doctor.other_clocks import ahead_of, time_at
from tests.kit.clock import ManualClock
from tests.support.doctor import lines_of


class Livez(BaseHTTPRequestHandler):
    """Answers as a member does."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *arguments: object) -> None: ...


@pytest.fixture
def member() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Livez) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_member_shows_its_time(member: str) -> None:
    found = time_at(member)
    assert found is not None
    assert abs((datetime.now(UTC) - found).total_seconds()) < 3600
    assert time_at("127.0.0.1:1") is None


def test_a_member_that_runs_here_has_the_address(member: str) -> None:
    found = lines_of(only=("http",), http=member)["http"]
    assert found == [Remark(Grade.NOTE, f"a member that runs here listens at {member}")]


@pytest.mark.parametrize(
    ("shown", "ahead"),
    [(timedelta(seconds=7), (6.5, 1.5)), (timedelta(seconds=7, microseconds=1000), (6.001, 1.0))],
)
def test_a_clock_in_whole_seconds_is_exact_to_half_a_second(shown: timedelta, ahead: tuple[float, float]) -> None:
    """The answer takes two seconds."""
    clock = ManualClock()
    began = clock.now()

    def time() -> datetime:
        clock.advance(timedelta(seconds=2))
        return began + shown

    assert ahead_of(clock, time) == pytest.approx(ahead)


def test_a_clock_that_is_not_shown() -> None:
    assert ahead_of(ManualClock(), lambda: None) is None
