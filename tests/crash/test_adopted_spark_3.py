"""The checkpoint of a job on Spark 3.5 is adopted, and the pipeline goes on with its state (I1-I3)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.members import MAIN

FILE = Path(__file__).parent / "pipelines" / "hourly.py"
SPARK = Path(sys.prefix) / "spark-3.5"
PROVIDER = "spark.sql.streaming.stateStore.providerClass=org.apache.spark.sql.execution.streaming.state."
HOURS = 37
"""How many of 40 hours are closed: the watermark is two hours behind the last event, at ten past."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not SPARK.exists(), reason="sh scripts/setup.sh spark 3.5"),
]


def feed(folder: Path, first: int, last: int) -> None:
    """A file with an event of each key in each of these hours."""
    folder.mkdir(exist_ok=True)
    events = [
        {"at": f"2026-01-{1 + hour // 24:02}T{hour % 24:02}:10:00Z", "key": key, "n": hour}
        for hour in range(first, last)
        for key in "xyz"
    ]
    (folder / f".{first}").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (folder / f".{first}").rename(folder / f"{first:03}.json")


def call(*words: str, spark: Path | None = None) -> None:
    variables = {**os.environ, **({} if spark is None else {"PYTHONPATH": str(spark)})}
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("provider", ["HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider"])
def test_a_pipeline_goes_on_with_the_state_of_a_job_on_spark_3(tmp_path: Path, provider: str) -> None:
    folder, output, checkpoint = tmp_path / "input", tmp_path / "output.jsonl", tmp_path / "checkpoint"
    feed(folder, 0, 10)
    feed(folder, 10, 20)
    call(sys.executable, str(FILE), str(folder), str(output), str(checkpoint), f"{PROVIDER}{provider}", spark=SPARK)
    feed(folder, 20, 40)

    where = ("--store", f"sqlite://{tmp_path}/ha.db", "--storage", f"file://{tmp_path}/storage", "--scope", "hourly")
    call(*MAIN, "adopt", str(checkpoint), "--query", "hourly", "--apply", *where)
    settings = ("--conf", "spark.sql.session.timeZone=UTC", "--conf", f"{PROVIDER}{provider}")
    params = ("--param", f"input={folder}", "--param", f"output={output}")
    call(*MAIN, "run", str(FILE), *where, *settings, *params, "--until-idle")

    found = [json.loads(line) for line in output.read_text().splitlines()]
    hours = [(hour, key) for hour in range(HOURS) for key in "xyz"]
    expected = [
        {"hour": f"2026-01-{1 + hour // 24:02} {hour % 24:02}:00:00", "key": key, "n": hour} for hour, key in hours
    ]
    assert sorted(found, key=lambda row: (row["hour"], row["key"])) == expected
