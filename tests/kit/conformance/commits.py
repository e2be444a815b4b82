"""Conformance: commits, guards and versions."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, Scope, Version, Write
from tenure.coordination.store import CoordinationStore
from tenure.errors import GuardFailed
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values

A, B, C = Key("a"), Key("b"), Key("c")


def refused(store: CoordinationStore, guard: Guard, *, guards: list[Guard], writes: list[Write]) -> None:
    """Check that the commit is refused because of `guard`, and that nothing has changed."""
    before = store.list(SCOPE)
    with pytest.raises(GuardFailed) as caught:
        store.commit(SCOPE, guards=guards, writes=writes)
    assert caught.value.guard == guard
    assert caught.value.scope == SCOPE
    assert store.list(SCOPE).records == before.records


class CommitCases:
    """Commits are all or nothing, and each write names the version that it replaces."""

    def test_a_put_is_read_as_it_was_written(self, store: CoordinationStore) -> None:
        for number, value in enumerate([b"", b"x", bytes(range(256))]):
            version = put_new(store, f"k{number}", value)
            record = store.read(SCOPE, Key(f"k{number}"))
            assert record is not None
            assert (record.key, record.value, record.version, record.session) == (f"k{number}", value, version, None)
        assert store.read(SCOPE, Key("nothing")) is None

    def test_a_commit_reports_the_version_of_each_put(self, store: CoordinationStore) -> None:
        old = put_new(store, "a")
        commit = store.commit(SCOPE, guards=[], writes=[Delete(A, old), Put(B, b"1", None), Put(C, b"2", None)])
        assert set(commit.versions) == {B, C}
        for key, version in commit.versions.items():
            record = store.read(SCOPE, key)
            assert record is not None
            assert record.version == version

    def test_all_or_nothing(self, store: CoordinationStore) -> None:
        version = put_new(store, "b")
        good: list[Write] = [Put(A, b"new", None), Delete(B, version), Put(Key("d"), b"new", None)]
        put_new(store, "taken")
        for place in range(len(good) + 1):
            writes = [*good[:place], Put(Key("taken"), b"mine", None), *good[place:]]
            refused(store, Absent(Key("taken")), guards=[], writes=writes)
        store.commit(SCOPE, guards=[], writes=good)
        assert values(store) == {"a": b"new", "d": b"new", "taken": b"x"}

    def test_a_write_names_the_version_that_it_replaces(self, store: CoordinationStore) -> None:
        first = put_new(store, "a", b"1")
        second = store.commit(SCOPE, guards=[], writes=[Put(A, b"2", first)]).versions[A]
        refused(store, Exact(A, first), guards=[], writes=[Put(A, b"3", first)])
        refused(store, Absent(A), guards=[], writes=[Put(A, b"3", None)])
        refused(store, Exact(A, first), guards=[], writes=[Delete(A, first)])
        store.commit(SCOPE, guards=[], writes=[Delete(A, second)])
        refused(store, Exact(A, second), guards=[], writes=[Delete(A, second)])
        refused(store, Exact(A, second), guards=[], writes=[Put(A, b"3", second)])

    def test_each_guard_holds_and_fails(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        new = store.commit(SCOPE, guards=[Exact(A, version), Absent(B)], writes=[Put(C, b"", None)]).versions[C]
        refused(store, Absent(A), guards=[Absent(A)], writes=[Delete(C, new)])
        refused(store, Exact(B, version), guards=[Exact(B, version)], writes=[Delete(C, new)])
        later = store.commit(SCOPE, guards=[], writes=[Put(A, b"x", version)]).versions[A]
        refused(store, Exact(A, version), guards=[Exact(A, version)], writes=[Delete(C, new)])
        store.commit(SCOPE, guards=[Exact(A, later)], writes=[Delete(C, new)])

    def test_a_guard_may_name_the_record_that_is_written(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        new = store.commit(SCOPE, guards=[Exact(A, version)], writes=[Put(A, b"y", version)]).versions[A]
        store.commit(SCOPE, guards=[Exact(A, new)], writes=[Delete(A, new)])
        store.commit(SCOPE, guards=[Absent(A)], writes=[Put(A, b"z", None)])
        assert values(store) == {"a": b"z"}

    def test_the_first_guard_that_fails_is_named(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        child = put_new(store, "a/child")
        gone = put_new(store, "b")
        store.commit(SCOPE, guards=[], writes=[Delete(B, gone)])
        bad: list[Guard] = [Absent(A), Exact(B, gone), Absent(Key("a/child"))]
        for order in itertools.permutations(bad):
            refused(store, order[0], guards=[Absent(B), *order], writes=[Delete(A, version)])
        # The guards are judged before the versions that the writes name, and these in the order of the writes.
        missing = Exact(B, gone)
        refused(store, missing, guards=[missing], writes=[Put(Key("a/child"), b"", None), Delete(A, version)])
        writes: list[Write] = [Put(Key("a/child"), b"", None), Put(A, b"", None)]
        refused(store, Absent(Key("a/child")), guards=[Exact(Key("a/child"), child)], writes=writes)
        refused(store, Absent(A), guards=[], writes=writes[::-1])

    def test_a_key_has_no_parent(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        put_new(store, "a/child")
        store.commit(SCOPE, guards=[], writes=[Delete(A, version)])
        assert values(store) == {"a/child": b"x"}
        put_new(store, "a", b"again")
        assert values(store) == {"a": b"again", "a/child": b"x"}

    def test_keys_that_differ_in_one_sign_are_different_records(self, store: CoordinationStore) -> None:
        """A store that writes another sign for the slash has a sign that no key has."""
        keys = [f"a{sign}b" for sign in "/._-="]
        for key in keys:
            put_new(store, key, key.encode())
        assert values(store) == {key: key.encode() for key in keys}
        for key in keys:
            record = store.read(SCOPE, Key(key))
            assert record is not None
            store.commit(SCOPE, guards=[], writes=[Delete(record.key, record.version)])
            assert key not in values(store)
        assert values(store) == {}

    def test_a_malformed_commit_is_a_value_error(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        malformed: list[tuple[list[Guard], list[Write]]] = [
            ([], [Put(A, b"1", version), Put(A, b"2", version)]),
            ([], [Put(A, b"1", version), Delete(A, version)]),
        ]
        for guards, writes in malformed:
            with pytest.raises(ValueError, match="commit"):
                store.commit(SCOPE, guards=guards, writes=writes)
        assert values(store) == {"a": b"x"}

    def test_a_commit_without_writes_judges_and_changes_nothing(self, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        before = store.list(SCOPE)
        commit = store.commit(SCOPE, guards=[Exact(A, version), Absent(B)], writes=[])
        assert not commit.versions
        refused(store, Absent(A), guards=[Absent(A)], writes=[])
        assert store.list(SCOPE).records == before.records

    def test_a_version_is_new_at_each_write_of_the_same_value(self, store: CoordinationStore) -> None:
        seen = [put_new(store, "a", b"same")]
        for _ in range(5):
            seen.append(store.commit(SCOPE, guards=[], writes=[Put(A, b"same", seen[-1])]).versions[A])
        assert len(set(seen)) == len(seen)

    def test_the_revision_grows_with_every_commit(self, store: CoordinationStore) -> None:
        revisions = [store.list(SCOPE).revision]
        version: Version | None = None
        for _ in range(4):
            commit = store.commit(SCOPE, guards=[], writes=[Put(A, b"", version)])
            version = commit.versions[A]
            revisions.append(commit.revision)
        assert version is not None
        revisions.append(store.commit(SCOPE, guards=[], writes=[Delete(A, version)]).revision)
        assert revisions == sorted(set(revisions))
        assert store.list(SCOPE).revision >= revisions[-1]

    def test_scopes_do_not_touch_each_other(self, store: CoordinationStore) -> None:
        other = Scope("hourly-sales.eu")
        put_new(store, "a", b"here")
        put_new(store, "a", b"there", scope=other)
        assert values(store) == {"a": b"here"}
        assert values(store, scope=other) == {"a": b"there"}
        store.commit(SCOPE, guards=[Absent(B)], writes=[])
        assert store.list(Scope("empty")).records == ()

    def test_concurrent_increments_lose_none(self, rig: StoreRig) -> None:
        clients = [rig.client(), rig.client()]
        put_new(clients[0], "counter", b"0")
        key = Key("counter")

        def increment(store: CoordinationStore) -> None:
            done = 0
            while done < 10:
                record = store.read(SCOPE, key)
                assert record is not None
                value = str(int(record.value) + 1).encode()
                try:
                    store.commit(SCOPE, guards=[], writes=[Put(key, value, record.version)])
                except GuardFailed:
                    continue
                done += 1

        with ThreadPoolExecutor(8) as pool:
            for running in [pool.submit(increment, clients[number % 2]) for number in range(8)]:
                running.result()
        assert values(clients[0]) == {"counter": b"80"}
