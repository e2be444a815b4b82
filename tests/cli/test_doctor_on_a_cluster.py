"""`tenure doctor --for` beside a real standalone cluster: what a job on its executors tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import COPY, Place
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MAIN
from tests.kit.servers import SparkStandalone, installed
from tests.kit.waiting import NEVER_S


def executors_of(place: Place, spark: SparkStandalone, python: str = sys.executable) -> dict[str, Any]:
    """The line of the check."""
    flags = ["--master", spark.url, "--submit", "--executor-memory 512m"]
    for setting in ("spark.cores.max=2", f"spark.pyspark.python={python}"):
        flags += ["--conf", setting]
    command = [*MAIN, "doctor", *place.flags(), "--output", "json", "--for", place.pipeline(COPY), *flags]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=NEVER_S)
    assert told.stdout, told.stderr
    (line,) = [one for one in json.loads(told.stdout) if one["check"] == "executors"]
    assert told.returncode == (0 if line["grade"] == "ok" else 14), told.stdout
    return dict(line)


def cluster(folder: Path, *, unshared: Path | None = None) -> SparkStandalone:
    folder.mkdir()
    return SparkStandalone(folder, workers=1, unshared=unshared)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.make_store()
    made.feed(1)
    return made


@only_if_drawn(QUARTERS[1])
def test_the_executors_write_to_the_storage_with_their_python_or_why_not(place: Place, tmp_path: Path) -> None:
    with installed(), cluster(tmp_path / "spark") as spark:
        line = executors_of(place, spark)
        assert line["grade"] == "ok", line
        version = ".".join(map(str, sys.version_info[:3]))
        assert line["seen"] == (
            f"the executors on {os.uname().nodename} write to the storage; "
            f"Python {version}, pyarrow {metadata.version('pyarrow')}"
        )
        assert list(place.storage.iterdir()) == [], "nothing stays"
        line = executors_of(place, spark, "/opt/none/bin/python")
    assert line["grade"] == "bad", line
    assert line["seen"].startswith(
        "the executors do not run a job that writes to the storage: "
        'java.io.IOException: Cannot run program "/opt/none/bin/python": '
    )
    assert list(place.storage.iterdir()) == [], "nothing stays"


@only_if_drawn(QUARTERS[3])
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_executors_that_do_not_share_the_storage_are_seen(place: Place, tmp_path: Path) -> None:
    place.storage.mkdir()
    with installed(), cluster(tmp_path / "spark", unshared=place.storage) as spark:
        line = executors_of(place, spark)
    assert line["grade"] == "bad", line
    assert line["seen"] == (
        "the executors do not run a job that writes to the storage: "
        f"this host sees 0 of the 4 files that they wrote to file://{place.storage}/rows"
    )
    assert list(place.storage.iterdir()) == [], "nothing stays"
