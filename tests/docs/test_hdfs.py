"""The page *HDFS*, done as a reader does it, on a real HDFS.

Promise: nothing is put in the place of the page's own words but the address of the NameNode, its folders, and an end of
the run. The pipeline is README's.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.docs.blocks import HDFS, text_of
from tests.docs.reader import DELAYS, UNTIL_IDLE, fill, type_in, variables_of
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.servers import Hdfs

pytestmark = [pytest.mark.spark, only_if_drawn(QUARTERS[0])]


def test_the_page_is_true(tmp_path: Path, hdfs: Hdfs) -> None:
    fill(tmp_path)
    variables = {**variables_of(tmp_path), "TENURE_CONF": json.dumps({"spark.sql.shuffle.partitions": "1"})}

    def block(kind: str) -> str:
        return text_of(HDFS, kind).replace("hdfs://namenode:8020", hdfs.url)

    done = type_in(f"{block('sh member')} {UNTIL_IDLE}", tmp_path, variables)
    assert done.returncode == 0, done.stderr
    looked = type_in(block("sh look"), tmp_path, variables)
    assert looked.returncode == 0, looked.stderr
    assert "hourly" in looked.stdout
    output = f"{hdfs.url}/data/hourly"
    assert f"output={output}" in block("sh member")
    assert sorted(DeltaTable(output).to_pyarrow_table()["delay"].to_pylist()) == DELAYS
