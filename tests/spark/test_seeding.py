"""A query goes on in a seeded run directory as if nothing had happened, the old directory being gone.

One test for each kind of query that the seeding was measured with; a new Spark version that changes what a run
directory needs fails here, and in `test_seeding_rows.py` for each file that is left out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory, latest_commit, latest_planned, read_offsets, read_query_id
from tenure.rundirs.seeding import seed, seed_mirrored
from tenure.rundirs.state_copy import SeedPoint, copy_ahead
from tenure.spark.releases import before
from tests.draw import seeds_of
from tests.spark.recorded_runs import (
    BATCHES,
    Recorded,
    Recorder,
    Recordings,
    Rows,
    copy_of,
    cut,
    error_of,
    files_below,
    moved_away,
    run,
    settings,
)
from tests.support.seeds import PARTS, announced

pytestmark = pytest.mark.spark

CASES = [
    ("stateless", "1"),
    ("aggregation", "1"),
    ("aggregation", "2"),
    ("aggregation, HDFS-backed", "1"),
    ("join", "2"),
    ("dropDuplicatesWithinWatermark", "2"),
    ("applyInPandasWithState", "2"),
    ("transformWithStateInPandas", "2"),
    ("aggregation, snapshots only", "2"),
    ("aggregation without keys", "1"),
    ("aggregation without keys", "2"),
]
LONG_CASES = [
    ("aggregation, snapshots only", "1"),
    ("join", "1"),
    ("join, one store", "1"),
    ("join, one store", "2"),
    ("join, HDFS-backed", "1"),
    ("self-join", "2"),
    ("dropDuplicatesWithinWatermark", "1"),
    ("applyInPandasWithState", "1"),
    ("transformWithStateInPandas", "1"),
    ("aggregation without keys, HDFS-backed", "1"),
    ("limit", "1"),
    ("limit", "2"),
]
_BOTH_WAYS = [("aggregation", "1"), ("join", "2")]
"""Of these, a seed after a batch that is done is tried in each run, too: the other ones differ in nothing there."""
_SHORT = [(case, False) for case in CASES] + [(case, True) for case in _BOTH_WAYS]
_LONG = [(case, False) for case in LONG_CASES]
_LONG += [(case, True) for case in [*CASES, *LONG_CASES] if case not in _BOTH_WAYS]
IN_THE_GATE = ("aggregation", "2")
ALL_CASES = [
    *(pytest.param(*case, marks=() if case[0] == IN_THE_GATE else seeds_of(case[0][0])) for case in _SHORT),
    *(pytest.param(*case, marks=pytest.mark.long) for case in _LONG),
]


def _named(value: tuple[str, str] | bool) -> str:
    return " ".join(value) if isinstance(value, tuple) else ("committed" if value else "planned")


def seed_from(
    recorded: Recorded, target: Path, batch: int, *, committed: bool = False, owed_at_ms: int | None = None
) -> int:
    offsets = read_offsets(str(recorded.directory), batch)
    point = SeedPoint(batch, offsets, committed=committed, folders=recorded.folders, owed_at_ms=owed_at_ms)
    return seed(str(recorded.directory), str(target), point)


def go_on(spark: SparkSession, recorded: Recorded, target: Path) -> Rows:
    with moved_away(recorded.directory):
        return run(spark, recorded.kind, recorded.format_, recorded.input, target)


def rows_from(output: Rows, batch: int) -> Rows:
    return {number: rows for number, rows in output.items() if number >= batch}


@pytest.mark.parametrize(("case", "committed"), ALL_CASES, ids=_named)
def test_goes_on_in_a_seed(
    spark: SparkSession, recorder: Recorder, tmp_path: Path, case: tuple[str, str], committed: bool
) -> None:
    recorded = recorder.record(*case)
    batch = cut(recorded)
    target = tmp_path / "a seed+1%"
    seeded = seed_from(recorded, target, batch, committed=committed)
    assert seeded == len(files_below(target)) < len(files_below(recorded.directory))
    assert read_query_id(str(target)) == read_query_id(str(recorded.directory))
    after = batch + 1 if committed else batch
    # Batch by batch, so that the whole output is the same multiset, and the re-run batch the same rows.
    assert go_on(spark, recorded, target) == rows_from(recorded.output, after)


@pytest.mark.parametrize("case", [pytest.param(("join", "2"), marks=seeds_of("join")), IN_THE_GATE], ids=" ".join)
def test_goes_on_in_a_mirror_that_followed_the_leader(
    spark: SparkSession, recorder: Recorder, tmp_path: Path, case: tuple[str, str]
) -> None:
    recorded = recorder.record(*case)
    batch = cut(recorded)
    mirrored = Mirrored(RunDirectory(str(recorded.directory)), RunDirectory(str(tmp_path / "mirror")))
    for number in range(batch - 6, batch):
        point = SeedPoint(number, read_offsets(str(recorded.directory), number))
        copy_ahead(mirrored, point, stop=lambda: False, on_missing=lambda change: None)
    seeded = seed_mirrored(mirrored, SeedPoint(batch, read_offsets(str(recorded.directory), batch)))
    assert seeded < len(files_below(tmp_path / "mirror"))
    assert go_on(spark, recorded, tmp_path / "mirror") == rows_from(recorded.output, batch)


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("aggregation", 0),
        ("aggregation", 9),
        ("aggregation", BATCHES - 1),
        pytest.param("aggregation", 1, marks=pytest.mark.long),
        pytest.param("transformWithStateInPandas", 0, marks=pytest.mark.long),
        pytest.param("transformWithStateInPandas", 1, marks=pytest.mark.long),
        pytest.param("transformWithStateInPandas", BATCHES - 1, marks=pytest.mark.long),
    ],
)
def test_goes_on_at_batch(spark: SparkSession, recorder: Recorder, tmp_path: Path, name: str, batch: int) -> None:
    """The first batches, the batch whose source log is just a compact file, and the newest batch."""
    recorded = recorder.record(name, "2")
    seed_from(recorded, tmp_path / "seed", batch)
    assert go_on(spark, recorded, tmp_path / "seed") == rows_from(recorded.output, batch)


def test_the_batch_without_data_that_spark_owes_is_planned(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
) -> None:
    """Between the last batch with data and the one that closes its windows. Spark alone forgets that it owes one."""
    recorded = recorder.record("windows", "2")
    last = BATCHES - 1
    due = rows_from(recorded.output, last + 1)
    assert list(due) == [last + 1]
    seed_from(recorded, tmp_path / "alone", last, committed=True)
    assert go_on(spark, recorded, tmp_path / "alone") == {}
    seed_from(recorded, tmp_path / "ours", last, committed=True, owed_at_ms=0)
    assert go_on(spark, recorded, tmp_path / "ours") == due


def test_a_batch_without_data_before_new_data_changes_no_row(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
) -> None:
    recorded = recorder.record("windows", "2")
    batch = cut(recorded)
    seed_from(recorded, tmp_path / "seed", batch, committed=True, owed_at_ms=0)
    found, wanted = go_on(spark, recorded, tmp_path / "seed"), rows_from(recorded.output, batch + 1)
    assert sorted(chain.from_iterable(found.values())) == sorted(chain.from_iterable(wanted.values()))


@pytest.mark.long
def test_goes_on_after_the_first_batch(spark: SparkSession, recorder: Recorder, tmp_path: Path) -> None:
    recorded = recorder.record("aggregation", "2")
    seed_from(recorded, tmp_path / "seed", 0, committed=True)
    assert go_on(spark, recorded, tmp_path / "seed") == rows_from(recorded.output, 1)


@pytest.mark.parametrize("committed", [False, pytest.param(True, marks=pytest.mark.long)], ids=["planned", "committed"])
def test_the_log_of_a_source_is_compacted_as_before_after_each_takeover(
    spark: SparkSession, tmp_path: Path, committed: bool
) -> None:
    """Found by the blows of the crash suite: after a third takeover the query could not be started any more. From one
    compact entry alone Spark guesses the interval between them: here 4 from entry 3, and 2 again from entry 11."""
    with settings(spark, {"spark.sql.streaming.fileSource.log.compactInterval": "2"}):
        first = Recorder(spark, Recordings(tmp_path / "recorded")).record("stateless", "1")
        seed_from(first, tmp_path / "a", 4, committed=committed)
        assert go_on(spark, first, tmp_path / "a") == rows_from(first.output, 4 + committed)
        second = replace(first, directory=tmp_path / "a")
        seed_from(second, tmp_path / "b", BATCHES - 1, committed=committed)
        assert go_on(spark, second, tmp_path / "b") == rows_from(first.output, BATCHES - 1 + committed)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=seeds_of(name)) for name in ("aggregation", "transformWithStateInPandas")]
)
def test_a_seed_of_a_seed(spark: SparkSession, recorder: Recorder, tmp_path: Path, name: str) -> None:
    """Two takeovers in one batch, then one after the second leader went on: the schema's path moves each time."""
    recorded = recorder.record(name, "2")
    batch = cut(recorded)
    offsets = read_offsets(str(recorded.directory), batch)
    first, second, third = (tmp_path / part for part in ("first", "second", "third"))
    seed(str(recorded.directory), first.as_uri(), SeedPoint(batch, offsets))
    seed(str(first), str(second), SeedPoint(batch, offsets))
    with moved_away(first):
        assert go_on(spark, recorded, second) == rows_from(recorded.output, batch)
    later = read_offsets(str(second), batch + 1)
    seed(str(second), str(third), SeedPoint(batch + 1, later))
    with moved_away(first), moved_away(second):
        assert go_on(spark, recorded, third) == rows_from(recorded.output, batch + 1)


