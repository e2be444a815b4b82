"""What each failure of SQLite means for the write."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import Corrupt, OutcomeUnknown, SessionEnded, StoreUnavailable, UsageError
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S

SCOPE, A = Scope("s"), Key("a")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path, busy_timeout=timedelta(milliseconds=100))
    yield store
    store.close()


def put(store: SqliteStore, key: Key = A, value: bytes = b"x") -> None:
    store.commit(SCOPE, guards=[], writes=[Put(key, value, None)])


def test_making_a_store_touches_nothing(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "none" / "store.db").close()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_directory_is_named_with_the_fix(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "none" / "store.db")
    for call in (lambda: store.list(SCOPE), lambda: store.open_session(ttl=timedelta(seconds=1))):
        with pytest.raises(StoreUnavailable, match=r"directory .*/none .*mkdir -p .*/none"):
            call()
    (tmp_path / "none").mkdir()
    put(store)
    store.close()


def test_a_file_that_is_no_database_is_named(path: Path, store: SqliteStore) -> None:
    path.write_bytes(b"these are the notes of somebody else" * 100)
    with pytest.raises(Corrupt, match=rf"{path} is not a SQLite database"):
        store.list(SCOPE)
    assert path.read_bytes().startswith(b"these are the notes")


def test_a_database_of_something_else_is_left_alone(path: Path, store: SqliteStore) -> None:
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE photos (name)")
    other.close()
    with pytest.raises(UsageError, match="a database of something else"):
        store.list(SCOPE)


def test_a_newer_schema_is_refused(path: Path, store: SqliteStore) -> None:
    put(store)
    store.close()
    with sqlite3.connect(path) as other:
        other.execute("UPDATE tenure SET schema = 99")
    other.close()
    with pytest.raises(UsageError, match="schema 99, this version knows up to 1; upgrade"):
        SqliteStore(path).list(SCOPE)


def test_a_lock_held_for_too_long_means_that_nothing_was_sent(path: Path, store: SqliteStore) -> None:
    put(store)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="stayed locked by another process"):
        put(store, Key("b"))
    assert [record.key for record in store.list(SCOPE).records] == ["a"], "reading goes on"
    other.execute("ROLLBACK")
    other.close()
    put(store, Key("b"))


def test_a_replaced_database_is_noticed(path: Path, store: SqliteStore) -> None:
    put(store)
    for file in path.parent.glob("store.db*"):
        file.unlink()
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        store.list(SCOPE)
    anew = SqliteStore(path)
    put(anew)
    for call in (lambda: store.list(SCOPE), lambda: put(store, Key("b"))):
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            call()
    anew.close()


def test_a_version_of_a_database_never_names_a_record_of_another(tmp_path: Path) -> None:
    versions = set()
    for name in ("one.db", "two.db"):
        store = SqliteStore(tmp_path / name)
        versions.add(store.commit(SCOPE, guards=[], writes=[Put(A, b"x", None)]).versions[A])
        store.close()
    assert len(versions) == 2


class FailingConnection(sqlite3.Connection):
    """A connection whose next COMMIT, or first INSERT, goes wrong in a given way."""

    failure: ClassVar[tuple[str, str, int] | None] = None
    """The statement's first word, what SQLite does all the same, the error code."""

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        failure = type(self).failure
        if failure is None or not sql.startswith(failure[0]):
            return super().execute(sql, *args)
        type(self).failure = None
        if failure[1]:
            super().execute(failure[1])
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = failure[2]
        raise error


@pytest.fixture
def failing(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: real(*a, **k, factory=FailingConnection))
    store = SqliteStore(path)
    put(store)
    yield store
    FailingConnection.failure = None
    store.close()


@pytest.mark.parametrize(
    ("failure", "error", "written"),
    [
        (("BEGIN IMMEDIATE", "", sqlite3.SQLITE_IOERR_SHMMAP), StoreUnavailable, False),
        (("INSERT", "", sqlite3.SQLITE_FULL), StoreUnavailable, False),
        (("INSERT", "ROLLBACK", sqlite3.SQLITE_FULL), StoreUnavailable, False),
        (("INSERT", "ROLLBACK", sqlite3.SQLITE_IOERR_WRITE), StoreUnavailable, False),
        (("INSERT", "", sqlite3.SQLITE_CORRUPT), Corrupt, False),
        (("COMMIT", "", sqlite3.SQLITE_BUSY), StoreUnavailable, False),
        (("COMMIT", "", sqlite3.SQLITE_IOERR_FSYNC), StoreUnavailable, False),
        (("COMMIT", "ROLLBACK", sqlite3.SQLITE_IOERR_FSYNC), OutcomeUnknown, False),
        (("COMMIT", "ROLLBACK", sqlite3.SQLITE_FULL), OutcomeUnknown, False),
        (("COMMIT", "COMMIT", sqlite3.SQLITE_IOERR_FSYNC), OutcomeUnknown, True),
    ],
)
def test_each_failure_says_what_happened_to_the_write(
    failing: SqliteStore, failure: tuple[str, str, int], error: type[Exception], written: bool
) -> None:
    FailingConnection.failure = failure
    with pytest.raises(error) as caught:
        put(failing, Key("b"))
    assert type(caught.value) is error
    assert FailingConnection.failure is None, "the fault did not happen"
    assert (failing.read(SCOPE, Key("b")) is not None) is written
    put(failing, Key("c"))


