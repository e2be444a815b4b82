"""Many pipelines in one SQLite file, whose members all tried the locks of all sessions.

Each look and each write tried the lock file of every session, a write while it held the file's write lock: with fifty
members, plans took half a second, and sessions ended because no renewal came through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.sqlite import SqliteStore, liveness
from tenure.coordination.records import Key, Put, Revision, Scope
from tests.kit.clock import ManualClock

TTL = timedelta(seconds=10)
MEMBER = Key("member")
PIPELINES = 20


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sessions whose locks were tried."""
    names: list[str] = []
    real = liveness.is_free

    def is_free(path: Path) -> bool:
        names.append(path.stem)
        return real(path)

    monkeypatch.setattr(liveness, "is_free", is_free)
    return names


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A store with a member in each of the scopes."""
    path = tmp_path / "ha.db"
    with ExitStack() as stack:
        for number in range(PIPELINES):
            other = stack.enter_context(closing(SqliteStore(path, clock=ManualClock())))
            session = other.open_session(ttl=TTL)
            scope = Scope(f"pipeline-{number}")
            other.commit(scope, guards=[], writes=[Put(MEMBER, b"", None, session.id)])
        yield path


def test_a_member_tries_the_locks_of_its_own_scope_only(path: Path, tried: list[str]) -> None:
    scope = Scope("pipeline-3")
    with closing(SqliteStore(path, clock=ManualClock())) as store:
        session = store.open_session(ttl=TTL)
        peer = store.read(scope, MEMBER)
        assert peer is not None
        tried.clear()
        store.commit(scope, guards=[], writes=[Put(Key("mine"), b"", None, session.id)])
        session.renew()
        store.list(scope)
        with store.watch(scope, after=Revision(0)) as changes:
            changes.wait(timeout=TTL)
        assert set(tried) == {peer.session}
        assert len(tried) <= 3


def test_nothing_is_judged_while_the_file_is_locked_for_writing(path: Path, tried: list[str]) -> None:
    scope, other = Scope("pipeline-3"), SqliteStore(path, clock=ManualClock())
    with closing(SqliteStore(path, clock=ManualClock())) as store, closing(other):
        session = store.open_session(ttl=TTL)
        with other._database.writing():
            tried.clear()
            assert store.read(scope, MEMBER) is not None
            assert tried, "the look judged without the lock"
        with store._database.writing():
            tried.clear()
        session.renew()
        assert not tried


def test_a_session_that_renews_after_it_was_judged_lives_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, scope = ManualClock(), Scope("pipeline-3")
    with closing(SqliteStore(path, clock=ManualClock())) as owner, closing(SqliteStore(path, clock=clock)) as observer:
        session = owner.open_session(ttl=TTL)
        owner.commit(scope, guards=[], writes=[Put(Key("mine"), b"", None, session.id)])
        assert observer.read(scope, Key("mine")) is not None
        clock.advance(2 * TTL)
        judge = observer._sessions.dead

        def dead(*rows: object, **times: float) -> object:
            found = judge(*rows, **times)  # type: ignore[arg-type]  # passed on as they come
            session.renew()
            return found

        monkeypatch.setattr(observer._sessions, "dead", dead)
        assert observer.read(scope, Key("mine")) is not None
        session.renew()
