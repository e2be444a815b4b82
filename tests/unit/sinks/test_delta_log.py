"""The snapshot that a writer keeps from batch to batch, and what happens to the table meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from tenure.errors import TenureError
from tests.unit.sinks.staged_tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table with batches 0 to 3, whose writer has the snapshot of batch 2."""
    made = Table(tmp_path / "t")
    for batch in range(4):
        made.commit(made.stage(batch))
    return made


def listed(table: Table) -> set[str]:
    return set(table.log.files()["path"].to_pylist())


def there(table: Table) -> set[str]:
    return set(pa.table(DeltaTable(str(table.path)).get_add_actions())["path"].to_pylist())


def nothing(table: Table) -> None:
    """Only the writer's own commit."""


def replaced_by_a_shorter_one(table: Table) -> None:
    shutil.rmtree(table.path)
    write_deltalake(str(table.path), pa.table({"n": [100]}))


def replaced_by_one_as_long(table: Table) -> None:
    shutil.rmtree(table.path)
    for number in range(5):
        write_deltalake(str(table.path), pa.table({"n": [100 + number]}), mode="append")


def replaced_by_a_longer_one(table: Table) -> None:
    shutil.rmtree(table.path)
    for number in range(9):
        write_deltalake(str(table.path), pa.table({"n": [100 + number]}), mode="append")


def restored(table: Table) -> None:
    DeltaTable(str(table.path)).restore(2)


def vacuumed(table: Table) -> None:
    other = DeltaTable(str(table.path))
    other.optimize.compact()
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def cleaned_up(table: Table) -> None:
    other = DeltaTable(str(table.path))
    other.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    other.create_checkpoint()
    other.cleanup_metadata()
    assert not (table.path / "_delta_log" / f"{4:020d}.json").exists()


@pytest.mark.parametrize(
    "meanwhile",
    [
        nothing,
        replaced_by_a_shorter_one,
        replaced_by_one_as_long,
        replaced_by_a_longer_one,
        restored,
        vacuumed,
        cleaned_up,
    ],
)
def test_a_kept_snapshot_is_the_present_table_s(table: Table, meanwhile: Callable[[Table], None]) -> None:
    meanwhile(table)
    table.log.refresh()
    assert listed(table) == there(table)
    assert table.log.version == DeltaTable(str(table.path)).version()
    assert table.log.taken == (None if "replaced" in meanwhile.__name__ else 3)
    rows = table.rows()
    table.commit(table.stage(4))
    assert table.rows() == sorted([*rows, 4])


def test_a_table_that_is_gone_is_none(table: Table) -> None:
    shutil.rmtree(table.path)
    table.log.refresh()
    assert (table.log.exists, table.log.version, table.log.taken) == (False, -1, None)


@pytest.mark.parametrize("call", ["update_incremental", "transaction_version"])
def test_a_snapshot_is_dropped_when_anything_fails(table: Table, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:

        def failing(*_: object) -> None:
            patch.undo()
            raise DeltaError("no answer")

        patch.setattr(DeltaTable, call, failing)
        table.log.refresh()
    assert (table.log.taken, listed(table)) == (3, there(table))


def test_a_table_that_cannot_be_read_leaves_no_snapshot(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise OSError("away")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "transaction_version", failing)
        with pytest.raises(TenureError, match="cannot read"):
            table.log.refresh()
    assert not table.log.fresh
    assert not table.log.exists


def test_the_newest_batch_is_read_from_the_snapshot_of_the_commit(table: Table) -> None:
    """Another leader commits batch 4 between the look and the commit: the kept table object does not move by itself."""
    table.log.refresh()
    other = Table(table.path)
    other.commit(other.stage(4))
    assert (table.log.taken, table.log.version) == (3, 4)
    with pytest.raises(TenureError, match="cannot commit batch 4"):
        table.log.add([], mode="append", batch=4, attempt="zombie")
    table.log.refresh()
    assert table.log.taken == 4
