"""`tenure doctor` as a user types it: its lines, its exit code, Ctrl-C, and `--for` with a real driver's work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tests.cli.support import COPY, COUNTS, Place, Told, start_driver, tenure
from tests.kit.members import MAIN
from tests.kit.waiting import NEVER_S, wait_until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.make_store()
    return made


def doctor(place: Place, *more: str, spark: SparkSession | None = None) -> Told:
    """`spark`: the session that the driver borrows."""
    flags = [*place.flags(ttl="5s"), "--output", "json", *more]
    with (
        patch("tenure.cli.doctor.start_spark_driver", start_driver),
        patch("tenure.doctor.of_pipeline._REHEARSES_S", NEVER_S),
    ):
        return tenure("doctor", *flags, spark=spark)


def lines(told: Told) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in told.json:
        found.setdefault(line.pop("check"), []).append(line)
    return found


def test_each_line_says_what_it_means_and_how_to_mend_it(place: Place) -> None:
    storage = place.folder / "file"
    storage.write_text("no folder")
    told = tenure("doctor", "--store", f"sqlite://{place.store}", "--storage", f"file://{storage}")
    assert told.code == 14
    assert told.error == ("a member could not lead here, or not safely: storage; mend the lines that begin with bad")
    assert "\nbad   storage      cannot write " in told.out
    assert "\n      means        no batch can be written: exit code 6\n      mend         " in told.out
    assert "\nnote  members      not made: no --scope is given, and no --for PIPELINE.py that names it\n" in told.out


def test_warnings_alone_are_no_failure(place: Place) -> None:
    told = doctor(place, "--scope", "rows", "--ttl", "1s")
    assert (told.code, told.err) == (0, "")
    assert lines(told)["settings"][0]["grade"] == "warn"
    text = tenure("doctor", "--store", f"sqlite://{place.store}", "--ttl", "1s")
    assert text.code == 0
    assert text.err.startswith("no line is bad: ")
    assert " 1 warn; " in text.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_stays_after_an_interrupt(place: Place, tmp_path: Path, number: signal.Signals) -> None:
    """The doctor waits for a Java that hangs."""
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 1000\n')
    java.chmod(0o755)
    command = [*MAIN, "doctor", *place.flags(), "--scope", "rows"]
    started = subprocess.Popen(
        command, env={**os.environ, "JAVA_HOME": str(tmp_path / "java")}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    pid = Path(f"{java}.pid")
    wait_until(lambda: pid.exists() and pid.read_text().strip() != "", what="the start of Java")
    started.send_signal(number)
    out, err = started.communicate(timeout=NEVER_S)
    assert started.returncode == 130, err
    assert out.startswith(b"ok    settings")
    assert not place.storage.exists()


# --- with a pipeline --------------------------------------------------------------------------------------------------


@pytest.fixture
def led(place: Place, spark: SparkSession) -> Place:
    """A scope that has run a pipeline."""
    place.feed(1, 2)
    told = place.run(place.pipeline(COPY), spark=spark)
    assert told.code == 0, told.err
    return place


def test_a_pipeline_that_has_not_run_yet(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    told = doctor(place, "--for", place.pipeline(COPY), spark=spark)
    found = lines(told)
    assert told.code == 0, json.dumps(found)
    assert found["pipeline"][0]["seen"].startswith(f"{place.folder}/rows.py declares pipeline 'rows', file ")
    assert found["declaration"][-1]["seen"] == "the streams can be declared; the scope has run no batch yet"
    assert found["targets"] == [{"grade": "ok", "seen": "the targets of copy answer", "means": "", "mend": ""}]
    assert "nothing to rehearse" in found["rehearsal"][0]["seen"]
    assert not place.output.exists()
    assert not place.storage.exists()


def test_a_pipeline_that_goes_on(led: Place, spark: SparkSession) -> None:
    told = doctor(led, "--for", led.pipeline(COPY), spark=spark)
    found = lines(told)
    assert told.code == 0, json.dumps(found)
    assert found["owner"][0]["seen"].endswith("belongs to the scope, marked in epoch 1")
    assert found["declaration"][-1]["seen"] == "the streams can be declared, as the scope has run them"
    assert found["rehearsal"][0]["seen"].startswith("the newest batches run here: a standby is warm after ")
    assert led.ids() == [1, 2]
    assert list((led.storage / "rows" / "rehearsals").iterdir()) == []


def test_two_pipelines_with_one_scope(led: Place, spark: SparkSession) -> None:
    told = doctor(led, "--for", led.pipeline(COUNTS), spark=spark)
    found = lines(told)
    assert told.code == 14
    (line,) = found["declaration"]
    assert line["grade"] == "bad"
    assert line["seen"] == (
        "scope 'rows' has run another pipeline: stream 'copy' has checkpoints and is declared no more; "
        "stream 'counts' has none, and would begin at the start of its sources"
    )
    assert line["mend"] == "undo that, or allow it once by --drop-stream copy --new-stream counts"
    assert found["rehearsal"][0]["seen"] == "not made: it needs check 'declaration'"


def test_a_file_that_does_not_load(place: Place, spark: SparkSession) -> None:
    told = doctor(place, "--for", place.pipeline("return no_such_name"), spark=spark)
    assert told.code == 14
    broken = place.folder / "broken.py"
    broken.write_text("raise ValueError('no luck')\n")
    found = lines(doctor(place, "--for", str(broken), spark=spark))
    assert found["pipeline"][0]["seen"].endswith("ValueError: no luck")
    assert found["members"][0]["seen"].startswith("not made: no --scope is given")
