"""`tenure sweep` by the command line: a plan that removes nothing, its report, and what it removes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tenure.sinks.staging.stage import StagingPath
from tests.cli.support import COPY, Place, Told, tenure

pytestmark = pytest.mark.spark

LOST = (
    "runs/copy/e00000001-dead-0123456789ab/offsets/0",
    "rehearsals/dead/copy-0123456789ab/offsets/0",
    "blobs/e00000001/checkpoints/copy/000000000009-lost",
)


@pytest.fixture
def swept(place: Place, spark: SparkSession) -> Place:
    """A pipeline that ran, and what a dead member left."""
    place.feed(1)
    assert place.run(place.pipeline(COPY), spark=spark).code == 0
    for path in (place.storage / "rows" / path for path in LOST):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("xyz")
    return place


def sweep(place: Place, *command: str, scope: str = "rows") -> Told:
    where = ("--storage", f"file://{place.storage}", "--scope", scope)
    store = ("--store", f"sqlite://{place.store}") if command[0] == "plan" else ()
    return tenure("sweep", *command, *store, *(() if command[0] == "report" else where))


def files(place: Place) -> set[str]:
    return {str(path.relative_to(place.storage)) for path in place.storage.rglob("*") if path.is_file()}


def test_it_is_planned_looked_at_and_removed_and_the_pipeline_goes_on(
    swept: Place, spark: SparkSession, tmp_path: Path
) -> None:
    before, plan = files(swept), str(tmp_path / "plan")
    told = sweep(swept, "plan", plan)
    assert told.code == 0, told.err
    assert "rows, epoch 2: 3 of " in told.err
    assert files(swept) == before
    assert sweep(swept, "report", plan).out == told.out
    told = sweep(swept, "apply", plan, "--output", "json")
    assert told.code == 0, told.err
    assert {row["kind"]: (row["files"], row["removed"]) for row in told.json["kinds"]} == {
        "run directories": (1, 1),
        "rehearsals": (1, 1),
        "blobs": (1, 1),
    }
    assert before - files(swept) == {f"rows/{path}" for path in LOST}
    swept.feed(2)
    assert swept.run(swept.pipeline(COPY), spark=spark).code == 0
    assert swept.ids() == [1, 2]


def test_bad_input_is_one_line(swept: Place, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan")
    assert sweep(swept, "report", plan).error.startswith(f"there is no whole plan in {plan}")
    assert sweep(swept, "plan", plan).code == 0
    assert sweep(swept, "plan", plan).error.startswith(f"{plan} is not empty")
    assert sweep(swept, "apply", plan, "--rate", "0").error.startswith("a rate of 0 files a second removes nothing")
    other = tenure("sweep", "apply", plan, "--storage", f"file://{tmp_path}/elsewhere")
    assert other.error.startswith(
        f"the plan in {plan} is of file://{swept.storage}/rows, not of file://{tmp_path}/else"
    )
    assert sweep(swept, "apply", plan, scope="other").error.startswith(
        f"the plan in {plan} is of scope 'rows', not of 'other'"
    )
    assert sweep(swept, "plan", f"{plan}2", "--conf", "x").error.startswith("--conf 'x' has no value")
    assert sweep(swept, "plan", f"{plan}3", scope="none").error.startswith("nobody ever led scope 'none' in this store")


def test_another_store_plans_nothing(swept: Place, spark: SparkSession, tmp_path: Path) -> None:
    """What it does not name, the pipeline's own store may name."""
    before = files(swept)
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    other.feed(1)
    assert other.run(other.pipeline(COPY), spark=spark).code == 0
    where = ("--storage", f"file://{swept.storage}", "--scope", "rows")
    told = tenure("sweep", "plan", str(tmp_path / "plan"), "--store", f"sqlite://{other.store}", *where)
    assert told.error.startswith(f"storage file://{swept.storage}/rows is not that of scope 'rows' in this store")
    assert told.code == 11
    assert sweep(swept, "report", str(tmp_path / "plan")).error.startswith("there is no whole plan in")
    assert files(swept) == before


def test_what_cannot_be_removed_has_a_code_of_its_own(
    swept: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = str(tmp_path / "plan")
    sweep(swept, "plan", plan)

    def refuse(name: str, **named: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.unlink", refuse)
    told = sweep(swept, "apply", plan)
    monkeypatch.undo()
    assert told.code == 10
    assert told.error.startswith("3 of 3 files of the plan")
    assert f"{LOST[0]}: Permission denied" in told.err
    assert sweep(swept, "apply", plan).code == 0
    assert not {f"rows/{path}" for path in LOST} & files(swept)


# --- beside a table ---------------------------------------------------------------------------------------------


def stage(place: Place, *, query_id: str = "", batch: int = 99) -> Path:
    """What a dead leader of the first epoch left of a batch; by default it was never planned."""
    [staged] = (place.output / "tenure-rows" / "copy").iterdir()
    attempt = StagingPath("rows", "copy", query_id or staged.name, 1, batch, "0" * 32)
    folder = place.output / str(attempt)
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").write_text("xyz")
    return folder


def test_what_is_staged_beside_a_table_goes_by_a_plan_of_its_own(
    swept: Place, spark: SparkSession, tmp_path: Path
) -> None:
    (swept.storage / "rows" / "runs" / "lost+found").mkdir()
    lost, foreign, plan = stage(swept), stage(swept, query_id="of-another-store"), str(tmp_path / "plan")
    told = sweep(swept, "plan", plan, "--table", str(swept.output))
    assert told.code == 0, told.err
    assert "rows, epoch 2: 1 of 4 files are not needed" in told.err  # one is in the table, with its checksum
    told = sweep(swept, "apply", plan, "--output", "json")
    assert told.code == 0, told.err
    assert [(row["kind"], row["removed"]) for row in told.json["kinds"]] == [("staged output", 1)]
    assert not lost.exists()
    assert (foreign / "part-0.parquet").exists()
    swept.feed(2)
    assert swept.run(swept.pipeline(COPY), spark=spark).code == 0
    assert swept.ids() == [1, 2]


def test_a_wrong_table_is_one_line(swept: Place, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan")
    (tmp_path / "none").mkdir()
    told = sweep(swept, "plan", plan, "--table", str(tmp_path / "none"))
    assert told.code == 2
    assert told.error.startswith(f"{tmp_path}/none is no Delta table, and nothing of scope 'rows' is staged there")
    stage(swept)
    assert sweep(swept, "plan", plan, "--table", str(swept.output)).code == 0
    told = sweep(swept, "apply", plan, "--table", str(tmp_path / "none"))
    assert told.error.startswith(f"the plan in {plan} is of {swept.output}, not of {tmp_path}/none")
    assert sweep(swept, "apply", plan, "--table", str(swept.output)).code == 0


def test_another_store_plans_nothing_beside_a_table(swept: Place, spark: SparkSession, tmp_path: Path) -> None:
    """Its pipeline of the same name has planned other batches."""
    lost = stage(swept)
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other")
    other.feed(1)
    assert other.run(other.pipeline(COPY), spark=spark).code == 0
    where = ("--storage", f"file://{swept.storage}", "--scope", "rows", "--table", str(swept.output))
    told = tenure("sweep", "plan", str(tmp_path / "plan"), "--store", f"sqlite://{other.store}", *where)
    assert told.error.startswith(f"storage file://{swept.storage}/rows is not that of scope 'rows' in this store")
    assert lost.exists()
