"""What attempts staged beside a table: named by its log, now or before, or still to be, it stays; the rest goes."""

from __future__ import annotations

import json
import os
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tenure.errors import StorageError
from tenure.sinks.delta.history import retention
from tenure.sinks.delta.location import Location
from tenure.sinks.staging.stage import StagingPath
from tenure.storage.local import Local
from tests.unit.sinks.staged_tables import Table

TERM: Any = None


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Blanks and signs in the path must not matter."""
    return Table(tmp_path / "a table+1%")


def test_what_the_log_names_stays_and_the_rest_goes(table: Table) -> None:
    lost = [table.stage(0, epoch=1), table.stage(1, epoch=1)]
    kept = [table.commit(table.stage(number, epoch=2)) for number in range(2)]
    (table.path / lost[1] / "_temporary" / "0").mkdir(parents=True)
    (table.path / lost[1] / "_temporary" / "0" / "part-1.parquet").write_bytes(b"half")
    assert table.cleanables().find() == lost
    table.sweep()
    assert table.cleanables().find() == []
    assert all((table.path / path).is_dir() for path in kept)
    assert not (table.path / "tenure-rows" / "copy" / "id" / "e00000001").exists(), "empty folders go, too"
    assert table.rows() == [0, 1]
    table.sweep()
    assert table.rows() == [0, 1]


def test_what_the_table_had_before_stays_for_readers_of_older_versions(table: Table) -> None:
    first = table.commit(table.stage(0))
    table.commit(table.stage(1), mode="overwrite")
    assert table.cleanables().find() == []
    DeltaTable(str(table.path)).create_checkpoint()
    for file in (table.path / "_delta_log").glob("*.json"):
        file.unlink()
    assert table.cleanables().find() == []
    assert (table.path / first).is_dir()


def test_folders_in_which_nothing_is_any_more_go(table: Table) -> None:
    """A merge takes the rows out of what was staged, and removes that."""
    kept = table.commit(table.stage(0))
    for path in (table.stage(1), table.stage(2), table.stage(0, epoch=2)):
        shutil.rmtree(table.path / path)
    table.sweep()
    assert [str(path.relative_to(table.path)) for path in (table.path / "tenure-rows").rglob("*/*/e*/b*/*/*")] == [
        f"{kept}/part-0.parquet"
    ]
    staged = table.path / "tenure-rows" / "copy" / "id"
    assert [path.relative_to(staged).as_posix() for path in staged.glob("*/*")] == ["e00000001/b000000000000"]
    assert [path.name for path in staged.iterdir()] == ["e00000001"]
    assert table.cleanables().find() == []


def test_without_a_table_everything_goes(table: Table) -> None:
    table.stage(0)
    table.stage(0, epoch=2)
    table.sweep()
    assert list(table.path.iterdir()) == []


def test_what_is_not_there_is_fine(table: Table) -> None:
    assert table.cleanables().find() == []
    name = table.stage(0)
    for _ in range(2):
        table.cleanables().remove(TERM, name)


def test_other_pipelines_and_other_files_are_not_touched(table: Table) -> None:
    others = [
        table.stage(0, scope="other"),
        table.stage(0, query="counts"),
        table.stage(0, query_id="of-another-store"),
    ]
    own = table.path / "tenure-rows" / "copy" / "id" / "e00000001"
    table.stage(0)
    (own / "notes.txt").write_text("x")
    (own / "b000000000000" / "not-an-attempt").mkdir()
    table.sweep()
    assert all((table.path / path / "part-0.parquet").exists() for path in others)
    assert (own / "notes.txt").exists()
    assert (own / "b000000000000" / "not-an-attempt").exists()


def test_a_link_goes_as_a_link(table: Table, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data").write_text("x")
    name = table.stage(0)
    (table.path / name / "link").symlink_to(precious)
    link = StagingPath("rows", "copy", "id", 1, 1, "0" * 32)
    (table.path / str(link)).parent.mkdir(parents=True)
    (table.path / str(link)).symlink_to(precious)
    assert table.cleanables().find() == [name, str(link)]
    table.sweep()
    assert list(table.path.iterdir()) == []
    assert (precious / "data").read_text() == "x"


def test_a_log_that_cannot_be_read_keeps_everything(table: Table) -> None:
    table.commit(table.stage(0))
    lost = table.stage(1)
    for file in (table.path / "_delta_log").glob("*.json"):
        file.write_text("no log")
    with pytest.raises(StorageError, match="cannot look for staged files at"):
        table.cleanables().find()
    assert (table.path / lost).exists()


def test_a_folder_that_a_later_leader_fills_meanwhile_stays(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader was paused in its cleanup, and removes the folders above what it removed when it wakes up."""
    lost = table.stage(0)
    remove_empty = Local.remove_empty
    later: list[str] = []

    def meanwhile(folders: Local, path: str = "") -> None:
        if path == "tenure-rows/copy/id":
            later.append(table.stage(0, epoch=2))
        remove_empty(folders, path)

    monkeypatch.setattr(Local, "remove_empty", meanwhile)
    table.cleanables().remove(TERM, lost)
    assert later
    assert (table.path / later[0] / "part-0.parquet").exists()
    assert not (table.path / "tenure-rows/copy/id/e00000001").exists()


