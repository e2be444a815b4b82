"""What Spark's plan says of the sources of a query: their folders, kinds, and what they read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tenure.checkpoints.source import ANOTHER, FILES, RATE
from tenure.spark.plans import source_folders_of
from tenure.spark.releases import before
from tenure.spark.source_plans import sources_of

pytestmark = pytest.mark.spark

EVOLUTION = {
    "spark.sql.streaming.offsetLog.formatVersion": "2",
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
}


class Reads:
    """Streams of the files in two folders."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        for name in ("web", "app"):
            (folder / name).mkdir()
            (folder / name / "1.json").write_text('{"id":1}\n')

    def files(self, name: str, **options: str) -> DataFrame:
        return self.spark.readStream.schema("id long").options(**options).json(f"{self.folder}/{name}")

    def text(self, name: str) -> str:
        return f"json path=file:{self.folder}/{name}"


@pytest.fixture
def reads(spark: SparkSession, tmp_path: Path) -> Reads:
    return Reads(spark, tmp_path)


def found(rows: DataFrame) -> list[tuple[str, str, str]]:
    return [(source.folder, source.kind, source.told) for source in sources_of(rows)]


@pytest.mark.skipif(before("4.0"), reason="Spark has sources of Python from 4.0 on")
def test_the_kinds_and_the_words_of_sources(spark: SparkSession, reads: Reads) -> None:
    from pyspark.sql.datasource import DataSource

    class Maps(DataSource):
        """A source of Python."""

        @classmethod
        def name(cls) -> str:
            return "maps"

        def schema(self) -> str:
            return "id long"

    spark.dataSource.register(Maps)
    maps = spark.readStream.format("maps").option("Feed", "a").option("token", "secret").load()
    rate = spark.readStream.format("rate").option("rowsPerSecond", 5).load().selectExpr("value as id")
    assert found(reads.files("web", maxFilesPerTrigger="1").union(maps).union(rate)) == [
        ("0", FILES, reads.text("web")),
        ("1", ANOTHER, "maps feed=a"),
        ("2", RATE, "rate"),
    ]


def test_one_path_in_two_spellings_is_one_source(reads: Reads) -> None:
    spark = reads.spark.readStream.schema("id long")
    kind = "org.apache.spark.sql.execution.datasources.json.JsonFileFormat"
    path = f"{reads.folder}/web"
    same = [spark.json(path), spark.format(kind).load(path), spark.format("JSON").load(f"file://{path}")]
    assert len({sources_of(rows) for rows in same}) == 1
    assert sources_of(spark.json(path)) != sources_of(spark.json(f"{path}/*"))


SHAPES: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "a union": lambda a, b: b.union(a).union(b.where("id > 0")).union(a),
    "a query with a clause": lambda a, b: a.sparkSession.sql(
        "with x as (select id from {a}) select * from x union all select * from {b} union all select * from x",
        a=a,
        b=b,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_folders_are_those_of_the_running_query(reads: Reads, tmp_path: Path, shape: str) -> None:
    rows = SHAPES[shape](reads.files("web"), reads.files("app"))
    writer = rows.writeStream.foreachBatch(lambda rows, batch: None).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "run")).start()
    try:
        query.processAllAvailable()
        assert tuple(source.folder for source in sources_of(rows)) == source_folders_of(query)
    finally:
        query.stop()


@pytest.mark.skipif(before("4.2"), reason="Spark has names of sources from 4.2 on")
def test_a_source_with_a_name_is_known_by_its_name(reads: Reads) -> None:
    for name, value in EVOLUTION.items():
        reads.spark.conf.set(name, value)
    try:
        named = [
            reads.spark.readStream.name(name).schema("id long").json(f"{reads.folder}/{name}")
            for name in ("web", "app")
        ]
        assert found(named[1].union(named[0])) == [
            ("app", FILES, reads.text("app")),
            ("web", FILES, reads.text("web")),
        ]
    finally:
        for name in EVOLUTION:
            reads.spark.conf.unset(name)
