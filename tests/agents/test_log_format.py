"""A member that logs JSON: every line of its process, from the first to the last."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

from tests.kit.members import MAIN, MemberProcess
from tests.kit.waiting import wait_until
from tests.regressions.sparkless import COMMAND


def test_each_line_of_a_run_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    arguments = ["run", "rows.py", "--store", f"sqlite://{tmp_path}/ha.db", "--storage", f"file://{tmp_path}/storage"]
    arguments += ["--scope", "rows", "--log-format", "json"]
    with MemberProcess("anna", folder=tmp_path, arguments=arguments, command=COMMAND) as member:
        wait_until(lambda: "BatchCommitted" in member.output(), what="a batch")
        os.kill(member.pid, signal.SIGINT)
        assert member.wait() == 130
        lines = [json.loads(line) for line in member.output().splitlines()]
    assert all({"time", "level", "event", "message"} <= line.keys() for line in lines)
    told = [line["event"] for line in lines]
    assert {"DriverStarted", "MemberReady", "TermWon", "BatchCommitted", "stopping", "TermEnded"} <= set(told)


def test_a_refused_run_ends_with_an_object(tmp_path: Path) -> None:
    command = [*MAIN, "run", "rows.py", "--ttl", "soon"]
    json_by_variable = {**os.environ, "TENURE_LOG_FORMAT": "json"}
    done = subprocess.run(command, cwd=tmp_path, env=json_by_variable, capture_output=True, text=True, check=False)
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, line["level"], line["event"]) == (2, "error", "error")
    assert line["message"].startswith("setting 'ttl' cannot be 'soon'")
