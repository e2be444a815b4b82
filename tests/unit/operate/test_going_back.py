"""An older checkpoint, copied for a scope that goes back to it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.cleanup.claims import read_claims
from tenure.cleanup.orphans import Claims
from tenure.clock import SystemClock
from tenure.coordination.session import SessionKeeper
from tenure.errors import CorruptRunDirectory, UsageError
from tenure.moves.plain_checkpoint import read_plain
from tenure.operate import going_back
from tenure.operate.going_back import export_batch
from tests.support.checkpointed import KEPT, QUERY
from tests.unit.operate.test_pinning import Bench
from tests.unit.rundirs.made_by_hand import NEWEST, offsets_of

OLDER = KEPT[0]


class Returning(Bench):
    session: SessionKeeper

    def export(self, batch: int = OLDER, *, query: str = QUERY) -> Checkpoint:
        return export_batch(self.context, self.target, query=query, batch=batch, session=self.session.session_id)

    @property
    def target(self) -> str:
        return f"file://{self.run.parent.parent.parent.parent}/out"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Returning]:
    made = Returning(tmp_path)
    with SessionKeeper(made.store, ttl=timedelta(seconds=60), clock=SystemClock()) as made.session:
        yield made


def test_a_query_goes_on_after_the_older_batch_under_another_id(bench: Returning) -> None:
    exported = bench.export()
    found = read_plain(bench.target)
    assert (found.batch, found.done, found.offsets) == (OLDER, True, offsets_of(OLDER))
    assert found.query_id == exported.query_id != "the-query", "a sink would take its batches for those that it has"
    assert bench.batches == list(KEPT), "nothing changed in the scope"
    assert not [record for record in bench.store.list(bench.context.scope, "").records if record.session is not None]


def test_two_copies_have_two_ids(bench: Returning) -> None:
    first = bench.export()
    shutil.rmtree(bench.target.removeprefix("file://"))
    assert bench.export().query_id != first.query_id


def test_state_that_spark_has_removed_comes_from_the_pin(bench: Returning) -> None:
    bench.pin(OLDER)
    for old in bench.run.glob("state/0/*/1[0-2]_*"):
        old.unlink()
    bench.export()
    assert read_plain(bench.target).batch == OLDER


def test_state_that_spark_has_removed_is_told(bench: Returning) -> None:
    for old in bench.run.glob("state/0/*/1[0-2]_*"):
        old.unlink()
    with pytest.raises(CorruptRunDirectory, match="state/0"):
        bench.export()
    with pytest.raises(UsageError, match="is no checkpoint of a query"):
        read_plain(bench.target)


def test_its_record_and_its_files_stay_meanwhile(bench: Returning, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch drops the oldest checkpoint, and would drop this one."""
    meanwhile: list[int] = []
    named: set[str] = set()

    def seed(*_: object, **__: object) -> int:
        bench.go_on(NEWEST + 4)
        meanwhile.extend(bench.batches)
        named.update(read_claims(bench.context, Claims(9, "")).named)
        return 0

    monkeypatch.setattr(going_back, "seed", seed)
    run = bench.export().run_directory
    assert meanwhile == [OLDER, NEWEST + 2, NEWEST + 3, NEWEST + 4]
    assert run in named
    bench.go_on(NEWEST + 5)
    assert bench.batches == [NEWEST + 3, NEWEST + 4, NEWEST + 5]


def test_a_batch_that_is_not_done_and_one_that_is_not_kept_are_refused(bench: Returning) -> None:
    (bench.run / "commits" / str(OLDER)).unlink()
    with pytest.raises(UsageError, match=f"batch {OLDER} of query '{QUERY}' is planned, and not noted as done"):
        bench.export()
    with pytest.raises(UsageError, match=f"no checkpoint of that batch in scope .*kept batches: .{OLDER}"):
        bench.export(batch=2)
    with pytest.raises(UsageError, match="query 'other' has no checkpoint"):
        bench.export(query="other")
    assert not Path(bench.target.removeprefix("file://")).exists()


def test_a_directory_with_files_is_refused(bench: Returning) -> None:
    folder = Path(bench.target.removeprefix("file://"))
    folder.mkdir()
    (folder / "x").touch()
    with pytest.raises(UsageError, match="is not empty; name a new directory"):
        bench.export()
