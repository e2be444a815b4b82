"""What is PostgreSQL's own: clients that are paused, announcements that get lost, waits that are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tenure.backends.postgres import PostgresStore, line, place_of
from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.records import Exact, Key, Put, Scope, Version
from tenure.coordination.store import CoordinationStore
from tenure.coordination.store_url import split_url
from tenure.errors import GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable
from tests.contract.places import PostgresPlaceOfTests
from tests.kit.servers import PostgresServer, installed
from tests.kit.servers.postgres import PASSWORD
from tests.kit.waiting import NEVER, NEVER_S, wait_until
from tests.support.store_fixtures import PostgresRig

SCOPE, CLOCK = Scope("flights"), SystemClock()
A, B = Key("a"), Key("b")
NEVER_LOOKS_S = 1e6


@pytest.fixture
def place(postgres: PostgresServer) -> Iterator[PostgresPlaceOfTests]:
    made = PostgresPlaceOfTests(postgres)
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server for one test, which may set it up otherwise."""
    with installed(), PostgresServer(tmp_path / "own") as server:
        yield server


def put(store: CoordinationStore, key: Key, value: bytes = b"", replaces: Version | None = None) -> Version:
    return store.commit(SCOPE, guards=[], writes=[Put(key, value, replaces)]).versions[key]


def keys(store: CoordinationStore) -> list[str]:
    return [str(record.key) for record in store.list(SCOPE).records]


# --- paused clients ---------------------------------------------------------------------------------------------------


def test_a_client_that_is_paused_in_the_middle_of_a_commit_holds_nobody_up(place: PostgresPlaceOfTests) -> None:
    """The server has a part of its request, and gets no more of it before another client's commit has returned."""
    direct, store = place.direct(), place.through()
    version = put(direct, A)
    store.list(SCOPE)
    begun = threading.Event()

    def begins(request: bytes) -> bool:
        if b"for no key update" in request:
            place.proxy.hold()
            begun.set()
        return False

    place.proxy.drop_reply(begins)
    large = Put(B, b"x" * 1024 * 1024, None)
    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(store.commit, SCOPE, guards=[Exact(A, version)], writes=[large])
        assert begun.wait(NEVER_S)
        put(direct, A, b"mine", version)
        place.proxy.heal()
        with pytest.raises((GuardFailed, OutcomeUnknown)):
            late.result(NEVER_S)
    assert keys(direct) == ["a"]


def test_a_commit_asks_for_the_session_under_the_row_of_its_scope(place: PostgresPlaceOfTests) -> None:
    """The scope is there, so the commit would write. The foreign key alone would refuse the commit, and not say why."""
    store = place.direct()
    session = store.open_session(ttl=timedelta(minutes=5))
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    session.close()
    with pytest.raises(SessionEnded):
        store.commit(SCOPE, guards=[], writes=[Put(B, b"", None, session.id)])
    assert keys(store) == []


def test_of_two_first_commits_of_a_scope_one_is_refused(postgres: PostgresServer, place: PostgresPlaceOfTests) -> None:
    """The late one has found no row of its scope to lock. Before it judges its guards, another client makes the row
    and begins to commit: the late one would judge by what it saw before, and wait for the row only to write."""
    late, schema = place.keep(PostgresStore(replace(place.place, request_timeout=NEVER))), place.place.schema
    assert keys(late) == []
    with ThreadPoolExecutor(1) as pool, postgres.connect() as gate, postgres.connect() as first:
        gate.execute(f"begin; lock table {schema}.records")  # the row of the scope is in another table
        result = pool.submit(put, late, A, b"late")
        wait_until(lambda: _waiting(postgres), what="the late commit, between lock and guards")
        first.execute(f"insert into {schema}.scopes values ('{SCOPE}', 0)")
        first.execute(f"begin; select from {schema}.scopes for no key update")
        gate.execute("commit")
        wait_until(lambda: result.done() or _waiting(postgres), what="the late commit, at the row or refused")
        first.execute(f"insert into {schema}.records values ('{SCOPE}', 'a', 'first', 7)")
        first.execute(f"update {schema}.scopes set revision = 7; commit")
        with pytest.raises(GuardFailed):
            result.result(NEVER_S)
    assert [record.value for record in late.list(SCOPE).records] == [b"first"]


def _waiting(postgres: PostgresServer) -> bool:
    """Whether a client waits for a lock."""
    with postgres.connect() as connection:
        return bool(connection.execute("select from pg_locks where not granted").fetchall())


def test_a_commit_stays_refused_if_nobody_says_which_sessions_are_dead(place: PostgresPlaceOfTests) -> None:
    direct, store = place.direct(), place.through()
    put(direct, A)
    assert keys(store) == ["a"]
    place.proxy.drop_reply(lambda request: b"begin;\nselect s.id" in request)
    with pytest.raises(GuardFailed):
        put(store, A)
    assert place.proxy.dropped.is_set(), "the fault did not happen"