def test_the_folders_above_go_in_the_end_wherever_it_was_stopped(table: Table) -> None:
    table.stage(0)
    shutil.rmtree(table.path / "tenure-rows" / "copy" / "id")
    table.sweep()
    assert list(table.path.iterdir()) == []
    (table.path / "tenure-rows").mkdir()
    table.sweep()
    assert list(table.path.iterdir()) == []


# --- while the pipeline goes on ---------------------------------------------------------------------------------


def test_a_planned_batch_that_the_table_has_not_may_still_be_committed(table: Table) -> None:
    """I8: its leader is paused between staging and its commit, and wakes up after the sweep."""
    table.commit(table.stage(0))
    paused, lost = table.stage(1), table.stage(2)
    table.sweep(epoch=2, planned=1)
    assert not (table.path / lost).exists(), "nobody of an earlier epoch plans it any more"
    table.commit(paused)
    assert table.rows() == [0, 1]


def test_once_the_table_has_the_batch_what_others_staged_of_it_goes(table: Table) -> None:
    table.commit(table.stage(0))
    paused = table.stage(1)
    kept = table.commit(table.stage(1, epoch=2))
    assert table.cleanables(epoch=2, planned=1).find() == [paused]
    table.sweep(epoch=2, planned=1)
    assert (table.path / kept).is_dir()
    assert table.cleanables(epoch=2, planned=1).find() == []
    assert table.rows() == [0, 1]


def test_attempts_of_the_term_itself_and_its_empty_folders_stay(table: Table) -> None:
    making = table.stage(1, epoch=2)
    (table.path / "tenure-rows/copy/id/e00000002/b000000000002").mkdir()
    old = table.path / "tenure-rows/copy/id/e00000001/b000000000002"
    old.mkdir(parents=True)
    table.sweep(epoch=2, planned=5)
    assert (table.path / making).is_dir()
    assert (table.path / "tenure-rows/copy/id/e00000002/b000000000002").is_dir()
    assert not old.parent.exists()


def test_what_was_staged_under_an_id_that_was_never_planned_goes(table: Table) -> None:
    """The very first leader died before it planned its first batch: its successor's query has another id."""
    lost = table.stage(0, query_id="first")
    assert table.cleanables(epoch=2, planned=0, query_ids=("first", "id")).find() == [lost]
    assert table.cleanables(epoch=2, planned=0).find() == [], "not known to be ours"


def test_what_was_named_once_is_not_looked_up_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.commit(table.stage(0))
    cleanables = table.cleanables(epoch=2, planned=0)
    assert cleanables.find() == []
    monkeypatch.setattr("tenure.sinks.delta.history.DeltaTable", None)
    assert cleanables.find() == []


