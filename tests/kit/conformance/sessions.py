"""Conformance: sessions and the records bound to them."""

from __future__ import annotations

from functools import partial

import pytest

from tenure.clock import SystemClock
from tenure.coordination.records import Absent, Exact, Key, Put, Scope
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values
from tests.kit.waiting import wait_until

LEADER = Key("leader")


def is_over(session: Session) -> bool:
    """Whether its holder knows that the session ended. Only asked of a session whose records are gone: it renews."""
    try:
        session.renew()
    except SessionEnded:
        return True
    except StoreUnavailable:  # a client whose line the server closed with the session looks for another server first
        return False
    return False


def kept_alive(rig: StoreRig, store: CoordinationStore, *, observer: CoordinationStore) -> Session | None:
    """A session that was renewed for longer than its ttl, with a record `leader`; None: the machine was so busy that a
    renewal was late or got no answer, which says nothing about the store."""
    clock = SystemClock()
    wait_until(lambda: "leader" not in values(observer), what="the end of the session of an earlier try")
    session = store.open_session(ttl=rig.ttl)
    put_new(store, "leader", session=session.id)
    renewed_s = clock.monotonic_s()
    for _ in range(4):
        rig.pass_time(rig.ttl * 0.6)
        asked_s = clock.monotonic_s()
        try:
            session.renew()
            lives = "leader" in values(observer)
        except (StoreUnavailable, OutcomeUnknown):
            return None
        except SessionEnded:
            lives = False
        if not lives:
            assert clock.monotonic_s() - renewed_s >= rig.ttl.total_seconds(), "the session ended before its ttl"
            return None
        renewed_s = asked_s
    return session


