"""Conformance: listings, and the commits of other clients."""

from __future__ import annotations

from tenure.coordination.records import Absent, Delete, Key, Put, Scope
from tenure.coordination.store import CoordinationStore
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values


class ListingCases:
    """A listing holds the records strictly below a prefix, in the order of their keys."""

    def test_records_come_in_the_order_of_their_keys(self, store: CoordinationStore) -> None:
        keys = ["b", "a/b", "a.b", "a", "a/a", "a0", "Z", "a/a/z", "_x", "000000000010", "000000000009", "a-b"]
        for key in keys:
            put_new(store, key, key.encode())
        records = store.list(SCOPE).records
        assert [record.key for record in records] == sorted(keys)
        assert [record.value.decode() for record in records] == sorted(keys)

    def test_a_prefix_is_a_path_and_itself_not_listed(self, store: CoordinationStore) -> None:
        for key in ("a", "a/x", "a/x/deep", "a/xy", "ab", "ab/x", "a.b/x", "a0/x", "b"):
            put_new(store, key)
        assert [record.key for record in store.list(SCOPE, "a").records] == ["a/x", "a/x/deep", "a/xy"]
        assert [record.key for record in store.list(SCOPE, "a/x").records] == ["a/x/deep"]
        assert [record.key for record in store.list(SCOPE, "ab").records] == ["ab/x"]
        assert store.list(SCOPE, "b").records == ()
        assert store.list(SCOPE, "none").records == ()

    def test_a_record_makes_none_above_it(self, store: CoordinationStore) -> None:
        deep = put_new(store, "a/b/c")
        for _ in range(2):
            assert store.read(SCOPE, Key("a")) is None
            assert store.read(SCOPE, Key("a/b")) is None
            assert [record.key for record in store.list(SCOPE).records] == ["a/b/c"]
            store.commit(SCOPE, guards=[Absent(Key("a")), Absent(Key("a/b"))], writes=[])
            store.commit(SCOPE, guards=[], writes=[Delete(Key("a/b/c"), deep)])
            assert store.list(SCOPE).records == ()
            deep = put_new(store, "a/b/c")

    def test_a_listing_has_the_records_as_they_are_read(self, rig: StoreRig, store: CoordinationStore) -> None:
        session = store.open_session(ttl=rig.ttl)
        put_new(store, "p/one", b"1")
        put_new(store, "p/two", b"2", session=session.id)
        for record in store.list(SCOPE, "p").records:
            assert record == store.read(SCOPE, record.key)

    def test_the_scopes_are_listed_whose_records_are_there(self, rig: StoreRig, store: CoordinationStore) -> None:
        assert list(store.scopes()) == []
        names = ["a-b", "a", "A.b_c=d", "hourly-sales", "a.b"]
        for name in names:
            put_new(store, "deep/in/it", scope=Scope(name))
        put_new(store, "first", scope=Scope("a"))
        store.list(Scope("only-read"))
        store.read(Scope("only-read"), Key("a"))
        assert list(rig.client().scopes()) == sorted(names)

    def test_clients_of_one_store_see_each_other_at_once(self, rig: StoreRig) -> None:
        one, two = rig.client(), rig.client()
        version = put_new(one, "a", b"1")
        for turn in range(10):
            writer, reader = (one, two) if turn % 2 else (two, one)
            value = str(turn).encode()
            version = writer.commit(SCOPE, guards=[], writes=[Put(Key("a"), value, version)]).versions[Key("a")]
            record = reader.read(SCOPE, Key("a"))
            assert record is not None
            assert (record.value, record.version) == (value, version)
        two.commit(SCOPE, guards=[], writes=[Delete(Key("a"), version)])
        assert values(one) == {}