def test_folders_of_batches_that_are_settled_are_not_listed_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the newest two of an epoch are: a leader that is fenced may have an attempt at them in the making."""
    for batch in range(6):
        table.commit(table.stage(batch))
    cleanables = table.cleanables(epoch=2, planned=5)
    assert cleanables.find() == []
    hidden, late = table.stage(1), [table.stage(4), table.stage(5), table.stage(6)]
    assert cleanables.find() == late
    assert table.cleanables(epoch=2, planned=5).find() == [hidden, *late], "the next leader looks at all"


def test_what_a_table_had_long_ago_stays_until_its_vacuum(table: Table) -> None:
    """Its log forgets the files that it had, in time; who reads an older version may still need them."""
    old = table.commit(table.stage(0))
    table.commit(table.stage(1), mode="overwrite")
    forgotten = table.stage(0)  # as one that the log has forgotten
    for path in (old, forgotten):
        for file in (table.path / path).iterdir():
            os.utime(file, (1e9, 1e9))
    lately = table.stage(0)
    assert table.cleanables(epoch=2, planned=1).find() == [lately]
    assert table.cleanables().find() == [lately]
    assert table.cleanables(epoch=2, planned=-1).find() == sorted([lately, forgotten]), (
        "never planned: never in the table"
    )


def test_what_the_table_lost_by_a_clock_that_is_ahead_stays(table: Table) -> None:
    """VACUUM does not see it yet; who reads the version before needs it."""
    table.commit(table.stage(0))
    table.commit(table.stage(1), mode="overwrite")
    (*_, newest) = sorted((table.path / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    for action in actions:
        if "remove" in action:
            action["remove"]["deletionTimestamp"] += 30_000
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert not DeltaTable(str(table.path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
    assert table.cleanables(epoch=2, planned=1).find() == []
    assert table.cleanables().find() == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (None, timedelta(days=7)),
        ("interval 7 days", timedelta(days=7)),
        ("interval 12 hours 30 minutes", timedelta(hours=12.5)),
        ("INTERVAL 1 WEEK", timedelta(days=7)),
        ("for ever", timedelta()),
    ],
)
def test_for_how_long_a_log_remembers(text: str | None, kept: timedelta) -> None:
    assert retention({"delta.deletedFileRetentionDuration": text}) == kept


def test_only_empty_folders_of_earlier_epochs_are_removed_with_an_attempt(table: Table) -> None:
    lost = table.stage(0)
    cleanables = table.cleanables(epoch=2, planned=-1)
    cleanables.remove(TERM, lost)
    assert (table.path / "tenure-rows" / "copy" / "id").is_dir(), "its leader is about to stage there"
    assert not (table.path / "tenure-rows" / "copy" / "id" / "e00000001").exists()


# --- where folders are listed by the client of the table -----------------------------------------------------------


@pytest.mark.parametrize("epoch", [None, 2])
def test_an_object_store_is_listed_by_the_table_s_own_client(tmp_path: Path, epoch: int | None) -> None:
    """Whose credentials are those of the commits."""
    table = Table(tmp_path / "table")
    table.location = Location(f"file://{table.path}", disk=None)
    lost = [table.stage(0), table.stage(1)]
    foreign = [table.stage(0, scope="other"), table.stage(0, query="counts"), table.stage(0, query_id="foreign")]
    assert table.cleanables(epoch=epoch).find() == lost
    table.sweep(epoch=epoch)
    assert not any((table.path / path / "part-0.parquet").exists() for path in lost)
    assert all((table.path / path / "part-0.parquet").exists() for path in foreign)
    shutil.rmtree(table.path / "tenure-rows" / "copy" / "id")  # an object store has no empty folders
    assert table.cleanables(epoch=epoch).find() == []
    table.cleanables().remove(TERM, lost[0])
