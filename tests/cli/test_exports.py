"""`tenure export`: what it writes and refuses, and what its lock protects."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tenure.cleanup.claims import read_claims
from tenure.cleanup.orphans import Claims
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.session import SessionKeeper
from tenure.moves.plain_checkpoint import read_plain
from tests.cli.moves import SCOPE, adopt, context_of, export, led, opened
from tests.cli.support import Place
from tests.unit.rundirs.made_by_hand import NEWEST


def test_an_adopted_checkpoint_that_is_exported_is_the_same(place: Place, plain: Path, tmp_path: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    told = export(place, tmp_path / "out")
    assert told.code == 0, told.err
    assert f"query copy of scope rows is exported up to batch {NEWEST}" in told.err
    for name in ("metadata", f"offsets/{NEWEST}", f"commits/{NEWEST}"):
        assert (tmp_path / "out" / name).read_text() == (plain / name).read_text()
    out = read_plain(f"file://{tmp_path}/out")
    assert (out.query_id, out.batch, out.done) == ("the-query", NEWEST, True)


def test_a_batch_in_flight_is_not_exported(place: Place, plain: Path, tmp_path: Path) -> None:
    (plain / "commits" / str(NEWEST)).unlink()
    assert adopt(place, plain, "--apply").code == 0
    told = export(place, tmp_path / "out")
    assert told.code == 2
    assert (
        f"batch {NEWEST} of query 'copy' is planned, and not noted as done; let a member end it: tenure pause"
        in told.error
    )
    assert not (tmp_path / "out").exists()


def test_a_leader_that_goes_on_is_a_warning(place: Place, plain: Path, tmp_path: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    with led(place):
        told = export(place, tmp_path / "out")
    assert told.code == 0
    assert f"tenure: warning: anna leads scope rows, and goes on after batch {NEWEST}: export again" in told.err
    assert "warning" not in export(place, tmp_path / "later").err


def test_a_query_without_checkpoint_and_a_folder_with_files_are_refused(
    place: Place, plain: Path, tmp_path: Path
) -> None:
    assert adopt(place, plain, "--apply").code == 0
    assert "query 'other' has no checkpoint" in export(place, tmp_path / "out", query="other").error
    told = export(place, plain)
    assert told.code == 2
    assert "is not empty; name a new directory" in told.error


def test_no_sweep_removes_what_is_exported_also_when_its_checkpoint_moves(place: Place, plain: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    clock, ttl = SystemClock(), timedelta(seconds=60)
    with opened(place) as store, SessionKeeper(store, ttl=ttl, clock=clock) as keeper:
        context = context_of(place, store)
        checkpoints = context.checkpoints("copy")
        with checkpoints.locked(session=keeper.session_id) as locked:
            assert locked is not None
            with held(store, SCOPE, Identity("anna", "h", 1), ttl=ttl, timeout=None, clock=clock) as term:
                moved = "runs/copy/e00000002-anna-0123456789ab"
                context.checkpoints("copy").retake(term, run_directory=moved)
                named = read_claims(context, Claims(term.epoch, term.holder)).named
                assert {locked.run_directory, moved} <= named
        assert locked.run_directory not in read_claims(context, Claims(3, "")).named


def test_a_lock_of_an_exporter_that_was_killed_goes_with_its_session(place: Place, plain: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    with opened(place) as store:
        context = context_of(place, store)
        with SessionKeeper(store, ttl=timedelta(seconds=60), clock=SystemClock()) as keeper:
            killed = context.checkpoints("copy").locked(session=keeper.session_id)
            locked = killed.__enter__()
            assert locked is not None
            assert [record for record in store.list(SCOPE, "").records if record.session is not None]
        assert not [record for record in store.list(SCOPE, "").records if record.session is not None]
        killed.__exit__(None, None, None)
