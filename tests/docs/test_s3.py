"""The page *S3*, done as a reader does it, on a real S3 server: its member, its commands, and the line of a member that
lacks the classes.

Promise: nothing is put in the place of the page's own words but the values of its variables, its folders, and an end of
the run. The pipeline is README's.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tenure.storage.engines import delta_options
from tenure.testing.servers import SeaweedFs, installed
from tenure.testing.servers.connectors import ivy_folder
from tenure.testing.servers.seaweedfs import environment
from tenure.testing.waiting import NEVER_S
from tests.docs.blocks import S3, all_blocks, blocks_of

pytestmark = pytest.mark.spark

UNTIL_IDLE = "--until-idle --quiet --master local[1]"


def block(kind: str) -> str:
    (found,) = [one.text for one in blocks_of(S3) if one.kind == kind]
    return found.strip()


@pytest.fixture
def variables(seaweedfs: SeaweedFs, tmp_path: Path) -> Mapping[str, str]:
    """The variables of the page, with the values of the server."""
    values = environment(seaweedfs.url)
    assert set(re.findall(r"^export (\w+)=", block("sh environment"), flags=re.MULTILINE)) == set(values)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "TENURE_S"))}
    with installed():
        ivy = str(ivy_folder())
    conf = {"spark.jars.ivy": ivy, "spark.sql.shuffle.partitions": "1"}
    path = f"{tmp_path / 'bin'}:{Path(sys.executable).parent}:{bare['PATH']}"
    return {**bare, **values, "HOME": str(tmp_path), "TENURE_CONF": json.dumps(conf), "PATH": path}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the reader has: the pipeline, some flights, and the command."""
    (pipeline,) = [one.text for one in all_blocks("python") if (one.page, one.role) == ("README.md", "pipeline")]
    (tmp_path / "flights.py").write_text(pipeline)
    (tmp_path / "data" / "flights").mkdir(parents=True)
    hours = pa.array([1_700_000_000_000_000 + 3_600_000_000 * hour for hour in range(12)], pa.timestamp("us", tz="UTC"))
    flights = {"time_hour": hours, "carrier": ["UA"] * 12, "dep_delay": [float(hour) for hour in range(12)]}
    pq.write_table(pa.table(flights), tmp_path / "data" / "flights" / "0.parquet")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "tenure"
    command.write_text(f"#!/bin/sh\nexec {sys.executable} -c 'from tenure.cli.main import main; main()' \"$@\"\n")
    command.chmod(0o755)
    return tmp_path


def type_in(text: str, folder: Path, variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
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


def test_the_page_is_true(
    folder: Path, variables: Mapping[str, str], seaweedfs: SeaweedFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = block("sh member").replace("--connector s3 ", "")
    refused = type_in(f"{without} {UNTIL_IDLE}", folder, variables)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.splitlines()[-1] == block("text output")

    done = type_in(f"{block('sh member')} {UNTIL_IDLE}", folder, variables)
    assert done.returncode == 0, done.stderr
    looked = type_in(block("sh look"), folder, variables)
    assert looked.returncode == 0, looked.stderr
    assert "hourly" in looked.stdout

    for name, value in environment(seaweedfs.url).items():
        monkeypatch.setenv(name, value)
    output = "s3a://pipelines/hourly/"
    assert output.replace("s3a", "s3").rstrip("/") in block("sh member")
    table = DeltaTable(output, storage_options=delta_options(output, {})).to_pyarrow_table()
    assert sorted(table["delay"].to_pylist()) == [float(hour) for hour in range(9)], "of the hours that are over"
