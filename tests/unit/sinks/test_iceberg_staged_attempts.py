"""What attempts staged beside an Iceberg table: named by it, now or before, or still to be, it stays; the rest goes."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.errors import StorageError, TermLost
from tenure.sinks.iceberg.location import DataFolder
from tenure.sinks.sink import Written
from tests.unit.sinks.iceberg_tables import NAME, Lake, numbers

TERM: Any = None


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake.on_disk(tmp_path / "a lake+1%", monkeypatch)


def lose() -> None:
    raise TermLost(scope="rows", epoch=1)


def stage(lake: Lake, batch: int, *, epoch: int = 1, query_id: str = "id", scope: str = "rows") -> str:
    """One more attempt, whose plan was refused; its folder below the data."""
    before = lake.staged() if lake.catalog().table_exists(NAME) else set()
    with pytest.raises(TermLost):
        lake.writer(epoch=epoch, scope=scope).write(batch, numbers(batch), query_id=query_id, planned=lose)
    (name,) = lake.staged() - before
    return name


def commit(lake: Lake, batch: int, *, epoch: int = 1) -> str:
    before = lake.staged() if lake.catalog().table_exists(NAME) else set()
    assert lake.writer(epoch=epoch).write(batch, numbers(batch)) == Written(repeated=False)
    (name,) = lake.staged() - before
    return name


def sweep(lake: Lake, *, epoch: int | None = None, planned: int = -1) -> list[str]:
    cleanables = lake.writer().sink.staged(lake.attempts(epoch=epoch, planned=planned))
    found = list(cleanables.find())
    for name in found:
        cleanables.remove(TERM, name)
    return found


def test_what_the_table_names_stays_and_the_rest_goes(lake: Lake) -> None:
    lost = [stage(lake, 0), stage(lake, 1)]
    kept = [commit(lake, number, epoch=2) for number in range(2)]
    assert sweep(lake) == lost
    assert sweep(lake) == []
    assert lake.staged() == set(kept)
    assert not (lake.data / "tenure-rows" / "copy" / "id" / "e00000001").exists(), "empty folders go, too"
    assert lake.numbers() == [0, 1]


def test_a_planned_batch_that_the_table_has_not_may_still_be_committed(lake: Lake) -> None:
    """I8: its leader is paused between staging and its commit, and wakes up after the sweep."""
    commit(lake, 0)
    paused, swept = lake.writer(), []

    def planned() -> None:
        lost = stage(lake, 2)
        assert sweep(lake, epoch=2, planned=1) == [lost]
        swept.append(lost)

    assert paused.write(1, numbers(1), planned=planned) == Written(repeated=False)
    assert swept
    assert lake.numbers() == [0, 1]


def test_once_the_table_has_the_batch_what_others_staged_of_it_goes(lake: Lake) -> None:
    commit(lake, 0)
    paused = stage(lake, 1)
    kept = commit(lake, 1, epoch=2)
    assert sweep(lake, epoch=2, planned=1) == [paused]
    assert kept in lake.staged()
    assert sweep(lake, epoch=2, planned=1) == []


def test_attempts_of_the_term_itself_stay(lake: Lake) -> None:
    commit(lake, 0)
    making = stage(lake, 1, epoch=2)
    assert sweep(lake, epoch=2, planned=5) == []
    assert making in lake.staged()


def test_other_pipelines_and_other_files_are_not_touched(lake: Lake) -> None:
    others = {stage(lake, 0, scope="other"), stage(lake, 0, query_id="of-another-store")}
    stage(lake, 0)
    notes = lake.data / "tenure-rows" / "copy" / "id" / "e00000001" / "notes.txt"
    notes.write_text("x")
    sweep(lake)
    assert lake.staged() == others
    assert notes.exists()


def test_what_was_compacted_away_stays_as_long_as_a_snapshot_has_it(lake: Lake) -> None:
    first = commit(lake, 0)
    lake.table().overwrite(lake.table().scan().to_arrow())
    assert first not in lake.named()
    assert sweep(lake) == []
    older = lake.table().snapshots()[1]
    assert lake.table().scan(snapshot_id=older.snapshot_id).to_arrow()["n"].to_pylist() == [0]


def test_what_was_staged_before_the_last_missing_snapshot_stays(lake: Lake) -> None:
    """The table does not tell any more whether it had it."""
    old = commit(lake, 0)
    forgotten = stage(lake, 0)
    lake.table().overwrite(lake.table().scan().to_arrow())
    lake.table().maintenance.expire_snapshots().older_than(datetime.now(UTC) + timedelta(days=1)).commit()
    assert old not in lake.named()
    never = stage(lake, 1)
    assert sweep(lake, epoch=2, planned=0) == [never], "never planned: never in the table"
    assert sweep(lake) == []
    # What was staged well after the oldest snapshot is known to be new.
    lately = stage(lake, 0)
    for file in (lake.data / lately).iterdir():
        later = datetime.now(UTC).timestamp() + 3600
        os.utime(file, (later, later))
    assert sweep(lake, epoch=2, planned=0) == [lately]
    assert {old, forgotten} <= lake.staged()


def test_folders_in_which_nothing_is_any_more_go(lake: Lake) -> None:
    commit(lake, 0)
    for path in (stage(lake, 1), stage(lake, 0, epoch=2)):
        shutil.rmtree(lake.data / path)
    sweep(lake)
    staged = lake.data / "tenure-rows" / "copy" / "id"
    assert [path.relative_to(staged).as_posix() for path in staged.glob("*/*")] == ["e00000001/b000000000000"]


def test_without_a_table_nothing_is_staged(lake: Lake) -> None:
    assert sweep(lake) == []
    stage(lake, 0)
    lake.catalog().drop_table(NAME)
    assert sweep(lake) == []


def test_a_catalog_that_is_away_keeps_everything(lake: Lake) -> None:
    lost = stage(lake, 0)
    writer = lake.writer()
    cleanables = writer.sink.staged(lake.attempts(epoch=None, planned=-1))

    def away(step: str) -> None:
        raise OSError("away")

    writer.at = away
    with pytest.raises(StorageError, match="away"):
        cleanables.find()
    with pytest.raises(StorageError, match="away"):
        cleanables.remove(TERM, lost)
    writer.at = lambda step: None
    assert list(cleanables.find()) == [lost]
    cleanables.remove(TERM, lost)
    assert lake.staged() == set()


@pytest.mark.parametrize("epoch", [None, 2])
def test_an_object_store_is_listed_by_the_table_s_own_client(
    lake: Lake, epoch: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = [stage(lake, 0), stage(lake, 1)]
    foreign = {stage(lake, 0, scope="other"), stage(lake, 0, query_id="foreign")}
    monkeypatch.setattr(DataFolder, "disk", None)
    assert sorted(sweep(lake, epoch=epoch)) == sorted(lost)
    assert lake.staged() == foreign
