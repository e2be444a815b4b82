"""What a reader of a page has, and how the reader types: README's pipeline, some flights, and the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tests.docs.blocks import all_blocks
from tests.kit.waiting import NEVER_S

UNTIL_IDLE: Final = "--until-idle --quiet --master local[1]"
"""Put behind a `tenure run` of a page, so that it ends."""
HOURS: Final = 12
DELAYS: Final = [float(hour) for hour in range(HOURS - 3)]
"""What the pipeline computes, once: the delays of the hours that are over."""


def fill(folder: Path) -> None:
    """Put the pipeline, the flights and the command into a folder."""
    (pipeline,) = [one.text for one in all_blocks("python") if (one.page, one.role) == ("README.md", "pipeline")]
    (folder / "flights.py").write_text(pipeline)
    (folder / "data" / "flights").mkdir(parents=True)
    hours = pa.array(
        [1_700_000_000_000_000 + 3_600_000_000 * hour for hour in range(HOURS)], pa.timestamp("us", tz="UTC")
    )
    flights = {"time_hour": hours, "carrier": ["UA"] * HOURS, "dep_delay": [float(hour) for hour in range(HOURS)]}
    pq.write_table(pa.table(flights), folder / "data" / "flights" / "0.parquet")
    put_command(folder)


def put_command(folder: Path) -> None:
    """Put `tenure` into a folder's `bin`."""
    (folder / "bin").mkdir()
    command = folder / "bin" / "tenure"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from tenure.cli.main import main; main()' \"$@\"\n")
    command.chmod(0o755)


def variables_of(folder: Path) -> dict[str, str]:
    """The reader's variables: this process's, without those that a page is about, and the folder's command."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "HADOOP_", "TENURE_S"))}
    return {**bare, "PATH": f"{folder / 'bin'}:{Path(sys.executable).parent}:{bare['PATH']}"}


def type_in(text: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Let bash run a block of a page, with folders of the test in the place of the page's."""
    text = text.replace("/var/lib/tenure", str(folder)).replace("/data/flights", str(folder / "data" / "flights"))
    return subprocess.run(
        ["bash", "-c", text],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=NEVER_S,
        check=False,
    )