def test_a_list_whose_end_of_the_dead_is_not_answered_has_written_nothing(place: PostgresPlaceOfTests) -> None:
    direct, store = place.direct(), place.through()
    dead = direct.open_session(ttl=timedelta(seconds=1))
    direct.commit(SCOPE, guards=[], writes=[Put(A, b"", None, dead.id)])
    place.proxy.drop_reply(lambda request: b"tenure.scopes" in request)
    with pytest.raises(StoreUnavailable):
        wait_until(lambda: not store.list(SCOPE).records, what="the end of the dead")
    assert place.proxy.dropped.is_set(), "the fault did not happen"


# --- the line ---------------------------------------------------------------------------------------------------------


def test_a_commit_wakes_by_its_announcement(place: PostgresPlaceOfTests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a look: a look a second would hide that nobody hears."""
    monkeypatch.setattr(line, "LOOK_S", NEVER_LOOKS_S)
    direct, store = place.direct(), place.direct()
    version = put(direct, A)
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes, ThreadPoolExecutor(1) as pool:
        for number in range(3):
            waiting = pool.submit(changes.wait, timeout=NEVER)
            version = put(direct, A, str(number).encode(), version)
            assert waiting.result(NEVER_S) is not None
            assert store.glance(SCOPE).records[0].value == str(number).encode()


def test_a_line_that_does_not_hear_is_found_and_mended(
    place: PostgresPlaceOfTests, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line, "LOOK_S", 0.1)
    direct, store = place.direct(), PostgresStore(place.place)
    place.keep(store)
    put(direct, A)
    with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes, ThreadPoolExecutor(1) as pool:
        own = store._following.line
        before = own.standing()
        own.ask(lambda at: "begin; unlisten *; commit", "stop listening")
        waiting = pool.submit(changes.wait, timeout=NEVER)
        put(direct, B)
        assert waiting.result(NEVER_S) is not None, "a look shows the change"
        wait_until(lambda: own.standing() > before, what="another line")
        monkeypatch.setattr(line, "LOOK_S", NEVER_LOOKS_S)
        waiting = pool.submit(changes.wait, timeout=NEVER)
        put(direct, Key("c"))
        assert waiting.result(NEVER_S) is not None
        assert keys(store) == ["a", "b", "c"]


def test_a_session_outlives_its_connection(postgres: PostgresServer, place: PostgresPlaceOfTests) -> None:
    """An operator ends the connection: the lock is free for a moment, and nobody takes its owner for dead."""
    store, other = PostgresStore(place.place), place.direct()
    place.keep(store)
    session = store.open_session(ttl=timedelta(minutes=5))
    store.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
    with other.watch(SCOPE, after=other.glance(SCOPE).revision) as changes:
        for _ in range(3):
            break_line(store, postgres)
            assert changes.wait(timeout=timedelta(seconds=2)) is None, "the session has not ended"
            session.renew()
    assert keys(other) == ["a"]


def break_line(store: PostgresStore, server: PostgresServer) -> None:
    """End the server's process of the line, and wait for another."""
    own = store._following.line
    before, connection = own.standing(), own._connection
    assert connection is not None
    with server.connect() as admin:
        admin.execute("select pg_terminate_backend(%s)", (connection.server_pid,))
    wait_until(lambda: own.standing() > before, what="another line")


def test_a_restart_of_the_server_ends_no_session(own: PostgresServer) -> None:
    """All locks are free after it. The ttl alone counts until the owner has taken its lock again."""
    place = place_of(split_url(own.store("tenure")))
    with closing(PostgresStore(place)) as owner, closing(PostgresStore(place)) as other:
        session = owner.open_session(ttl=timedelta(minutes=5))
        owner.commit(SCOPE, guards=[], writes=[Put(A, b"", None, session.id)])
        owner._following.line.close()  # it takes no lock any more
        own.nodes[0].kill()
        own.start()

        def answered() -> list[str]:
            try:
                return keys(other)
            except StoreUnavailable:
                return []

        wait_until(lambda: answered() == ["a"], what="the server")
        with other.watch(SCOPE, after=other.glance(SCOPE).revision) as changes:
            assert changes.wait(timeout=timedelta(seconds=3)) is None
        assert keys(other) == ["a"]


# --- outcomes ---------------------------------------------------------------------------------------------------------


def synchronous(server: PostgresServer, names: str) -> None:
    """Return once a commit waits: the server's checkpointer, and no session's setting, says whether it does."""
    with server.connect() as admin:
        admin.execute("set synchronous_commit = local")
        admin.execute(f"alter system set synchronous_standby_names = '{names}'")
        admin.execute("select pg_reload_conf()")
    wait_until(lambda: commit_waits(server), what="a commit that waits for the standby")


def commit_waits(server: PostgresServer) -> bool:
    with server.connect() as probe, ThreadPoolExecutor(1) as pool:
        committed = pool.submit(probe.execute, "select pg_logical_emit_message(true, '', '')")
        wait_until(lambda: committed.done() or waiting_for_a_standby(server), what="a commit, or its wait")
        if committed.done():
            return False
        cancel_the_wait(server)
        committed.result(NEVER_S)
        return True


def cancel_the_wait(server: PostgresServer) -> None:
    (pid,) = wait_until(lambda: waiting_for_a_standby(server), what="the wait for the standby")
    with server.connect() as admin:
        admin.execute("select pg_cancel_backend(%s)", (pid,))


def waiting_for_a_standby(server: PostgresServer) -> list[int]:
    with server.connect() as admin:
        found = admin.execute("select pid from pg_stat_activity where wait_event = 'SyncRep'").fetchall()
    return [pid for (pid,) in found]


def test_a_cancelled_wait_for_the_standby_is_an_unknown_outcome(own: PostgresServer) -> None:
    """PostgreSQL reports a success, and a notice. A failover to the standby would lose the commit."""
    place = replace(place_of(split_url(own.store("tenure"))), request_timeout=NEVER)
    with closing(PostgresStore(place)) as store, ThreadPoolExecutor(1) as pool:
        version = put(store, A)
        synchronous(own, "nobody")
        refused = "a refusal shows a record that may be lost, too"
        for what in ("it is there, and may be lost", refused):
            committed = pool.submit(put, store, A, b"late", version)
            cancel_the_wait(own)
            with pytest.raises(OutcomeUnknown, match="its synchronous standby may lack that"):
                assert not committed.result(NEVER_S), what
        read = pool.submit(store.read, SCOPE, A)
        cancel_the_wait(own)
        with pytest.raises(StoreUnavailable, match="synchronous replication"):
            read.result(NEVER_S)
        with own.connect() as admin:
            admin.execute("alter system reset synchronous_standby_names")
            admin.execute("select pg_reload_conf()")
        with pytest.raises(GuardFailed):
            put(store, A, b"late", version)
        record = store.read(SCOPE, A)
        assert record is not None
        assert record.value == b"late", "the first commit, which no failover has lost"


def test_a_server_whose_processes_are_all_stopped_is_away_and_comes_back(own: PostgresServer) -> None:
    place = replace(place_of(split_url(own.store("tenure"))), request_timeout=timedelta(seconds=1))
    with closing(PostgresStore(place)) as store:
        version = put(store, A)
        own.nodes[0].pause()
        try:
            with pytest.raises(OutcomeUnknown, match="did not say whether it did commit"):
                put(store, A, b"unknown", version)
            with pytest.raises(StoreUnavailable):
                store.read(SCOPE, A)
        finally:
            own.nodes[0].wake()
        assert wait_until(lambda: answer_of(store), what="an answer").value in (b"", b"unknown")


def answer_of(store: CoordinationStore) -> Any:
    try:
        return store.read(SCOPE, A)
    except StoreUnavailable:
        return None


# --- places -----------------------------------------------------------------------------------------------------------


def test_the_password_comes_from_the_environment(postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with closing(open_store(f"{postgres.url}?schema=of_environment", clock=CLOCK)) as store:
        put(store, A)
        assert keys(store) == ["a"]


def test_a_reader_makes_no_store_by_a_typing_error(postgres: PostgresServer) -> None:
    url = postgres.store("typing_error")
    with (
        closing(open_store(url, clock=CLOCK, existing=True)) as reader,
        pytest.raises(StoreUnavailable, match="no store in schema 'typing_error' of 127"),
    ):
        reader.list(SCOPE)
    with postgres.connect() as admin:
        assert admin.execute("select to_regnamespace('typing_error')").fetchone() == (None,)


def test_one_database_serves_many_scopes(postgres: PostgresServer) -> None:
    """Each thread writes its own scopes, and reads them as it wrote them."""
    rig = PostgresRig(postgres)
    with closing(rig), ThreadPoolExecutor(8) as pool:
        stores = [rig.client() for _ in range(4)]
        scopes = [Scope(f"scope-{number:03}") for number in range(200)]

        def write(number: int) -> None:
            store, version = stores[number % 4], None
            for value in (b"1", b"2", b"3"):
                version = store.commit(scopes[number], guards=[], writes=[Put(A, value, version)]).versions[A]

        list(pool.map(write, range(200)))
        assert list(stores[0].scopes()) == scopes
        assert {stores[1].list(scope).records[0].value for scope in scopes} == {b"3"}
