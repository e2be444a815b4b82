"""Conformance: the guarantees that a store declares."""

from __future__ import annotations

import bisect
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, Revision, Scope, Version, Write
from tenure.coordination.store import CoordinationStore
from tenure.errors import CommitRefused, GuardFailed, SessionEnded
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values
from tests.kit.waiting import NEVER, wait_until

A = Key("a")


class DeclaredCases:
    """Each field of the guarantees, or the weaker promise where the store declares less."""

    def test_a_record_may_have_the_declared_size_and_not_more(self, store: CoordinationStore) -> None:
        limit = store.guarantees.max_record_bytes
        put_new(store, "a", b"x" * limit)
        record = store.read(SCOPE, A)
        assert record is not None
        assert record.value == b"x" * limit
        with pytest.raises(CommitRefused):
            store.commit(SCOPE, guards=[], writes=[Put(Key("b"), b"", None), Put(Key("c"), b"x" * (limit + 1), None)])
        assert set(values(store)) == {"a"}

    def test_a_commit_may_have_the_declared_number_of_writes_and_not_more(self, store: CoordinationStore) -> None:
        limit = store.guarantees.max_writes
        guards: list[Guard] = [Absent(Key("never"))]
        writes: list[Write] = [Put(Key(f"k{number:06}"), b"", None) for number in range(limit)]
        with pytest.raises(CommitRefused):
            store.commit(SCOPE, guards=guards, writes=writes)
        assert values(store) == {}
        store.commit(SCOPE, guards=guards, writes=writes[:-1])
        assert len(values(store)) == limit - 1

    def test_sessions_of_one_commit(self, rig: StoreRig) -> None:
        """A commit may bind records to any sessions; or to a single session, which the client itself opened."""
        store, other = rig.client(), rig.client()
        sessions = [store.open_session(ttl=rig.ttl), store.open_session(ttl=rig.ttl), other.open_session(ttl=rig.ttl)]
        writes = [Put(Key(f"live/{number}"), b"", None, session.id) for number, session in enumerate(sessions)]
        if not store.guarantees.one_session_a_commit:
            store.commit(SCOPE, guards=[], writes=writes)
            assert len(values(store)) == 3
            return
        with pytest.raises(CommitRefused):
            store.commit(SCOPE, guards=[], writes=writes[:2])
        with pytest.raises(SessionEnded):
            store.commit(SCOPE, guards=[], writes=writes[2:])
        assert values(store) == {}
        store.commit(SCOPE, guards=[], writes=writes[:1])
        other.commit(SCOPE, guards=[], writes=writes[2:])
        assert len(values(store)) == 2

    def test_what_else_moves_a_revision(self, rig: StoreRig) -> None:
        """Commits to other scopes do not move a scope's revision; or they may move it, and wake a watch."""
        store, other = rig.client(), rig.client()
        put_new(store, "a")
        before = store.list(SCOPE).revision
        put_new(other, "a", scope=Scope("elsewhere"))
        after = store.list(SCOPE).revision
        assert after >= before
        assert after == before or not store.guarantees.revision_is_the_scopes_own

    def test_restart(self, rig: StoreRig, store: CoordinationStore) -> None:
        version = put_new(store, "a", b"kept")
        revision = store.list(SCOPE).revision
        restarted = rig.restart()
        if not restarted.guarantees.survives_restart:
            assert values(restarted) == {}
            return
        record = restarted.read(SCOPE, A)
        assert record is not None
        assert (record.value, record.version) == (b"kept", version)
        assert restarted.list(SCOPE).revision >= revision
        later = restarted.commit(SCOPE, guards=[Exact(A, version)], writes=[Put(A, b"", version)])
        assert later.revision > revision
        assert later.versions[A] != version

    def test_death(self, rig: StoreRig) -> None:
        doomed, store = rig.client(), rig.client()
        at_once = store.guarantees.death_noticed_at_once
        ttl = 2 * NEVER if at_once else rig.ttl
        session = doomed.open_session(ttl=ttl)
        put_new(doomed, "leader", session=session.id)
        assert set(values(store)) == {"leader"}
        rig.kill(doomed)
        if at_once:
            wait_until(lambda: not values(store), what="the end of the session, long before its ttl")
        else:
            rig.pass_time(rig.ttl * 0.3)
            assert set(values(store)) == {"leader"}
            rig.outlive(lambda: not values(store))
        assert values(store) == {}

    def test_a_commit_alone_finds_the_end_of_the_dead(self, rig: StoreRig) -> None:
        """All others have died, and who begins anew does nothing but commit: nobody else looks."""
        doomed = rig.client()
        session = doomed.open_session(ttl=rig.ttl)
        put_new(doomed, "member", session=session.id)
        rig.kill(doomed)
        store = rig.client()

        def joins() -> bool:
            try:
                put_new(store, "member")
            except GuardFailed:
                return False
            return True

        rig.until(joins)

    def test_one_instant(self, rig: StoreRig) -> None:
        """Two records that are always written together are listed with equal values; or each with a written value.

        In either case a listing lacks no commit up to its revision, so a watch after that revision is safe.
        """
        store, reader = rig.client(), rig.client()
        first, last = Key("a"), Key("z")
        commit = store.commit(SCOPE, guards=[], writes=[Put(first, b"0", None), Put(last, b"0", None)])
        rounds = 120
        revisions = [commit.revision]

        def write() -> None:
            versions = commit.versions
            for number in range(1, rounds + 1):
                puts = [Put(key, str(number).encode(), versions[key]) for key in (first, last)]
                done = store.commit(SCOPE, guards=[], writes=puts)
                versions = done.versions
                revisions.append(done.revision)

        listings: list[tuple[Revision, list[int]]] = []
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            while not listings or listings[-1][1][0] < rounds:
                listing = reader.list(SCOPE)
                found = [int(record.value) for record in listing.records]
                assert len(found) == 2
                assert not store.guarantees.list_is_one_instant or found[0] == found[1]
                listings.append((listing.revision, found))
                assert not (writing.done() and writing.exception()), writing.exception()
            writing.result()
        for revision, found in listings:
            committed = bisect.bisect_right(revisions, revision) - 1
            assert committed <= min(found) <= max(found) <= rounds

    def test_scopes_without_records(self, store: CoordinationStore) -> None:
        put_new(store, "a", scope=Scope("lasts"))
        version = put_new(store, "a", scope=Scope("empties"))
        store.commit(Scope("empties"), guards=[], writes=[Delete(A, version)])
        gone = set() if store.guarantees.scopes_have_records else {"empties"}
        assert {"lasts"} <= set(store.scopes()) <= {"lasts"} | gone

    def test_an_old_version_after_deletion(self, store: CoordinationStore) -> None:
        """A version from before a deletion never names the record that is made anew; or at least no later state."""
        old: list[Version] = []
        for _ in range(4):
            old.append(put_new(store, "a", b"same"))
            old.append(store.commit(SCOPE, guards=[], writes=[Put(A, b"same", old[-1])]).versions[A])
            assert old[-1] != old[-2]
            store.commit(SCOPE, guards=[], writes=[Delete(A, old[-1])])
        current = put_new(store, "a", b"same")
        if not store.guarantees.versions_survive_deletion:
            changed = store.commit(SCOPE, guards=[], writes=[Put(A, b"", current)]).versions[A]
            assert changed != current
            return
        for version in old:
            for write in (Put(A, b"stale", version), Delete(A, version)):
                with pytest.raises(GuardFailed):
                    store.commit(SCOPE, guards=[], writes=[write])
            with pytest.raises(GuardFailed):
                store.commit(SCOPE, guards=[Exact(A, version)], writes=[Put(Key("b"), b"", None)])
        assert values(store) == {"a": b"same"}
