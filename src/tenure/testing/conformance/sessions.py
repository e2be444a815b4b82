"""Conformance: sessions and the records bound to them."""

from __future__ import annotations

import pytest

from tenure.coordination.records import Absent, Exact, Key, Put, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed, SessionEnded
from tenure.testing.conformance.fixture import SCOPE, StoreRig, put_new, values

LEADER = Key("leader")


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
        session = store.open_session(ttl=rig.ttl)
        assert session.ttl == rig.ttl
        put_new(store, "leader", session=session.id)
        put_new(store, "permanent")
        for _ in range(4):
            rig.pass_time(rig.ttl * 0.6)
            session.renew()
            assert set(values(other)) == {"leader", "permanent"}
        rig.outlive(rig.ttl)
        assert set(values(other)) == {"permanent"}
        assert set(values(store)) == {"permanent"}

    def test_a_session_is_over_at_its_ttl_even_if_nobody_looked(self, rig: StoreRig, store: CoordinationStore) -> None:
        session = store.open_session(ttl=rig.ttl)
        version = put_new(store, "leader", session=session.id)
        rig.outlive(rig.ttl)
        with pytest.raises((GuardFailed, SessionEnded)):
            store.commit(SCOPE, guards=[Exact(LEADER, version)], writes=[Put(Key("a"), b"late", None)])
        with pytest.raises(SessionEnded):
            session.renew()
        assert values(store) == {}

    def test_an_ended_session_never_comes_back(self, rig: StoreRig, store: CoordinationStore) -> None:
        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            put_new(store, "leader", session=session.id)
            if end == "close":
                session.close()
            else:
                rig.outlive(rig.ttl)
            for _ in range(3):
                with pytest.raises(SessionEnded) as caught:
                    session.renew()
                assert caught.value.session == session.id
                assert values(store) == {}
            session.close()  # closing an ended session is fine
            session.close()
            assert store.open_session(ttl=rig.ttl).id != session.id

    def test_a_write_bound_to_an_ended_session_is_refused(self, rig: StoreRig, store: CoordinationStore) -> None:
        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            living = store.open_session(ttl=rig.ttl)
            if end == "close":
                session.close()
            else:
                rig.outlive(rig.ttl)
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
        rig.outlive(rig.ttl)
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