def test_the_run_leaves_the_files_that_it_shares_with_the_source_as_they_are(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
) -> None:
    """Format 1 writes the state of a re-run batch under the same names: it must not reach through a hard link."""
    recorded = recorder.record("aggregation", "1")
    source = copy_of(recorded.directory, tmp_path / "source")
    before = {name: (source / name).read_bytes() for name in files_below(source)}
    batch = cut(recorded)
    seed(str(source), str(tmp_path / "seed"), SeedPoint(batch, read_offsets(str(source), batch)))
    assert any((tmp_path / "seed" / name).stat().st_nlink > 1 for name in files_below(tmp_path / "seed"))
    run(spark, recorded.kind, "1", recorded.input, tmp_path / "seed")
    assert latest_commit(str(tmp_path / "seed")) == BATCHES - 1
    assert {name: (source / name).read_bytes() for name in files_below(source)} == before


class Killed(Exception):
    """The process ended here."""


def test_a_half_seeded_directory_does_not_start(spark: SparkSession, recorder: Recorder, tmp_path: Path) -> None:
    recorded = recorder.record("aggregation", "2")
    batch = cut(recorded)
    offsets = read_offsets(str(recorded.directory), batch)
    heard: list[str] = []
    with announced(heard.append):
        seed(str(recorded.directory), str(tmp_path / "whole"), SeedPoint(batch, offsets))
    assert heard == [f"{when} {part}" for part in PARTS for when in ("before", "after")]
    for step in heard[:-1]:
        target = tmp_path / step

        def kill(part: str, step: str = step) -> None:
            if part == step:
                raise Killed

        with pytest.raises(Killed), announced(kill):
            seed(str(recorded.directory), str(target), SeedPoint(batch, offsets))
        if not target.exists():
            assert step == "before offsets"
        elif step.startswith("after") or step == "before metadata":  # "before" the next part is the same directory
            assert not (target / "metadata").exists()
            if not before("4.2"):  # an older Spark starts without metadata, and nobody starts it
                assert "STREAMING_CHECKPOINT_MISSING_METADATA_FILE" in error_of(spark, recorded, target)
        if not step.endswith("metadata") and step != "after plan":
            assert latest_planned(str(target)) in (None, batch - 1)
