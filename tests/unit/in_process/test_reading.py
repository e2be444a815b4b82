"""`tenure.read`: a process that reads and locks what a service keeps, and does not lead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.coordination.records import Delete, Record
from tenure.errors import (
    CorruptBlob,
    HandleLocked,
    HandleNotFound,
    LockLost,
    StoreUnavailable,
    UsageError,
)
from tenure.handles.store import locks_in
from tests.unit.in_process.test_handles import BIG, SCOPE, Place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    with place.lead() as leadership:
        leadership.handles("daily").add("2026-11", BIG)
        leadership.handles("daily").add("small", b"x")
        leadership.commit("newest", b"2026-11")
    return place


def bound(place: Place) -> list[Record]:
    """The records that are bound to a session."""
    with place.hand() as hand:
        return [record for record in hand.list(SCOPE).records if record.session is not None]


def test_a_reader_reads_without_a_session(place: Place) -> None:
    with place.read() as reader:
        daily = reader.handles("daily")
        assert daily.get("2026-11") == BIG
        assert list(daily.get_all()) == ["2026-11", "small"]
        assert [(handle.name, handle.size, handle.epoch) for handle in daily.list()] == [
            ("2026-11", 5000, 1),
            ("small", 1, 1),
        ]
        assert (reader.scope, reader.record("newest"), reader.record("none")) == (SCOPE, b"2026-11", None)
        assert reader.handles("weekly").list() == []
        with pytest.raises(HandleNotFound):
            daily.get("2026-12")
    assert bound(place) == []


def test_locks_end_with_their_blocks_and_the_session_with_the_reader(place: Place) -> None:
    with place.read() as reader:
        daily = reader.handles("daily")
        with daily.locked("2026-11") as payload, daily.locked("small") as small, daily.locked("small"):
            assert (payload, small) == (BIG, b"x")
            locks = locks_in(bound(place))
            assert [lock.handle.name for lock in locks] == ["2026-11", "small", "small"]
            assert len({lock.session for lock in locks}) == 1
            assert all(lock.by.startswith("process ") for lock in locks)
        assert bound(place) == []
        endless = reader.handles("daily").locked("2026-11")
        endless.__enter__()
        assert len(bound(place)) == 1
    assert bound(place) == []
    with place.lead() as leadership:
        leadership.handles("daily").remove("2026-11")


def test_a_lock_that_an_operator_took_is_told_at_the_end_of_the_block(place: Place) -> None:
    def take() -> None:
        (record,) = bound(place)
        with place.hand() as hand:
            hand.commit(SCOPE, guards=(), writes=[Delete(record.key, record.version)])

    with place.read() as reader, pytest.raises(LockLost, match="lock on handle 'handles/daily/2026-11' went before"):
        _read(reader.handles("daily").locked("2026-11"), take)


def _read(locked: object, then: Callable[[], None]) -> None:
    with locked:  # type: ignore[attr-defined] # a block of its own, so that `raises` has one statement
        then()


def test_a_reader_that_was_paused_for_longer_than_the_ttl_is_told_and_goes_on(place: Place) -> None:
    with place.read(ttl="30s") as reader:
        daily = reader.handles("daily")

        def pause() -> None:
            """What a pause does, without one: the session ends in the store, and its holder knows by the deadline."""
            keeper = reader._sessions._keeper
            assert keeper is not None
            keeper.liveness.end("the deadline passed without a renewal")
            assert keeper._session is not None
            keeper._session.close()

        with pytest.raises(LockLost):
            _read(daily.locked("2026-11"), pause)
        with daily.locked("2026-11") as payload:  # by a new session
            assert payload == BIG
            assert len(bound(place)) == 1
    assert bound(place) == []


def test_the_error_of_the_block_goes_before(place: Place) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with place.read() as reader:
        with pytest.raises(ZeroDivisionError):
            _read(reader.handles("daily").locked("2026-11"), fail)
        assert bound(place) == []


def test_bytes_that_are_gone_are_an_error_and_keep_no_lock(place: Place) -> None:
    for path in (place.storage / SCOPE / "blobs").rglob("2026-11-*"):
        path.unlink()
    with place.read() as reader:
        daily = reader.handles("daily")
        for call in (lambda: daily.get("2026-11"), daily.get_all, lambda: _read(daily.locked("2026-11"), place.depose)):
            with pytest.raises(CorruptBlob, match="handle 'handles/daily/2026-11' names a blob that is gone"):
                call()
        assert bound(place) == []


def test_a_removal_waits_for_the_reader(place: Place) -> None:
    with place.lead() as leadership, place.read() as reader:
        daily = leadership.handles("daily")
        with reader.handles("daily").locked("2026-11"):
            for call in (
                lambda: daily.remove("2026-11"),
                lambda: daily.remove_all(["small", "2026-11"]),
                lambda: daily.add("2026-12", b"x", remove=["2026-11"]),
            ):
                with pytest.raises(HandleLocked):
                    call()
            assert [handle.name for handle in daily.list()] == ["2026-11", "small"]
        daily.remove_all(["small", "2026-11"])
        assert place.blobs() == []


def test_a_store_that_is_not_there_is_not_made(place: Place, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist"), place.read(store=f"sqlite://{tmp_path}/other.db"):
        pass
    assert not (tmp_path / "other.db").exists()
    with pytest.raises(UsageError, match="no store is set"), place.read(store=None):
        pass
