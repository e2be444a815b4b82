"""A pipeline that ends for good, by the command line: the result, the cleanup, a second run, and a new beginning."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from tests.cli.support import COPY, COUNTS, Place, Told, tenure

pytestmark = pytest.mark.spark


def left(place: Place) -> list[str]:
    """The files in the storage."""
    return [str(path.relative_to(place.storage)) for path in place.storage.rglob("*")]


def staged(place: Place) -> set[str]:
    """The files in the sink's own folder of the table."""
    found = (place.output / "tenure-rows").rglob("*.parquet")
    return {str(path.relative_to(place.output)) for path in found}


def written(place: Place) -> set[str]:
    """The files that the table has or had."""
    lines = [line for log in (place.output / "_delta_log").glob("*.json") for line in log.read_text().splitlines()]
    return {unquote(action["add"]["path"]) for action in map(json.loads, lines) if "add" in action}


def records(place: Place) -> set[str]:
    return {key for (key,) in place.sql("select key from records")}


def ask(place: Place, *command: str) -> Told:
    storage = ("--storage", f"file://{place.storage}")
    return tenure(*command, "--store", f"sqlite://{place.store}", *storage, "--scope", "rows")


def test_a_pipeline_that_ended_leaves_its_output_and_its_result(place: Place, spark: SparkSession) -> None:
    place.feed(1, 2)
    file = place.pipeline(COPY)
    told = place.run(file, "--final", spark=spark)
    assert told.code == 0, told.err
    assert "the pipeline has finished for good, epoch 1: nothing is left of it" in told.err
    assert place.ids() == [1, 2]
    assert left(place) == []
    kept = {"epoch", "identity", "results", "results/result"}
    assert records(place) == {*kept, "members_past", "terms/000000000001"}
    found = place.look("result", "show")
    assert (found["ending"], found["stage"], found["epoch"]) == ("finished", "clean", 1)
    assert ask(place, "cleanup", "status").out == "rows has finished, and is clean: nothing is left of it\n"
    assert [term["why"] for term in place.look("history")] == ["cleaned up"]


def test_it_is_not_run_again_and_spark_is_not_even_started(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    place.run(file, "--final", spark=spark)
    place.feed(2)
    told = tenure("run", file, *place.flags(), "--until-idle")  # it borrows no session
    assert told.code == 0, told.err
    assert told.err.strip().endswith("the pipeline has finished for good, epoch 1: nothing is left of it")
    assert place.ids() == [1]
    assert left(place) == []
    assert len(place.look("history")) == 1


def test_what_is_forgotten_begins_from_the_beginning(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    place.run(file, "--final", spark=spark)
    assert ask(place, "result", "forget").out == "rows may be run again, from the beginning\n"
    assert place.look("result", "show") is None
    told = place.run(file, "--final", spark=spark)
    assert told.code == 0, told.err
    assert place.ids() == [1, 1]
    assert left(place) == []


def test_what_cannot_be_removed_is_told_with_a_code_of_its_own_and_the_next_run_goes_on(
    place: Place, spark: SparkSession
) -> None:
    place.feed(1, 2)
    file = place.pipeline(COUNTS)
    (place.storage / "rows").mkdir(parents=True)
    (place.storage / "elsewhere").mkdir()
    (place.storage / "rows" / "rehearsals").symlink_to(place.storage / "elsewhere")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENURE_CLEANUP_RETRY", "none")
        told = place.run(file, "--final", spark=spark)
    assert told.code == 10
    assert told.error == (
        "the pipeline of scope 'rows' has ended, and its cleanup is incomplete; "
        "remove the causes in tenure cleanup status, and start a member"
    )
    assert "it is a symbolic link, which is not followed" in told.err
    owner = [path for path in left(place) if path.startswith("rows/owner")]
    assert len(owner) == 3, "as long as anything is there, it can be told whose it is"
    assert sorted(set(left(place)) - {*owner}) == ["elsewhere", "rows", "rows/rehearsals"]
    (row, *rest) = json.loads(ask(place, "cleanup", "status", "--output", "json").out)
    assert (row["left"], row["names"], [one["left"] for one in rest]) == ("rehearsals", [], ["owner"])
    assert "it is a symbolic link, which is not followed" in row["trouble"]
    assert ask(place, "result", "forget").error.startswith("the remains of the pipeline of scope 'rows' are not")
    (place.storage / "rows" / "rehearsals").unlink()
    place.feed(3)
    told = place.run(file, spark=spark)
    assert told.code == 0, told.err
    assert left(place) == ["elsewhere"]
    assert staged(place) == written(place) != set(), "files of the table stay, and staged files go"
    assert {row["k"]: row["count"] for row in place.rows()} == {"a": 1, "b": 1}, "nothing was run again"


def test_what_did_not_end_says_so(place: Place, spark: SparkSession) -> None:
    place.feed(1)
    place.run(place.pipeline(COPY), spark=spark)
    assert place.look("result", "show") is None
    assert (
        tenure("result", "show", "--store", f"sqlite://{place.store}", "--scope", "rows").out
        == "rows has not ended: the next run goes on where it was\n"
    )
    assert ask(place, "cleanup", "status").out == "rows goes on: it has no orphans\n"
    assert ask(place, "result", "forget").error.startswith("scope 'rows' has no result")
    assert place.ids() == [1]
    assert left(place)


def test_what_nobody_needs_of_one_that_goes_on_is_listed_and_goes_with_the_next_run(
    place: Place, spark: SparkSession
) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    place.run(file, spark=spark)
    lost = [
        "runs/copy/e00000001-dead-0123456789ab/offsets/0",
        "rehearsals/dead/copy-0123456789ab/offsets/0",
        "blobs/e00000001/checkpoints/copy/000000000009-lost",
    ]
    for path in (place.storage / "rows" / path for path in lost):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    listed = {row["left"]: row["names"] for row in ask(place, "cleanup", "status", "-o", "json").json}
    assert listed == {
        "run directories": ["runs/copy/e00000001-dead-0123456789ab"],
        "rehearsals": ["rehearsals/dead/copy-0123456789ab"],
        "blobs": [lost[2]],
    }
    for number in range(4):
        (place.storage / "rows" / f"{lost[2]}{number}").write_text("x")
    told = ask(place, "cleanup", "status")
    assert told.err == "rows goes on\n"
    heads, *_, blobs = [line.split("\t") for line in told.out.splitlines()]
    assert heads == ["left", "count", "names", "trouble"]
    assert blobs == ["blobs", "5", ", ".join([lost[2], *(f"{lost[2]}{number}" for number in range(4))]), ""]
    place.feed(2)
    told = place.run(file, spark=spark)
    assert told.code == 0, told.err
    assert place.ids() == [1, 2]
    assert ask(place, "cleanup", "status").out == "rows goes on: it has no orphans\n"
    assert "swept orphans" in told.err
    assert not any((place.storage / "rows" / path).exists() for path in lost)
