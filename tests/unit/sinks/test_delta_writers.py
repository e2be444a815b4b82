"""Who has written to a Delta table: what its log keeps, in commits and in checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tenure.errors import StorageError
from tenure.sinks import Delta
from tenure.sinks.delta.location import Location
from tenure.sinks.delta.log import DeltaLog, app_id_of, in_words, writers_of
from tests.unit.sinks.staged_tables import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table")


def write_as(table: Table, scope: str, query: str, query_id: str, batch: int = 0) -> None:
    name = app_id_of(scope, query, query_id)
    table.log = DeltaLog(Location.of(table.path), app_id=name, storage_options={})
    table.commit(table.stage(batch, scope=scope, query=query, query_id=query_id))


def names(table: Table) -> list[str]:
    return writers_of(Location.of(table.path).filesystem({}))


def test_there_is_no_table(table: Table) -> None:
    assert names(table) == []
    table.path.mkdir()
    assert names(table) == []


def test_those_of_commits_and_of_the_newest_checkpoint(table: Table) -> None:
    write_as(table, "rows", "copy", "id")
    write_as(table, "other", "copy", "id")
    assert names(table) == ["tenure/other/copy/id", "tenure/rows/copy/id"]
    DeltaTable(str(table.path)).create_checkpoint()
    for commit in sorted((table.path / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()
    assert names(table) == ["tenure/other/copy/id", "tenure/rows/copy/id"]
    write_as(table, "rows", "copy", "another")
    assert names(table) == ["tenure/other/copy/id", "tenure/rows/copy/another", "tenure/rows/copy/id"]


def test_a_name_among_the_rows_is_none(table: Table) -> None:
    write_as(table, "rows", "copy", "id")
    (table.path / "_delta_log" / f"{9:020d}.json").write_text(json.dumps({"commitInfo": {"x": '"txn"'}}) + "\n")
    assert names(table) == ["tenure/rows/copy/id"]


def test_they_are_told_in_words() -> None:
    ids = [
        "spark",
        "tenure/rows/copy/1",
        "tenure/rows/copy/2",
        "tenure/rows/old/1",
        "tenure/other/copy/1",
        "tenure/other/copy/2",
    ]
    assert in_words(ids, scope="rows", query="copy") == [
        "application 'spark'",
        "an earlier life of stream 'copy' of scope 'rows'",
        "stream 'old' of scope 'rows'",
        "stream 'copy' of scope 'other'",
    ]


def test_the_sink_tells_them(table: Table) -> None:
    write_as(table, "other", "copy", "id")
    assert Delta(table.path).other_writers(scope="rows", query="copy") == ["stream 'copy' of scope 'other'"]


@pytest.mark.parametrize("text", ['{"txn"', '{"txn": {}}'])
def test_a_log_that_is_damaged_is_an_error_of_the_storage(table: Table, text: str) -> None:
    write_as(table, "rows", "copy", "id")
    (table.path / "_delta_log" / f"{9:020d}.json").write_text(f"{text}\n")
    with pytest.raises(StorageError, match="cannot read the log of"):
        Delta(table.path).other_writers(scope="rows", query="copy")