def test_two_that_make_the_database_at_once_wait_for_each_other(failing: SqliteStore, path: Path) -> None:
    FailingConnection.failure = ("PRAGMA journal_mode", "", sqlite3.SQLITE_BUSY)
    other = SqliteStore(path)
    assert other.read(SCOPE, A) is not None
    assert FailingConnection.failure is None, "the fault did not happen"
    other.close()
    FailingConnection.failure = ("PRAGMA journal_mode", "", sqlite3.SQLITE_CANTOPEN)
    with pytest.raises(StoreUnavailable):
        SqliteStore(path).list(SCOPE)


def test_a_session_whose_opening_failed_leaves_nothing_alive(failing: SqliteStore, path: Path) -> None:
    FailingConnection.failure = ("COMMIT", "COMMIT", sqlite3.SQLITE_IOERR_FSYNC)
    with pytest.raises(OutcomeUnknown):
        failing.open_session(ttl=timedelta(days=1))
    failing.scopes()
    assert list(path.with_name("store.db-sessions").iterdir()) == []


def test_a_session_whose_closing_failed_is_over_all_the_same(failing: SqliteStore) -> None:
    session = failing.open_session(ttl=timedelta(days=1))
    failing.commit(SCOPE, guards=[], writes=[Put(Key("leader"), b"", None, session.id)])
    FailingConnection.failure = ("BEGIN IMMEDIATE", "", sqlite3.SQLITE_IOERR_SHMMAP)
    with pytest.raises(StoreUnavailable):
        session.close()
    assert failing.read(SCOPE, Key("leader")) is None
    with pytest.raises(SessionEnded):
        session.renew()


FULL_DISK = """
import resource, sys
from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import OutcomeUnknown, StoreUnavailable
store, scope = SqliteStore(sys.argv[1]), Scope("s")
store.commit(scope, guards=[], writes=[Put(Key("a"), b"x", None)])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
try:
    store.commit(scope, guards=[], writes=[Put(Key("b"), b"x" * 900_000, None)])
except (OutcomeUnknown, StoreUnavailable) as error:
    print(type(error).__name__, store.read(scope, Key("b")) is None)
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
store.commit(scope, guards=[], writes=[Put(Key("b"), b"again", None)])
print(store.read(scope, Key("b")).value.decode())
"""

READ_ONLY = """
import os, sys
from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import StoreUnavailable
if os.geteuid() == 0:
    os.setuid(65534)  # what root may write says nothing
try:
    SqliteStore(sys.argv[1]).commit(Scope("s"), guards=[], writes=[Put(Key("b"), b"", None)])
except StoreUnavailable as error:
    print(error)
"""


def test_a_file_that_cannot_grow(path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True, timeout=NEVER_S
    )
    first, last = answer.stdout.splitlines()
    assert first in ("OutcomeUnknown True", "StoreUnavailable True")
    assert last == "again"


@pytest.mark.parametrize("exists", [True, False])
def test_a_read_only_store_is_named_with_the_fix(exists: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:  # not tmp_path: another user cannot reach that
        path = Path(directory) / "store.db"
        if exists:
            store = SqliteStore(path)
            put(store)
            store.close()
            path.chmod(0o444)
        path.parent.chmod(0o555)
        answer = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(path)], capture_output=True, text=True, check=True, timeout=NEVER_S
        )
        path.parent.chmod(0o755)
    assert re.search(rf"store {path} (is read-only|cannot be opened).*; .*writable for this user", answer.stdout)


FORK = """
import os, sys
from datetime import timedelta
from tenure.backends.sqlite import SqliteStore
from tenure.coordination.records import Key, Put, Scope
from tenure.errors import UsageError
store, closed = SqliteStore(sys.argv[1]), SqliteStore(sys.argv[1] + ".closed")
session = store.open_session(ttl=timedelta(days=1))
store.commit(Scope("s"), guards=[], writes=[Put(Key("leader"), b"", None, session.id)])
child = os.fork()
if child == 0:
    calls = [session.renew, session.close, lambda: store.list(Scope("s"))]
    calls.append(lambda: SqliteStore(sys.argv[1]).list(Scope("s")))
    refused = 0
    for call in calls:
        try:
            call()
        except UsageError:
            refused += 1
    closed.list(Scope("s"))
    sys.exit(refused)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
session.renew()
print([record.key for record in store.list(Scope("s")).records])
"""


def test_a_forked_child_is_refused_and_harms_nobody(path: Path) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", FORK, str(path)], capture_output=True, text=True, check=True, timeout=NEVER_S
    )
    assert answer.stdout.splitlines() == ["4", "['leader']"]


def test_a_missing_lock_file_leaves_the_session_to_its_ttl(path: Path) -> None:
    clocks = ManualClock(), ManualClock()  # as two processes have them: each observes for itself
    one, other = (SqliteStore(path, clock=clock) for clock in clocks)
    session = one.open_session(ttl=timedelta(seconds=10))
    one.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    for file in path.with_name("store.db-sessions").iterdir():
        file.unlink()
    assert other.read(SCOPE, A) is not None
    session.renew()
    for clock in clocks:
        clock.advance(timedelta(seconds=10))
    assert other.read(SCOPE, A) is not None, "this observer has seen the last renewal just now"
    for clock in clocks:
        clock.advance(timedelta(seconds=10))
    assert other.read(SCOPE, A) is None
    one.close()
    other.close()
