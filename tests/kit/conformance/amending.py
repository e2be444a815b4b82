"""Conformance: amendments of bound records, glances, and descriptions of sessions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest

from tenure.coordination.records import Delete, Key, Put, Revision
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import CommitRefused, GuardFailed, SessionEnded
from tests.kit.conformance.fixture import SCOPE, StoreRig, put_new, values
from tests.kit.conformance.sessions import is_over
from tests.kit.conformance.watches import wakes
from tests.kit.waiting import NEVER, NEVER_S

MINE = Key("live/mine")
LASTING = timedelta(seconds=60)
"""The ttl of a session that nobody renews, and that lives until its test ends it."""


def shows(rig: StoreRig, client: CoordinationStore, session: Session, value: bytes) -> None:
    """The client reads and lists the amended value: at once, or a little later where the store declares that."""

    def seen() -> bool:
        record = client.read(SCOPE, MINE)
        return record is not None and record.value == value and values(client).get(MINE) == value

    def seen_later() -> bool:
        session.renew()
        return seen()

    if client.guarantees.amended_at_one_instant:
        assert seen()
    else:
        rig.until(seen_later)


def glanced(store: CoordinationStore, prefix: str = "") -> dict[str, bytes]:
    """All records at a glance, by key."""
    return {str(record.key): record.value for record in store.glance(SCOPE, prefix).records}


class AmendCases:
    """A session amends its own records and no others. A glance is never older than what its client has seen."""

    def test_an_amended_value_is_seen_by_every_client_and_touches_nothing_else(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session = store.open_session(ttl=rig.ttl)
        put_new(store, MINE, b"0", session=session.id)
        put_new(store, "live/second", b"second", session=session.id)
        put_new(store, "permanent", b"permanent")
        before = [record for record in store.list(SCOPE).records if record.key != MINE]
        for value in (b"1", b"2", b"", b"2"):
            session.amend(SCOPE, MINE, value)
            for client in (store, other):
                shows(rig, client, session, value)
        assert [record for record in other.list(SCOPE).records if record.key != MINE] == before
        record = other.read(SCOPE, MINE)
        assert record is not None
        assert record.session == session.id
        with pytest.raises(GuardFailed):
            put_new(other, MINE, b"taken")

    def test_an_amended_record_goes_with_its_session(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            put_new(store, MINE, session=session.id)
            session.amend(SCOPE, MINE, b"amended")
            if end == "close":
                session.close()
            else:
                rig.outlive(lambda: not values(other))
            assert values(other) == {}
            assert values(store) == {}

    def test_an_ended_session_amends_nothing_and_makes_nothing_anew(
        self, rig: StoreRig, store: CoordinationStore
    ) -> None:
        def ended(session: Session) -> bool:
            return not values(store) and is_over(session)

        for end in ("close", "expire"):
            session = store.open_session(ttl=rig.ttl)
            put_new(store, MINE, session=session.id)
            if end == "close":
                session.close()
            else:
                rig.outlive(partial(ended, session))
            with pytest.raises(SessionEnded) as caught:
                session.amend(SCOPE, MINE, b"late")
            assert caught.value.session == session.id
            assert values(store) == {}

    def test_a_record_that_is_gone_is_not_made_anew(self, rig: StoreRig, store: CoordinationStore) -> None:
        session = store.open_session(ttl=rig.ttl)
        with pytest.raises(SessionEnded):
            session.amend(SCOPE, MINE, b"never made")
        version = put_new(store, MINE, session=session.id)
        store.commit(SCOPE, guards=[], writes=[Delete(MINE, version)])
        with pytest.raises(SessionEnded):
            session.amend(SCOPE, MINE, b"removed")
        assert values(store) == {}
        session.renew()

    def test_records_of_others_stay_as_they_are(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session, second = store.open_session(ttl=rig.ttl), store.open_session(ttl=rig.ttl)
        foreign = other.open_session(ttl=rig.ttl)
        put_new(store, "second", session=second.id)
        put_new(other, "foreign", session=foreign.id)
        put_new(store, "permanent")
        put_new(store, "freed", session=session.id)
        record = store.read(SCOPE, Key("freed"))
        assert record is not None
        store.commit(SCOPE, guards=[], writes=[Put(record.key, b"x", record.version)])
        before = store.list(SCOPE).records
        for key in ("second", "foreign", "permanent", "freed"):
            with pytest.raises(SessionEnded):
                session.amend(SCOPE, Key(key), b"amended")
        assert store.list(SCOPE).records == before

    def test_an_amended_value_may_have_the_declared_size_and_not_more(
        self, rig: StoreRig, store: CoordinationStore
    ) -> None:
        limit = store.guarantees.max_record_bytes
        session = store.open_session(ttl=rig.ttl)
        put_new(store, MINE, session=session.id)
        session.amend(SCOPE, MINE, b"x" * limit)
        with pytest.raises(CommitRefused):
            session.amend(SCOPE, MINE, b"y" * (limit + 1))
        shows(rig, store, session, b"x" * limit)

    def test_an_amendment_wakes_the_waiters_of_every_client(self, rig: StoreRig) -> None:
        """Or its value shows a little later where the store declares that."""
        store, other = rig.client(), rig.client()
        session = store.open_session(ttl=rig.ttl)
        put_new(store, MINE, session=session.id)
        for number, watching in enumerate((store, other)):
            value = str(number).encode()
            amend = partial(session.amend, SCOPE, MINE, value)
            if store.guarantees.amended_at_one_instant:
                wakes(rig, watching, amend)
            else:
                amend()
            shows(rig, watching, session, value)

    def test_a_purpose_is_for_people(self, rig: StoreRig, store: CoordinationStore) -> None:
        for number, purpose in enumerate(("member a of scope s", "", "\u00fc\n" * 1000)):
            session = store.open_session(ttl=rig.ttl, purpose=purpose)
            put_new(store, f"live/{number}", session=session.id)
            session.renew()
            assert values(store) == {f"live/{number}": b"x"}
            session.close()
        assert values(store) == {}

    def test_a_glance_is_never_older_than_a_commit_of_its_client(self, store: CoordinationStore) -> None:
        version = put_new(store, "a/b", b"new")
        assert glanced(store) == {"a/b": b"new"}
        for number in range(10):
            value = str(number).encode()
            version = store.commit(SCOPE, guards=[], writes=[Put(Key("a/b"), value, version)]).versions[Key("a/b")]
            assert glanced(store) == glanced(store, "a") == {"a/b": value}
        store.commit(SCOPE, guards=[], writes=[Delete(Key("a/b"), version)])
        assert glanced(store) == {}

    def test_a_glance_shows_the_listing_while_nothing_changes(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session = other.open_session(ttl=LASTING)
        for key in ("b", "a", "a/x", "a/x/deep", "a/xy", "ab", "a.b/x"):
            put_new(store, key, key.encode())
        put_new(other, MINE, session=session.id)
        for client in (store, other):
            for prefix in ("", "a", "a/x", "live", "none"):
                assert client.list(SCOPE, prefix).records == client.glance(SCOPE, prefix).records

    def test_a_glance_reaches_the_changes_of_another_client(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        assert glanced(store) == {}
        session = other.open_session(ttl=LASTING)
        put_new(other, MINE, b"0", session=session.id)
        version = put_new(other, "a", b"1")
        rig.until(lambda: glanced(store) == {MINE: b"0", "a": b"1"})
        session.amend(SCOPE, MINE, b"amended")
        rig.until(lambda: glanced(store) == {MINE: b"amended", "a": b"1"})
        other.commit(SCOPE, guards=[], writes=[Delete(Key("a"), version)])
        session.close()
        rig.until(lambda: glanced(store) == {})

    def test_a_glance_shows_the_end_of_a_session_that_nobody_renews(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        session = store.open_session(ttl=rig.ttl)
        put_new(store, MINE, session=session.id)
        put_new(store, "permanent")
        rig.until(lambda: set(glanced(other)) == {MINE, "permanent"} or not values(other).get(MINE))
        rig.outlive(lambda: set(glanced(other)) == {"permanent"})
        assert set(glanced(other)) == set(glanced(store)) == {"permanent"}

    def test_a_glance_is_never_older_than_a_listing_of_its_client(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        assert glanced(store) == {}
        for number in range(10):
            put_new(other, f"k{number}/x")
            assert len(store.list(SCOPE, f"k{number}" if number % 2 else "").records) == (
                1 if number % 2 else number + 1
            )
            assert len(glanced(store)) == number + 1

    def test_a_glance_has_the_change_that_a_watch_has_reported(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        with store.watch(SCOPE, after=store.glance(SCOPE).revision) as changes:
            for number in range(10):
                committed = other.commit(SCOPE, guards=[], writes=[Put(Key(f"k{number}"), b"", None)])
                reported: Revision | None = Revision(0)
                while reported is not None and reported < committed.revision:
                    reported = changes.wait(timeout=NEVER)
                assert reported is not None
                assert len(glanced(store)) == number + 1

    def test_glances_and_listings_never_go_back(self, rig: StoreRig) -> None:
        store, other = rig.client(), rig.client()
        total = 30
        looking = threading.Event()

        def look() -> list[int]:
            counts = [0]
            while counts[-1] < total:
                counts += [len(store.list(SCOPE).records), len(glanced(store)), len(glanced(store))]
                looking.set()
            return counts

        with ThreadPoolExecutor(1) as pool:
            looked = pool.submit(look)
            assert looking.wait(NEVER_S)
            for number in range(total):
                put_new(other, f"k{number:03}")
            counts = looked.result()
        assert counts == sorted(counts)
