"""Members as users run them: an agent, and a driver with its JVM. What one of them does not cost the other."""

from __future__ import annotations

import os
import signal
import socket
import urllib.error
import urllib.request

import psutil
import pytest

from tests.cli.support import COPY, Place
from tests.cli.test_signals import gone, jvm_of, member
from tests.kit.waiting import NEVER_S, wait_until

pytestmark = pytest.mark.spark

GREEDY = """
import ctypes
def put(rows, batch):
    rows.write.mode("append").json(job.params["output"])
    ctypes.PyDLL(None).sleep(int(job.params["held"]))   # user code in C that never lets go of the interpreter
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=True))
"""
HUNG = """
import time
def put(rows, batch):
    rows.write.mode("append").json(job.params["output"])
    time.sleep(600 if batch.id == 1 and batch.epoch == 1 else 0)
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=True), stall_timeout="15s")
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def probe(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=NEVER_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code
    except urllib.error.URLError:
        return 0


def input_rows(port: int) -> float:
    """The rows that a leader with one query has read, by its page."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=NEVER_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("tenure_input_rows_total"))


@pytest.mark.parametrize("seconds", [9, pytest.param(30, marks=pytest.mark.long)])
def test_user_code_that_holds_the_interpreter_past_the_ttl_costs_nothing(place: Place, seconds: int) -> None:
    place.feed(1)
    with member(place, place.pipeline(GREEDY), "anna", "--param", f"held={seconds}") as running:  # its ttl is 2 s
        committed = running.wait_for("BatchCommitted")
        assert committed["seconds"] >= seconds
        assert committed["epoch"] == 1
        assert running.events("TermEnded") == []
        running.terminate()
        assert running.wait() == 0
    assert [term["why"] for term in place.look("history")] == ["stopped"], running.output()


@pytest.mark.long
def test_a_batch_past_its_limit_is_taken_for_hung_and_the_member_goes_on(place: Place) -> None:
    place.feed(1)
    with member(place, place.pipeline(HUNG)) as running:
        running.wait_for("BatchCommitted")
        place.feed(2)
        ended = running.wait_for("DriverEnded")
        assert ended["why"] == "query 'put' has made no progress for 15 s; the driver was killed"
        running.wait_for("BatchCommitted", such_that=lambda event: event["epoch"] == 2)
    (first, *_) = place.look("history")
    assert (first["why"], first["detail"]) == ("query stalled", ended["why"])


def test_probes_and_the_end_of_either_process(place: Place) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    ports = {"anna": free_port(), "ben": free_port()}
    with member(place, file, "anna", "--http", f"127.0.0.1:{ports['anna']}", "--ttl", "5m") as anna:
        wait_until(lambda: probe(ports["anna"], "/livez") == 200, what="the probes")
        anna.wait_for("BatchCommitted")
        rows = anna.wait_for("BatchMeasured")["rows"]
        wait_until(lambda: input_rows(ports["anna"]) == rows, what="Spark's figures")
        assert rows > 0
        with member(place, file, "ben", "--http", f"127.0.0.1:{ports['ben']}") as ben:
            ben.wait_for("StandbyWarm")
            wait_until(lambda: probe(ports["ben"], "/readyz") == 200, what="a ready standby")
            answers = {name: [probe(port, path) for path in ("/leader", "/standby")] for name, port in ports.items()}
            assert answers == {"anna": [200, 503], "ben": [503, 200]}
            # Long before its ttl of 5 min: the agent notices the end of its driver, and resigns.
            driver = psutil.Process(anna.driver())
            processes = [driver, *driver.children(recursive=True)]
            place.feed(2)
            driver.kill()
            ben.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
            wait_until(lambda: gone(processes), what="the end of its JVM")
            wait_until(lambda: probe(ports["ben"], "/leader") == 200)
            assert psutil.Process(ben.pid).memory_info().rss < 60e6
            anna.wait_for("MemberReady", such_that=lambda event: len(anna.events("MemberReady")) == 2)
            # An orchestrator that does not wait: SIGTERM, then SIGKILL.
            driver = psutil.Process(ben.driver())
            processes = [driver, *driver.children(recursive=True)]
            assert jvm_of(driver) in processes
            place.feed(3)
            ben.terminate()
            os.kill(ben.pid, signal.SIGKILL)
            anna.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 2)
            wait_until(lambda: gone(processes), what="the end of driver and JVM")
    assert place.ids() == [1, 2, 3]
    first = place.look("history")[0]
    assert (first["why"], first["detail"]) == ("driver died", "signal SIGKILL")
    whys = [term["why"] for term in place.look("history")]
    assert whys[1] in ("stopped", "session ended")
