"""A poison file in a nightly run, walked through as docs/operate.md says: the batch is tried, the pipeline is paused,
the file is taken out, and the next run goes on with all other files, with state and without."""

from __future__ import annotations

import json
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tenure.cli.options import operator
from tests.cli.conftest import place, spark
from tests.cli.support import Place, Told, tenure

__all__ = ["place", "spark"]

STREAMS = """
rows = job.spark.readStream.schema("id long, k string").option("maxFilesPerTrigger", 2).option("mode", "FAILFAST")
rows = rows.json(job.params["input"])
job.stream("copy", rows, sink=Delta(job.params["output"] + "/copy"))
job.stream("counts", rows.groupBy("k").count(), sink=Delta(job.params["output"] + "/counts", key=["k"]),
           output_mode="update")
"""


def feed(place: Place, name: str, *ids: int) -> None:
    (place.input / name).write_text("".join(f"{json.dumps({'id': one, 'k': 'ab'[one % 2]})}\n" for one in ids))


def nightly(place: Place, spark: SparkSession, *flags: str) -> Told:
    return place.run(place.pipeline(STREAMS), *flags, spark=spark)


def copied(place: Place) -> list[int]:
    return sorted(DeltaTable(str(place.output / "copy")).to_pyarrow_table()["id"].to_pylist())


def counted(place: Place) -> dict[str, int]:
    table = DeltaTable(str(place.output / "counts")).to_pyarrow_table()
    return dict(zip(table["k"].to_pylist(), table["count"].to_pylist(), strict=True))


def test_a_poison_file_in_a_nightly_run(place: Place, spark: SparkSession, tmp_path: Path) -> None:
    feed(place, "a.json", 1, 2)
    feed(place, "b.json", 3)
    assert nightly(place, spark).code == 0
    feed(place, "c.json", 4, 5)
    bad = place.input / "d.json"
    bad.write_text('{"id": 6, "k": \n')
    first = nightly(place, spark, "--batch-attempts", "1")
    assert first.code == 8, first.err
    assert "it was the last attempt, and the scope is paused; see" in first.error
    assert "d.json" in first.error
    second = nightly(place, spark)
    assert second.code == 8, second.err
    assert "scope 'rows' is paused: batch 1 of" in second.error
    assert "paused by" in verb(place, "list").err
    looked = verb(place, "batch", "quarantine", "copy", "d.json", storage=True)
    assert looked.code == 0, looked.err
    assert "c.json" in looked.out
    assert bad.exists(), "nothing is moved without --apply"
    aside = tmp_path / "aside"
    done = verb(place, "batch", "quarantine", "copy", "d.json", "--to", str(aside), "--apply", storage=True)
    assert done.code == 0, done.err
    assert [line.partition(" runs without ")[0] for line in done.out.splitlines()] == [
        "batch 1 of copy", "batch 1 of counts",
    ]  # fmt: skip
    assert [one.name for one in aside.iterdir()] == ["d.json"]
    assert not bad.exists()
    third = nightly(place, spark)
    assert third.code == 0, third.err
    assert copied(place) == [1, 2, 3, 4, 5]
    assert counted(place) == {"a": 2, "b": 3}
    terms = place.look("history")
    words = [(term["why"], term["detail"] or "") for term in terms]
    assert [why for why, _ in words] == ["finished", "failed", "quarantine", "finished"]
    assert words[2][1] == "batch 1 of copy without d.json"
    assert terms[2]["by"] == operator()
    feed(place, "e.json", 7)
    assert nightly(place, spark).code == 0
    assert copied(place) == [1, 2, 3, 4, 5, 7]
    assert counted(place) == {"a": 2, "b": 4}


def verb(place: Place, *words: str, storage: bool = False) -> Told:
    """One command on the scope."""
    flags = ["--storage", f"file://{place.storage}"] if storage else []
    return tenure(*words, "--store", f"sqlite://{place.store}", "--scope", "rows", *flags)
