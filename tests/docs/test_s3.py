"""The page *S3*, done as a reader does it, on a real S3 server: its member, its commands, and the line of a member that
lacks the classes.

Promise: nothing is put in the place of the page's own words but the values of its variables, its folders, and an end of
the run. The pipeline is README's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tenure.storage.engines import delta_options
from tests.docs.blocks import S3, text_of
from tests.docs.reader import DELAYS, UNTIL_IDLE, fill, type_in, variables_of
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.servers import SeaweedFs, installed
from tests.kit.servers.connectors import ivy_folder
from tests.kit.servers.seaweedfs import environment

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[0])]


@pytest.fixture
def variables(seaweedfs: SeaweedFs, tmp_path: Path) -> Mapping[str, str]:
    """The variables of the page, with the values of the server."""
    values = environment(seaweedfs.url)
    assert set(re.findall(r"^export (\w+)=", text_of(S3, "sh environment"), flags=re.MULTILINE)) == set(values)
    with installed():
        ivy = str(ivy_folder())
    conf = {"spark.jars.ivy": ivy, "spark.sql.shuffle.partitions": "1"}
    return {**variables_of(tmp_path), **values, "HOME": str(tmp_path), "TENURE_CONF": json.dumps(conf)}


def test_the_page_is_true(
    tmp_path: Path, variables: Mapping[str, str], seaweedfs: SeaweedFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    without = text_of(S3, "sh member").replace("--connector s3 ", "")
    refused = type_in(f"{without} {UNTIL_IDLE}", tmp_path, variables)
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.splitlines()[-1] == text_of(S3, "text output")

    done = type_in(f"{text_of(S3, 'sh member')} {UNTIL_IDLE}", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    looked = type_in(text_of(S3, "sh look"), tmp_path, variables)
    assert looked.returncode == 0, looked.stderr
    assert "hourly" in looked.stdout

    for name, value in environment(seaweedfs.url).items():
        monkeypatch.setenv(name, value)
    output = "s3a://pipelines/hourly/"
    assert output.replace("s3a", "s3").rstrip("/") in text_of(S3, "sh member")
    table = DeltaTable(output, storage_options=delta_options(output, {})).to_pyarrow_table()
    assert sorted(table["delay"].to_pylist()) == DELAYS