class SessionCases:
    """Only the records bound to a session vanish with the session. An ended session never comes back."""

    def test_closing_a_session_removes_its_records_and_only_those(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session, second = store.open_session(ttl=rig.ttl), store.open_session(ttl=rig.ttl)
        foreign = other.open_session(ttl=rig.ttl)
        assert len({session.id, second.id, foreign.id}) == 3
        elsewhere = Scope("elsewhere")
        put_new(store, "mine", session=session.id)
        put_new(store, "mine", session=session.id, scope=elsewhere)
        put_new(store, "second", session=second.id)
        put_new(other, "foreign", session=foreign.id)
        put_new(store, "permanent")
        record = store.read(SCOPE, Key("mine"))
        assert record is not None
        assert record.session == session.id
        session.close()
        for client in (store, other):
            assert set(values(client)) == {"second", "foreign", "permanent"}
            assert values(client, scope=elsewhere) == {}

    def test_a_session_lives_for_its_ttl_after_the_last_renewal(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        put_new(store, "permanent")
        session = wait_until(lambda: kept_alive(rig, store, observer=other))
        assert session is not None
        assert session.ttl == rig.ttl
        rig.outlive(lambda: "leader" not in values(other))
        assert set(values(other)) == {"permanent"}
        assert set(values(store)) == {"permanent"}

    def test_a_session_is_over_at_its_ttl_even_if_nobody_looked(self, rig: StoreRig, store: CoordinationStore) -> None:
        session = store.open_session(ttl=rig.ttl)
        version = put_new(store, "leader", session=session.id)
        rig.outlive(lambda: not values(store) and is_over(session))
        with pytest.raises((GuardFailed, SessionEnded)):
            store.commit(SCOPE, guards=[Exact(LEADER, version)], writes=[Put(Key("a"), b"late", None)])
        with pytest.raises(SessionEnded):
            session.renew()
        assert values(store) == {}

    def test_an_ended_session_never_comes_back(self, rig: StoreRig, store: CoordinationStore) -> None:
        def ended(session: Session) -> bool:
            return not values(store) and is_over(session)

        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            put_new(store, "leader", session=session.id)
            if end == "close":
                session.close()
            else:
                rig.outlive(partial(ended, session))
            for _ in range(3):
                with pytest.raises(SessionEnded) as caught:
                    session.renew()
                assert caught.value.session == session.id
                assert values(store) == {}
            session.close()  # closing an ended session is fine
            session.close()
            assert store.open_session(ttl=rig.ttl).id != session.id

    def test_another_client_ends_a_session_by_its_testament(self, rig: StoreRig) -> None:
        owner, other = rig.client(), rig.client()
        ttl = 10 * rig.ttl  # nobody renews the sessions that stay
        session, second = owner.open_session(ttl=ttl), owner.open_session(ttl=ttl)
        foreign = other.open_session(ttl=ttl)
        assert len({session.testament, second.testament, foreign.testament}) == 3
        elsewhere = Scope("elsewhere")
        put_new(owner, "mine", session=session.id)
        put_new(owner, "mine", session=session.id, scope=elsewhere)
        put_new(owner, "second", session=second.id)
        put_new(other, "foreign", session=foreign.id)
        put_new(owner, "permanent")
        other.end_session(session.testament)
        for client in (owner, other):
            assert set(values(client)) == {"second", "foreign", "permanent"}
            assert values(client, scope=elsewhere) == {}
        wait_until(partial(is_over, session), what="the word that the session has ended")
        with pytest.raises(SessionEnded):
            owner.commit(SCOPE, guards=[], writes=[Put(Key("late"), b"", None, session.id)])
        other.end_session(session.testament)  # again
        assert set(values(other)) == {"second", "foreign", "permanent"}

    def test_the_testament_of_a_dead_process_needs_no_ttl(self, rig: StoreRig) -> None:
        owner, other = rig.client(), rig.client()
        session = owner.open_session(ttl=rig.ttl)
        put_new(owner, "leader", session=session.id)
        rig.kill(owner)
        other.end_session(session.testament)
        assert values(other) == {}

    def test_a_write_bound_to_an_ended_session_is_refused(self, rig: StoreRig, store: CoordinationStore) -> None:
        elsewhere = Scope("elsewhere")

        def ended(session: Session) -> bool:
            return not values(store, scope=elsewhere) and is_over(session)

        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            living = store.open_session(ttl=rig.ttl)
            put_new(store, "bound", session=session.id, scope=elsewhere)
            if end == "close":
                session.close()
            else:
                rig.outlive(partial(ended, session))
                living = store.open_session(ttl=rig.ttl)
            writes = [Put(Key("a"), b"", None), Put(Key("live/2"), b"", None, session.id)]
            if not store.guarantees.one_session_a_commit:
                writes.insert(1, Put(Key("live/1"), b"", None, living.id))
            with pytest.raises(SessionEnded) as caught:
                store.commit(SCOPE, guards=[Absent(LEADER)], writes=writes)
            assert caught.value.session == session.id
            assert values(store) == {}

    def test_the_guards_of_a_dead_leader_fail_before_and_after_its_successor(self, rig: StoreRig) -> None:
        store, successor = rig.client(), rig.client()
        session = store.open_session(ttl=rig.ttl)
        version = put_new(store, "leader", b"me", session=session.id)
        stale = Put(Key("checkpoint"), b"stale", None)
        store.commit(SCOPE, guards=[Exact(LEADER, version)], writes=[Put(Key("before"), b"", None)])
        rig.outlive(lambda: "leader" not in values(successor))
        for _ in range(2):
            with pytest.raises((GuardFailed, SessionEnded)):
                store.commit(SCOPE, guards=[Exact(LEADER, version)], writes=[stale])
            if successor.read(SCOPE, LEADER) is None:
                put_new(successor, "leader", b"me", session=successor.open_session(ttl=rig.ttl).id)
        assert set(values(successor)) == {"before", "leader"}

    def test_a_put_binds_anew(self, rig: StoreRig, store: CoordinationStore) -> None:
        session, other = store.open_session(ttl=rig.ttl), store.open_session(ttl=rig.ttl)
        for key in ("freed", "moved", "kept"):
            put_new(store, key, session=session.id)
        put_new(store, "bound")
        was = {record.key: record.version for record in store.list(SCOPE).records}
        writes = [
            Put(Key("freed"), b"2", was[Key("freed")]),
            Put(Key("moved"), b"2", was[Key("moved")], other.id),
            Put(Key("kept"), b"2", was[Key("kept")], session.id),
            Put(Key("bound"), b"2", was[Key("bound")], session.id),
        ]
        for group in [writes[1:2], [writes[0], *writes[2:]]] if store.guarantees.one_session_a_commit else [writes]:
            commit = store.commit(SCOPE, guards=[], writes=group)
            assert all(commit.versions[write.key] != was[write.key] for write in group)
        bindings = {str(record.key): record.session for record in store.list(SCOPE).records}
        assert bindings == {"freed": None, "moved": other.id, "kept": session.id, "bound": session.id}
        session.close()
        assert values(store) == {"freed": b"2", "moved": b"2"}
        other.close()
        assert values(store) == {"freed": b"2"}
