"""Iceberg, append and complete: each batch is in the table once, whatever happens to its commit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, ServiceUnavailableError
from pyiceberg.table import Table, Transaction

from tenure.errors import Corrupt, Fenced, QueryFailed, StorageError, TermLost, UsageError
from tenure.sinks.sink import OutputMode, Written
from tests.unit.sinks.iceberg_tables import NAME, Lake, Rows, numbers, seen

MODES: list[OutputMode] = ["append", "complete"]


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Blanks and signs in the path must not matter."""
    return Lake.on_disk(tmp_path / "a lake+1%", monkeypatch)


def expected(mode: OutputMode, *batches: int) -> list[int]:
    return list(batches) if mode == "append" else list(batches[-1:])


@pytest.mark.parametrize("mode", MODES)
def test_batches(lake: Lake, mode: OutputMode) -> None:
    writer = lake.writer(mode=mode)
    for batch in range(3):
        assert writer.write(batch, numbers(batch)) == Written(repeated=False)
        assert lake.numbers() == expected(mode, *range(batch + 1))
    assert lake.staged() >= lake.named()
    assert writer.names() == []


def test_the_calls_of_pyiceberg_that_retry_or_delete_are_not_made(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would commit a batch that a successor has committed, or delete the manifests of a commit that landed."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("forbidden")

    for owner in (Table, Transaction):
        for name in ("append", "overwrite", "add_files", "delete", "commit_transaction", "_apply", "_do_commit"):
            if hasattr(owner, name):
                monkeypatch.setattr(owner, name, forbidden)
    for mode in MODES:
        writer = lake.writer(mode=mode)
        for batch in range(2):
            writer.write(batch, numbers(batch), query_id=mode)


def test_a_commit_asserts_all_that_was_looked_at(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the table that the catalog calls by this name, too: a copy of its metadata may have the branch."""
    sent: list[list[str]] = []
    real = SqlCatalog.commit_table

    def noted(catalog: SqlCatalog, table: Table, requirements: Any, updates: Any) -> Any:
        sent.append(sorted(one.type for one in requirements))
        return real(catalog, table, requirements, updates)

    monkeypatch.setattr(SqlCatalog, "commit_table", noted)
    lake.writer().write(0, numbers(0))
    asserted = ["assert-current-schema-id", "assert-default-spec-id", "assert-ref-snapshot-id", "assert-table-uuid"]
    assert sent == [asserted, asserted]


@pytest.mark.parametrize("mode", MODES)
def test_a_repeated_batch_is_skipped(lake: Lake, mode: OutputMode) -> None:
    lake.writer(mode=mode).write(0, numbers(0))
    lake.writer(mode=mode).write(1, numbers(1))
    before = lake.staged()
    again = lake.writer(mode=mode, epoch=2)
    for batch in (1, 0):
        assert again.write(batch, numbers(batch)) == Written(repeated=True)
    assert lake.numbers() == expected(mode, 0, 1)
    assert lake.staged() == before, "what the repeated attempts staged is gone, and only that"
    assert again.names() == []


def test_a_fresh_start_is_another_query(lake: Lake) -> None:
    lake.writer().write(0, numbers(1), query_id="before")
    assert lake.writer().write(0, numbers(2), query_id="after") == Written(repeated=False)
    assert lake.numbers() == [1, 2]


def test_nothing_is_visible_when_the_plan_is_refused(lake: Lake) -> None:
    def refused() -> None:
        assert lake.numbers() == []
        raise TermLost(scope="rows", epoch=1)

    with pytest.raises(TermLost):
        lake.writer().write(0, numbers(1), planned=refused)
    assert lake.table().current_snapshot() is None
    assert lake.writer().write(0, numbers(1)) == Written(repeated=False)


def test_a_batch_without_rows_makes_no_commit(lake: Lake) -> None:
    writer = lake.writer()
    assert writer.write(0, numbers()) == Written(repeated=False)
    assert lake.table().current_snapshot() is None
    writer.write(1, numbers(1))
    before = lake.table().metadata_location
    assert writer.write(2, numbers()) == Written(repeated=False)
    assert lake.table().metadata_location == before


def test_a_short_batch_is_noted_without_rows(lake: Lake) -> None:
    """An attempt of before may have rows, and its leader may wake up."""
    zombie, successor = lake.writer(), lake.writer(epoch=2)
    zombie.write(0, numbers(0))
    written = []

    def planned() -> None:
        written.append(successor.write(1, numbers(), short=True))

    with pytest.raises(Fenced):
        zombie.write(1, numbers(1), planned=planned)
    assert written == [Written(repeated=False)]
    assert lake.numbers() == [0]


def test_complete_without_rows_empties_the_table(lake: Lake) -> None:
    writer = lake.writer(mode="complete")
    writer.write(0, numbers(0))
    writer.write(1, numbers())
    assert lake.numbers() == []


def test_complete_keeps_no_manifest_of_files_that_are_gone(lake: Lake) -> None:
    writer = lake.writer(mode="complete")
    for batch in range(6):
        writer.write(batch, numbers(batch))
    snapshot = lake.table().current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(lake.table().io)) == 2
    older = lake.table().snapshots()[-2]
    assert lake.table().scan(snapshot_id=older.snapshot_id).to_arrow()["n"].to_pylist() == [4]


def test_the_table_s_own_files_of_metadata_stay_few(lake: Lake) -> None:
    lake.writer().write(0, numbers(0))
    with lake.table().transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "3"})
    writer = lake.writer()
    for batch in range(1, 9):
        writer.write(batch, numbers(batch))
    versions = list((lake.data.parent / "metadata").glob("*.metadata.json"))
    assert len(versions) == 1 + 3
    assert lake.numbers() == list(range(9))


def test_manifests_are_merged_as_the_table_says(lake: Lake) -> None:
    lake.writer().write(0, numbers(0))
    with lake.table().transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "3"})
    writer = lake.writer()
    for batch in range(1, 8):
        assert writer.write(batch, numbers(batch)) == Written(repeated=False)
    snapshot = lake.table().current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(lake.table().io)) < 4
    assert seen(lake) == list(range(8))


# --- when replies are lost --------------------------------------------------------------------------------------------

LOST = [OSError("connection reset"), CommitStateUnknownException("500"), ServiceUnavailableError("503")]


def failing(step: str, error: Exception, *, times: int = 1) -> Callable[[str], None]:
    left = [times]

    def at(now: str) -> None:
        if now == step and left[0]:
            left[0] -= 1
            raise error

    return at


@pytest.mark.parametrize("error", [*LOST, CommitFailedException("409")], ids=lambda error: type(error).__name__)
def test_a_commit_whose_reply_was_lost_is_in_once(lake: Lake, error: Exception) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    writer.at = failing("committed", error)
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    assert lake.numbers() == [0, 1]
    assert writer.names() == []
    assert writer.write(2, numbers(2)) == Written(repeated=False)
    assert lake.numbers() == [0, 1, 2]


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
def test_a_commit_that_never_arrived_is_sent_again(lake: Lake, error: Exception) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    writer.at = failing("commit", error, times=3)
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    assert lake.numbers() == [0, 1]


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_that_arrives_twice_is_in_once_and_the_table_is_whole(lake: Lake, mode: OutputMode) -> None:
    """A proxy or the transport has sent it again, and the answer is that of the second: refused."""
    writer = lake.writer(mode=mode)
    writer.twice = True
    for batch in range(3):
        assert writer.write(batch, numbers(batch)) == Written(repeated=False)
    assert lake.numbers() == expected(mode, 0, 1, 2)
    for snapshot in lake.table().snapshots():
        lake.table().scan(snapshot_id=snapshot.snapshot_id).to_arrow()


def test_a_lost_reply_of_the_last_attempt_is_settled_too(lake: Lake) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    sent = []

    def at(step: str) -> None:
        if step == "commit":
            sent.append(step)
        if (step == "commit" and len(sent) < 4) or step == "committed":
            raise OSError("connection reset")

    writer.at = at
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    assert len(sent) == 4
    assert lake.numbers() == [0, 1]


@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("refused"), StorageError), (ValueError("no such thing"), QueryFailed)]
)
def test_a_catalog_that_stays_away_is_one_clear_line(lake: Lake, error: Exception, kind: type[Exception]) -> None:
    writer = lake.writer()
    writer.write(0, numbers(0))
    writer.at = failing("commit", error, times=99)
    with pytest.raises(kind, match=rf"cannot commit batch 1 to Iceberg table {NAME} of catalog default: .*{error}"):
        writer.write(1, numbers(1))
    assert lake.numbers() == [0]
    writer.at = lambda step: None
    assert writer.write(1, numbers(1)) == Written(repeated=False)


def test_a_catalog_that_cannot_be_read_is_an_error_of_the_storage(lake: Lake) -> None:
    writer = lake.writer()
    writer.at = failing("look", OSError("away"), times=99)
    with pytest.raises(StorageError, match=r"cannot read Iceberg table n\.t of catalog default: away"):
        writer.write(0, numbers(0))
    writer.at = lambda step: None
    assert writer.write(0, numbers(0)) == Written(repeated=False)


@pytest.mark.parametrize("batch", [0, 1])
def test_a_catalog_that_is_away_for_a_moment_costs_no_term(lake: Lake, batch: int) -> None:
    """At the first look of a leader, and while a batch is staged."""
    writer = lake.writer()
    for number in range(batch):
        writer.write(number, numbers(number))
    writer.at = failing("look", OSError("away"), times=3)
    assert writer.write(batch, numbers(batch)) == Written(repeated=False)
    assert lake.numbers() == list(range(batch + 1))


def test_a_commit_that_arrives_after_its_writer_went_on_changes_nothing(lake: Lake) -> None:
    """The first request hangs somewhere, the writer sends another, and then the first arrives."""
    writer = lake.writer()
    writer.write(0, numbers(0))
    late: list[tuple[Table, Any, Any]] = []
    catalog = next(iter(writer.sink._tables.values()))._catalog
    assert catalog is not None
    real = type(catalog).commit_table

    def hanging(table: Table, requirements: Any, updates: Any) -> Any:
        if not late:
            late.append((table, requirements, updates))
            raise OSError("timed out")
        return real(catalog, table, requirements, updates)

    catalog.commit_table = hanging  # type: ignore[method-assign] # the stand-in of a line that hangs
    assert writer.write(1, numbers(1)) == Written(repeated=False)
    with pytest.raises(CommitFailedException):
        lake.catalog().commit_table(*late[0])
    assert lake.numbers() == [0, 1]


# --- who may write ----------------------------------------------------------------------------------------------------


def test_a_higher_epoch_in_the_ledger_keeps_a_later_batch_out(lake: Lake) -> None:
    """Its writer was paused for longer than a term, and has planned nothing since."""
    lake.writer(epoch=3).write(4, numbers(4))
    late = lake.writer(epoch=2)
    with pytest.raises(Fenced, match="has seen epoch 3 of query 'copy', and this is 2"):
        late.write(5, numbers(5))
    assert lake.numbers() == [4]
    assert lake.staged() == lake.named(), "what it staged is gone"


def test_two_scopes_with_one_copy_of_a_checkpoint_do_not_share_a_batch(lake: Lake) -> None:
    lake.writer(epoch=3).write(4, numbers(4))
    other = lake.writer(scope="again")
    with pytest.raises(QueryFailed, match="has batch 4 of query 'copy' from scope 'rows': two scopes have adopted"):
        other.write(4, numbers(40))
    assert other.write(5, numbers(50)) == Written(repeated=False)
    with pytest.raises(QueryFailed, match="from scope 'again'"):
        lake.writer(epoch=4).write(5, numbers(5))
    assert lake.numbers() == [4, 50]


def by_plain_spark(lake: Lake, batch: int) -> None:
    """Spark's own sink notes the batches of a query in the summaries of snapshots, under Spark's id of it."""
    noted = {"spark.sql.streaming.queryId": "id", "spark.sql.streaming.epochId": str(batch)}
    lake.table().append(Rows(n=[batch]).table, snapshot_properties=noted)


def test_a_batch_that_spark_s_own_sink_has_committed_is_known(lake: Lake) -> None:
    lake.writer().write(0, numbers(0), query_id="first")
    by_plain_spark(lake, 3)
    writer = lake.writer()
    assert writer.write(3, numbers(3)) == Written(repeated=True)
    assert writer.write(4, numbers(4)) == Written(repeated=False)
    by_plain_spark(lake, 6)
    with pytest.raises(QueryFailed, match="has batch 6 of the same query by a job of plain Spark, and batch 5 comes"):
        writer.write(5, numbers(5))
    assert lake.numbers() == [0, 3, 4, 6]


def test_a_ledger_that_does_not_decode_is_not_passed_over(lake: Lake) -> None:
    lake.writer().write(0, numbers(0))
    with lake.table().transaction() as change:
        change.set_properties({"tenure.id": "{"})
    with pytest.raises(Corrupt, match=r"the property tenure\.id of Iceberg table n\.t .* does not decode"):
        lake.writer().write(1, numbers(1))
    assert lake.numbers() == [0]


def test_the_ledger_stands_in_the_table_and_in_the_snapshot(lake: Lake) -> None:
    lake.writer(epoch=2).write(7, numbers(7))
    table = lake.table()
    entry = json.loads(table.properties["tenure.id"])
    assert (entry["scope"], entry["query"], entry["batch"], entry["epoch"]) == ("rows", "copy", 7, 2)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["tenure.batch"] == "7"
    assert snapshot.summary["tenure.attempt"] == entry["attempt"]


def test_the_other_writers_of_a_table_are_told(lake: Lake) -> None:
    assert lake.writer().sink.other_writers(scope="rows", query="copy") == []
    lake.writer().write(0, numbers(0))
    lake.writer(scope="other").write(0, numbers(0), query_id="other-id")
    with lake.table().transaction() as change:
        change.set_properties({"tenure.x": "?"})
    assert lake.writer().sink.other_writers(scope="rows", query="copy") == [
        "an earlier life of stream 'copy' of scope 'rows'",
        "stream 'copy' of scope 'other'",
        "the writer of property 'tenure.x'",
    ]


def test_a_table_without_a_namespace_is_refused(lake: Lake) -> None:
    lake.catalog().drop_namespace("n")
    for call in (lambda: lake.writer().write(0, numbers(0)), lake.writer().sink.ask):
        with pytest.raises(UsageError, match="has no namespace 'n'; create the namespace"):
            call()


def test_two_writers_create_one_table(lake: Lake) -> None:
    one, other = lake.writer(), lake.writer()
    created: list[Written] = []

    def at(step: str) -> None:
        if step == "looked" and not created:
            created.append(other.write(0, numbers(0), query_id="another"))

    one.at = at
    assert one.write(0, numbers(1)) == Written(repeated=False)
    assert created == [Written(repeated=False)]
    assert lake.numbers() == [0, 1]
