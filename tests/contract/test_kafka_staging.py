"""Staged rows of the sink for Kafka in a real S3 and a real HDFS: read in part, and removed."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tenure.errors import StorageError
from tenure.sinks.kafka.records import remove, staged_records
from tenure.sinks.staging.stage import PutFile
from tenure.storage.reach import reach
from tenure.storage.urls import hadoop_url
from tests.kit.servers import BUCKET, Hdfs, installed
from tests.s3 import CUT, PASS, Gate

ROWS = 20_000


@pytest.fixture(scope="module")
def hdfs_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hdfs")
    (folder / "hdfs-site.xml").write_text("<configuration/>")
    with pytest.MonkeyPatch.context() as patch, installed(), Hdfs(folder) as servers:
        patch.setenv("HADOOP_CONF_DIR", str(folder))
        yield servers.url


@pytest.fixture
def s3_url(gate: Gate) -> str:
    return f"s3://{BUCKET}"


@pytest.fixture
def local_url(tmp_path: Path) -> str:
    return f"file://{tmp_path}"


PLACES = ["local_url", "s3_url", pytest.param("hdfs_url", marks=pytest.mark.long)]


@pytest.fixture(params=PLACES)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return f"{found}/{os.urandom(6).hex()}/blobs/e00000001/scratch/copy"


def put(url: str) -> list[PutFile]:
    """Two files of an attempt `b`, with some row groups each."""
    puts = []
    for number in range(2):
        written = io.BytesIO()
        values = pa.table({"value": pa.array([f"{number}-{row}" for row in range(ROWS)])})
        pq.write_table(values, written, row_group_size=3000)
        name = f"part-{number}.parquet"
        reach(url).replace(f"b/{name}", written.getvalue())
        puts.append(PutFile(name, written.tell(), 0, b""))
    reach(url).replace("b-of-another/part-0.parquet", b"stays")
    return puts


def test_staged_rows_are_read_and_removed(url: str) -> None:
    puts, scratch = put(url), f"{hadoop_url(url)}/b"
    found = [value for _, value, *_ in staged_records(scratch, puts, topic="t")]
    assert found == [f"{number}-{row}".encode() for number in range(2) for row in range(ROWS)]
    begun = staged_records(scratch, puts, topic="t")
    assert len(list(islice(begun, 10))) == 10
    remove(scratch)
    remove(scratch)
    assert [entry.name for entry in reach(url).entries()] == ["b-of-another"]
    with pytest.raises(StorageError, match="cannot read the staged rows in"):
        list(staged_records(scratch, puts, topic="t"))


def test_a_server_that_breaks_off_is_trouble_of_the_storage(s3_url: str, gate: Gate) -> None:
    url = f"{s3_url}/{os.urandom(6).hex()}"
    puts = put(url)
    gate.rule = lambda method, path: CUT if method == "GET" and "part-1" in path else PASS
    with pytest.raises(StorageError, match=r"cannot read the staged rows in .*part-1"):
        list(staged_records(f"{hadoop_url(url)}/b", puts, topic="t"))
