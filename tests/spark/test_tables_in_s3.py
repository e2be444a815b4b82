"""How often a standby whose storage is in S3 loads the tables of a state: once, whatever it does with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tenure.events import RehearsalFailed, StandbyWarm
from tenure.rundirs.run_directory import RunDirectory
from tenure.spark.kept_tables import KeptTables, use_kept_tables
from tenure.spark.own_classes import use_own_classes
from tenure.spark.releases import before
from tenure.takeover import rehearsal
from tenure.takeover.mirror import Mirrors
from tenure.takeover.rehearsal import Rehearsals
from tests.draw import QUARTERS, only_if_drawn
from tests.jvm import SharedJvm, Start
from tests.kit.servers import BUCKET
from tests.kit.waiting import NEVER_S, wait_until
from tests.s3 import reached
from tests.spark.object_store import QUERY, Place
from tests.support.far_gate import FarGate, Order

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(before("4.0"), reason="before 4.0, no state file has an id: a standby keeps no tables"),
    only_if_drawn(QUARTERS[3]),
]

WHOLE = {
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",  # each batch uploads its tables
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "1",
}


@pytest.fixture(scope="module")
def spark(jvm: SharedJvm, start_in_s3: Start) -> Iterator[SparkSession]:
    with jvm.lent(start_in_s3) as session:
        for name, value in WHOLE.items():
            session.conf.set(name, value)
        yield session


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> KeptTables:
    use_own_classes(spark)
    context: Any = spark.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(f"s3a://{BUCKET}/")
    path.getFileSystem(context._jsc.hadoopConfiguration()).close()  # a test before may have opened it
    kept, why = use_kept_tables(spark, f"s3://{BUCKET}/storage")
    assert why is None
    assert kept is not None
    return kept


@pytest.fixture
def place(
    spark: SparkSession, tables: KeptTables, gate: FarGate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A leader's state, of three batches. The gate counts from here on."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setattr(rehearsal, "A_SECOND", 1e9)
    monkeypatch.setattr(rehearsal, "MORE_S", -1.0)  # three rehearsals say as much as ten
    with reached(gate.url, monkeypatch):
        made = Place(spark, tmp_path)
        for _ in range(3):
            made.feed()
        with made.led() as (_, query):
            query.processAllAvailable()
        gate.obey(Order())
        yield made


def loads(gate: FarGate) -> Counter[str]:
    """Table -> how often its bytes were read from S3."""
    gets = [path for method, path, _ in gate.seen() if method == "GET" and path.partition("?")[0].endswith(".sst")]
    return Counter(path.rpartition("/")[2] for path in gets)


def puts(gate: FarGate) -> set[str]:
    """The files that were put, or copied in S3. A table that a rehearsal's state store uploads has its own name."""
    return {path.partition("?")[0].rpartition("/")[2] for method, path, _ in gate.seen() if method == "PUT"}


def test_all_rehearsals_load_a_table_once_and_copy_none(
    place: Place, tables: KeptTables, gate: FarGate, spark: SparkSession
) -> None:
    rehearsals = Rehearsals([place.declared()], place.context(), member="ben", tables=tables)
    rehearsals.start()
    rehearsals.join(timeout_s=NEVER_S)
    assert any(isinstance(event, StandbyWarm) for event in place.told)
    assert not any(isinstance(event, RehearsalFailed) for event in place.told)
    assert loads(gate), "the state has tables"
    assert set(loads(gate).values()) == {1}
    assert loads(gate).keys().isdisjoint(puts(gate))
    assert kept_in(spark) == [], "nobody holds them any more"


def test_a_takeover_loads_no_table_and_lets_the_kept_tables_go(
    place: Place, tables: KeptTables, gate: FarGate, spark: SparkSession
) -> None:
    mirrors = Mirrors([QUERY], place.context(), member="anna", tables=tables)
    mirrors.start()
    wait_until(lambda: mirrors.lag is not None and mirrors.lag.batches == 0, what="a mirror")
    runs = f"{place.root}/storage/runs/{QUERY}"
    needed = sorted(RunDirectory(f"{runs}/{max(RunDirectory(runs).list())}").list("state/0/0/SSTs"))
    wait_until(lambda: kept_in(spark) == needed, what="its tables")
    mirrors.stop()
    gate.obey(Order())
    place.feed()
    with place.led(mirrors) as (_, query):
        query.processAllAvailable()
    loaded = {table for table in loads(gate) if table in needed or not before("4.1")}
    assert not loaded, "Spark 4.0 reads a table that it has put itself"
    assert place.counts() == place.truth()
    assert kept_in(spark) == []


def kept_in(spark: SparkSession) -> list[str]:
    """The files beside the state stores."""
    context: Any = spark.sparkContext
    return sorted(path.name for path in (Path(context._temp_dir) / "tables").iterdir())
