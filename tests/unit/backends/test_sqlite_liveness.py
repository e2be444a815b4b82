"""Who is held to be dead, and what happens to the lock files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.backends.shared.renewals import SessionRow, Sightings
from tenure.backends.sqlite.liveness import LockFile, is_free, prune
from tenure.coordination.records import SessionId

A, B = SessionId("a"), SessionId("b")


def look(sightings: Sightings, renewals: int, *, asked: float, answered: float | None = None) -> bool:
    row = SessionRow(A, ttl_s=10, renewals=renewals)
    return bool(sightings.overdue([row], asked_at_s=asked, answered_at_s=asked if answered is None else answered))


def test_a_session_is_overdue_when_its_number_stood_still_for_its_ttl() -> None:
    sightings = Sightings()
    assert not look(sightings, 7, asked=100)
    assert not look(sightings, 7, asked=109.9)
    assert look(sightings, 7, asked=110)


def test_a_renewal_counts_from_when_it_was_seen() -> None:
    sightings = Sightings()
    look(sightings, 1, asked=0)
    assert not look(sightings, 2, asked=9)
    assert not look(sightings, 2, asked=18.9)
    assert look(sightings, 2, asked=19)


def test_an_observer_that_was_stopped_itself_does_not_end_a_session_that_renewed() -> None:
    sightings = Sightings()
    look(sightings, 1, asked=0)
    assert not look(sightings, 2, asked=1000)


def test_a_pause_between_question_and_answer_is_in_favour_of_the_session() -> None:
    sightings = Sightings()
    look(sightings, 1, asked=0, answered=50)  # stopped in between: the number is as fresh as the answer
    assert not look(sightings, 1, asked=59, answered=500)
    assert look(sightings, 1, asked=60)


def test_a_forgotten_session_is_seen_for_the_first_time() -> None:
    sightings = Sightings()
    look(sightings, 1, asked=0)
    sightings.keep([])
    assert not look(sightings, 1, asked=20)


def test_a_lock_is_free_when_its_holder_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not is_free(path), "a missing file says nothing"
    lock = LockFile.create(path)
    assert lock is not None
    assert not is_free(path)
    lock.release()
    lock.release()
    assert is_free(path)


def test_pruning_takes_only_files_that_nobody_holds_and_no_session_has(tmp_path: Path) -> None:
    held = LockFile.create(tmp_path / "opening.lock")
    for name in ("orphan", "a"):
        lock = LockFile.create(tmp_path / f"{name}.lock")
        assert lock is not None
        lock.release()
    (tmp_path / "other.txt").touch()
    prune(tmp_path, {A})
    assert {path.name for path in tmp_path.iterdir()} == {"opening.lock", "a.lock", "other.txt"}
    assert held is not None
    held.release()


def before_locking(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Once, between opening a file and locking it, `act` happens."""
    real = fcntl.flock
    acted: list[bool] = []

    def flock(descriptor: int, kind: int) -> None:
        if not acted:
            acted.append(True)
            act()
        real(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", flock)


def test_a_creator_that_lost_its_file_to_a_pruner_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new.lock"
    before_locking(monkeypatch, lambda: prune(tmp_path, set()))
    assert LockFile.create(path) is None
    assert not path.exists()


def test_a_creator_that_meets_a_pruner_holding_its_file_notices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new.lock"
    pruner: list[int] = []

    def take() -> None:
        pruner.append(os.open(path, os.O_RDONLY))
        fcntl.flock(pruner[0], fcntl.LOCK_EX | fcntl.LOCK_NB)

    before_locking(monkeypatch, take)
    assert LockFile.create(path) is None
    os.close(pruner[0])


def test_a_pruner_does_not_take_a_file_that_was_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.lock"
    path.touch()
    locks: list[LockFile | None] = []

    def replace() -> None:
        path.unlink()
        locks.append(LockFile.create(path))

    before_locking(monkeypatch, replace)
    prune(tmp_path, set())
    assert path.exists()
    assert not is_free(path)
    assert locks[0] is not None
    locks[0].release()
