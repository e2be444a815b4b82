"""What happens when one file is left out of a seed: what Spark says, and that our seeding says it first.

Each row was measured on Spark 4.3, and on an older release where it says something else. Where Spark starts without a
word, and wrongly, the row says so: such a row that fails after an update of Spark is good news, and the seeding may
then be stricter than it must be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.checkpoints.source import FILES
from tenure.errors import CorruptRunDirectory
from tenure.rundirs.run_directory import read_offsets
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.spark.releases import before
from tests.draw import seeds_of
from tests.spark.recorded_runs import (
    Recorded,
    Recorder,
    copy_of,
    cut,
    error_of,
    remove,
    run,
)

pytestmark = pytest.mark.spark

MISSING_METADATA = "STREAMING_CHECKPOINT_MISSING_METADATA_FILE"
UNREADABLE_STATE = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_STREAMING_STATE_FILE"
UNREADABLE = {"4.0": "Error reading streaming state file"}
INCOMPLETE_STATE, UNKNOWN_STATE = "lineage is incomplete", "CANNOT_LOAD_STATE_STORE"
AGGREGATION, PROCESSOR = "aggregation", "transformWithStateInPandas"
PLANNED, COMMITTED = False, True
END_MARK_BYTES = 21  # an empty LZ4 block


@dataclass(frozen=True, slots=True)
class Row:
    """A file that is left out; `{n}` is the batch, `{p}` the one before, `{v}` the state version that is loaded."""

    left_out: str
    committed: bool
    spark_says: str | None
    """None: Spark runs as if nothing were missing."""
    name: str = AGGREGATION
    format_: str = "2"
    runs_again: bool = False
    """Whether Spark runs batch N again though it was committed."""
    we_refuse: bool = True
    refused_since: str = "3.5"
    """The first release whose directories tell us, if we refuse."""
    since: str = "3.5"
    """The first release that has such a file, or such a format of it."""
    earlier: Mapping[str, str | None] = field(default_factory=dict)
    """A release -> what Spark said before it; the oldest comes first."""

    def __str__(self) -> str:
        when = "committed" if self.committed else "planned"
        return f"{self.name}, format {self.format_}, {when}: {self.left_out}"

    def said(self) -> str | None:
        """What the installed release says."""
        return next((said for release, said in self.earlier.items() if before(release)), self.spark_says)


def marks(row: Row) -> list[pytest.MarkDecorator]:
    """Where both ways to seed say the same, one of them is enough for every day."""
    twin = replace(row, committed=not row.committed)
    return [pytest.mark.long] if row.committed and twin in ROWS else [seeds_of(str(row))]


ROWS = [
    Row("metadata", PLANNED, MISSING_METADATA, earlier={"4.2": None}),
    Row("metadata", COMMITTED, MISSING_METADATA, earlier={"4.2": None}),
    Row("offsets/{p}", COMMITTED, "batch {p} doesn't exist"),
    Row(
        "offsets/{p}", PLANNED, "Previous batch {p} not found in offset log", earlier={"4.2": "batch {p} doesn't exist"}
    ),
    Row("commits/{n}", COMMITTED, None, format_="1", runs_again=True),
    Row("commits/{p}", PLANNED, None, format_="1"),
    Row("commits/{n}", COMMITTED, "NumberFormatException: For input string", since="4.0"),
    Row("commits/{p}", PLANNED, "NumberFormatException: For input string", since="4.0"),
    Row("sources/0/{n}", PLANNED, "batch {n} doesn't exist"),
    Row("sources/0/{n}", COMMITTED, "batch {n} doesn't exist"),
    Row("sources", PLANNED, "batch {n} doesn't exist"),
    Row("sources/0/9.compact", PLANNED, "sources/0/9.compact doesn't exist"),
    Row("sources/0/9.compact", COMMITTED, "sources/0/9.compact doesn't exist"),
    Row("state/0/1/{v}*.changelog", PLANNED, UNREADABLE_STATE, format_="1", earlier=UNREADABLE),
    Row("state/0/1/{v}*.changelog", COMMITTED, UNREADABLE_STATE, format_="1", earlier=UNREADABLE),
    Row("state/0/1/{v}_*.changelog", PLANNED, UNREADABLE_STATE, since="4.0"),
    Row("state/0/1/{v}_*.changelog", COMMITTED, UNREADABLE_STATE, since="4.0"),
    # The source has older ones to begin with.
    Row(*("state/0/1/*.zip", PLANNED, INCOMPLETE_STATE), we_refuse=False, earlier={**UNREADABLE, "4.2": UNKNOWN_STATE}),
    Row("state/0/1/SSTs/*", PLANNED, INCOMPLETE_STATE, earlier={"4.0": "FileNotFoundException", "4.2": UNKNOWN_STATE}),
    Row("state/0/1", PLANNED, UNREADABLE_STATE, refused_since="4.0", earlier=UNREADABLE),
    Row("state/0/1", PLANNED, UNREADABLE_STATE, format_="1", refused_since="4.0", earlier=UNREADABLE),
    Row(
        "state/0/_metadata", PLANNED, None, since="4.0"
    ),  # ours is stricter: it takes the number of partitions from there
    Row("state/0/0/_metadata", PLANNED, None, we_refuse=False),
    Row("state/0/*/*.crc", PLANNED, None, we_refuse=False, since="4.1"),
    Row("state/0/_metadata", PLANNED, "STDS_FAILED_TO_READ_OPERATOR_METADATA", name=PROCESSOR),
    Row("state/0/_metadata", COMMITTED, "STDS_FAILED_TO_READ_OPERATOR_METADATA", name=PROCESSOR),
    Row("state/0/_stateSchema", PLANNED, "FileNotFoundException", name=PROCESSOR),
]


@pytest.mark.parametrize("row", [pytest.param(row, marks=marks(row)) for row in ROWS], ids=str)
def test_left_out(spark: SparkSession, recorder: Recorder, tmp_path: Path, row: Row) -> None:
    if before(row.since):
        pytest.skip("this release has no such file")
    recorded = recorder.record(row.name, row.format_)
    batch = cut(recorded)
    version = batch + 1 if row.committed else batch
    offsets = read_offsets(str(recorded.directory), batch)
    target = tmp_path / "seed"
    point = SeedPoint(batch, offsets, committed=row.committed, kinds={"0": FILES})
    seed(str(recorded.directory), str(target), point)
    removed = remove(target, row.left_out.format(n=batch, p=batch - 1, v=version))
    if (said := row.said()) is not None:
        assert said.format(n=batch, p=batch - 1) in error_of(spark, recorded, target)
    else:
        first = batch if row.runs_again or not row.committed else batch + 1
        ran = run(spark, recorded.kind, row.format_, recorded.input, target)
        assert ran == {number: rows for number, rows in recorded.output.items() if number >= first}

    source = copy_of(recorded.directory, tmp_path / "source")
    for path in removed:
        remove(source, path)
    again = tmp_path / "again"
    if row.we_refuse and not before(row.refused_since):
        with pytest.raises(CorruptRunDirectory) as refused:
            seed(str(source), str(again), point)
        assert str(source) in refused.value.what
        assert any(Path(path).name.split(".")[0] in refused.value.what for path in removed)
        assert not (again / "metadata").exists()
    else:
        seed(str(source), str(again), point)


def test_a_schema_path_that_was_not_rewritten_reads_the_old_directory(
    spark: SparkSession, recorder: Recorder, tmp_path: Path
) -> None:
    recorded = recorder.record(PROCESSOR, "2")
    batch = cut(recorded)
    target = tmp_path / "seed"
    seed(str(recorded.directory), str(target), SeedPoint(batch, read_offsets(str(recorded.directory), batch)))
    operator = target / "state/0/_metadata/v2/0"
    path = json.loads(operator.read_text().partition("\n")[2])["stateStoreInfo"][0]["stateSchemaFilePaths"][0]
    assert path.startswith(f"file:{target}/state/0/_stateSchema/default/")
    operator.write_bytes((recorded.directory / "state/0/_metadata/v2/0").read_bytes())
    gone = recorded.directory.rename(recorded.directory.with_name("gone"))
    try:
        said = error_of(spark, recorded, target)
    finally:
        shutil.rmtree(recorded.directory, ignore_errors=True)  # the query made it again, with its schema in it
        gone.rename(recorded.directory)
    assert "FileNotFoundException" in said


@pytest.mark.parametrize("checked", [True, False], ids=["with checksum file", "without"])
def test_a_change_file_that_lost_its_end(
    spark: SparkSession, recorder: Recorder, tmp_path: Path, checked: bool
) -> None:
    """Why a seed takes Spark's checksum files along: without them Spark takes a shortened change file as it is."""
    if checked and before("4.1"):
        pytest.skip("this release writes no checksum files")
    recorded = recorder.record(AGGREGATION, "2")
    batch = cut(recorded)
    target = tmp_path / "seed"
    seed(str(recorded.directory), str(target), SeedPoint(batch, read_offsets(str(recorded.directory), batch)))
    shortened = next((target / "state/0/0").glob(f"{batch}[_.]*changelog"))
    data = shortened.read_bytes()
    shortened.unlink()  # it is a link to the source's file
    shortened.write_bytes(data[:-END_MARK_BYTES])
    if checked:
        assert "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED" in error_of(spark, recorded, target)
    else:
        if not before("4.1"):
            remove(target, "state/0/*/*.crc")
        run(spark, recorded.kind, recorded.format_, recorded.input, target)


def test_a_planned_batch_with_other_offsets_runs_those(spark: SparkSession, recorder: Recorder, tmp_path: Path) -> None:
    """The plan is what the caller says, not what the former owner's directory says by now."""
    recorded: Recorded = recorder.record("stateless", "1")
    batch = cut(recorded)
    offsets = read_offsets(str(recorded.directory), batch + 1)
    target = tmp_path / "seed"
    seed(str(recorded.directory), str(target), SeedPoint(batch, offsets))
    assert read_offsets(str(target), batch) == offsets
    ran = run(spark, recorded.kind, "1", recorded.input, target)
    assert ran[batch] == sorted(recorded.output[batch] + recorded.output[batch + 1])
