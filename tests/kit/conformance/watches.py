"""Conformance: watches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from tenure.coordination.records import Delete, Key, Put, Revision
from tenure.coordination.store import CoordinationStore
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values
from tests.kit.waiting import NEVER, NEVER_S

LONG = timedelta(hours=1)


def wakes(rig: StoreRig, watching: CoordinationStore, change: Callable[[], object]) -> None:
    """The change wakes a thread that waits already, with a later revision."""
    before = watching.list(SCOPE).revision
    with watching.watch(SCOPE, after=before) as changes, ThreadPoolExecutor(1) as pool:
        about_to_wait = threading.Event()

        def wait() -> Revision | None:
            about_to_wait.set()
            return changes.wait(timeout=LONG)

        woken: Future[Revision | None] = pool.submit(wait)
        assert about_to_wait.wait(NEVER_S)
        change()
        rig.until(woken.done)
        revision = woken.result()
        assert revision is not None
        assert revision > before


class WatchCases:
    """A watch reports every change after a revision."""

    def test_a_commit_wakes_the_waiters_of_every_client(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        for watching in (store, other):
            key = Key(f"of-{watching is store}")
            wakes(rig, watching, partial(put_new, store, key))
            version = next(record.version for record in store.list(SCOPE).records if record.key == key)
            put = Put(key, b"changed", version)
            wakes(rig, watching, partial(store.commit, SCOPE, guards=[], writes=[put]))

    def test_a_delete_wakes_a_waiter(self, rig: StoreRig, store: CoordinationStore) -> None:
        version = put_new(store, "a")
        wakes(rig, store, lambda: store.commit(SCOPE, guards=[], writes=[Delete(Key("a"), version)]))

    def test_the_end_of_a_session_wakes_a_waiter(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session = store.open_session(ttl=rig.ttl)
        put_new(store, "leader", session=session.id)
        wakes(rig, other, session.close)
        session = store.open_session(ttl=rig.ttl)
        put_new(store, "leader", session=session.id)
        wakes(rig, other, lambda: rig.outlive(lambda: not values(other)))
        assert values(other) == {}

    def test_nothing_is_lost_between_a_listing_and_the_watch(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        listing = store.list(SCOPE)
        commit = other.commit(SCOPE, guards=[], writes=[Put(Key("a"), b"", None)])
        with store.watch(SCOPE, after=listing.revision) as changes:
            assert changes.wait(timeout=NEVER) == commit.revision
            later = other.commit(SCOPE, guards=[], writes=[Put(Key("b"), b"", None)])
            # Between two waits, too.
            seen: Revision | None = commit.revision
            while seen is not None and seen < later.revision:
                seen = changes.wait(timeout=NEVER)
            assert seen == later.revision

    def test_without_a_change_the_wait_ends_at_its_timeout(self, rig: StoreRig, store: CoordinationStore) -> None:
        put_new(store, "a")
        with store.watch(SCOPE, after=store.list(SCOPE).revision) as changes, ThreadPoolExecutor(1) as pool:
            assert changes.wait(timeout=timedelta(0)) is None
            waiting = pool.submit(changes.wait, timeout=timedelta(milliseconds=300))
            rig.until(waiting.done)
            assert waiting.result() is None
        changes.close()

    def test_a_follower_reaches_the_last_state(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        total = 30

        following = threading.Event()

        def follow() -> list[int]:
            listing = store.list(SCOPE)
            counts = [len(listing.records)]
            with store.watch(SCOPE, after=listing.revision) as changes:
                following.set()
                while counts[-1] < total:
                    changes.wait(timeout=LONG)
                    counts.append(len(store.list(SCOPE).records))
            return counts

        with ThreadPoolExecutor(1) as pool:
            followed = pool.submit(follow)
            assert following.wait(NEVER_S)
            for number in range(total):
                put_new(other, f"k{number:03}")
            rig.until(followed.done)
            counts = followed.result()
        assert counts == sorted(counts)
        assert counts[-1] == total
