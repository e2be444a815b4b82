"""What the store in PostgreSQL decides without a server: its URL, old primaries, free locks, outcomes, versions."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.backends.postgres.connection import unfit
from tenure.backends.postgres.errors import NoReply, SqlRefused, Unreplicated, outcome, state_of, unavailable
from tenure.backends.postgres.lineage import Incarnation, Lineages, judged
from tenure.backends.postgres.liveness import GRACE_S, FreeLocks, HeldSession
from tenure.backends.postgres.rows import commit_values, parsed, record_of, session_of
from tenure.backends.postgres.sessions import lock_of
from tenure.backends.postgres.url import PostgresPlace, place_of
from tenure.coordination.encoding import new_uid
from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, SessionId, Version, Write
from tenure.coordination.store_url import split_url
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable, UsageError

A, B, C = Key("a"), Key("b"), Key("c")


def place(url: str) -> PostgresPlace:
    return place_of(split_url(url))


# --- the URL ----------------------------------------------------------------------------------------------------------


def test_each_server_of_a_url_is_tried_by_itself() -> None:
    found = place("postgresql://ann:s%2Fe@h1,h2:6000/db?schema=mine&sslmode=require&request_timeout=2s")
    assert [(one["host"], one.get("port")) for one in found.servers] == [("h1", ""), ("h2", "6000")]
    assert {(one["user"], one["password"], one["sslmode"]) for one in found.servers} == {("ann", "s/e", "require")}
    assert (found.schema, found.channel, found.request_timeout.total_seconds()) == ("mine", "tenure_mine", 2)
    assert found.shown == "h1,h2/db"
    assert "s/e" not in repr(found)


def test_a_url_without_a_password_leaves_it_to_libpq() -> None:
    (server,) = place("postgresql://ann@h1/db").servers
    assert "password" not in server
    assert place("postgresql:///?service=mine").servers == ({"service": "mine"},)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://h1", "names no database"),
        ("postgresql://h1/db?schema=My-Own", "schema='My-Own' of the store URL is no name"),
        ("postgresql://h1/db?schema=" + "x" * 49, "at most 48"),
        ("postgresql://h1/db?request_timeout=5", "request_timeout='5' of the store URL is no time"),
        ("postgresql://h1/db?nonsense=1", "nonsense"),
        ("postgresql://h1/db?password=secret", "would show a password"),
        ("postgresql://h1,h2,h3:1/db?hostaddr=10.0.0.1", "3 servers, and 1 of hostaddr"),
        ("postgresql://ann:top/secret@h1/db", "has one of / "),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_in_a_line(url: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        place(url)
    assert "secret" not in str(refused.value)


# --- servers ----------------------------------------------------------------------------------------------------------

FIRST = Incarnation("77", 1, "12.5", "origin")


@pytest.mark.parametrize(
    ("known", "found", "why"),
    [
        (None, FIRST, None),
        (FIRST, FIRST, None),
        (FIRST, Incarnation("77", 1, "99.1", "origin"), None),
        (FIRST, Incarnation("77", 2, "13.0", "origin"), None),
        (Incarnation("77", 2, "13.0", "origin"), FIRST, "old primary"),
        (FIRST, Incarnation("78", 2, "13.0", "origin"), "another database"),
        (FIRST, Incarnation("77", 2, "13.0", "other"), "another database"),
    ],
)
def test_a_server_is_judged_by_what_was_seen_before(known: Incarnation | None, found: Incarnation, why: str) -> None:
    foreign = judged(known, found)
    assert (foreign is None) is (why is None)
    assert foreign is None or why in foreign.why


def test_a_refused_server_changes_no_memory() -> None:
    seen = Lineages()
    promoted = Incarnation("77", 2, "13.0", "origin")
    assert seen.admit("db", FIRST) is None
    assert seen.admit("db", promoted) is None
    for _ in range(2):
        assert seen.admit("db", FIRST) is not None
    assert seen.admit("other", FIRST) is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, None),
        ({"standbys": "*"}, None),
        ({"fsync": "off"}, "fsync = off"),
        ({"synchronous": "off"}, "synchronous_commit = off"),
        ({"synchronous": "local"}, None),
        ({"synchronous": "local", "standbys": "*"}, "synchronous_commit = local"),
        ({"synchronous": "remote_apply", "standbys": "*"}, None),
    ],
)
def test_a_server_that_may_lose_commits_is_unfit(settings: dict[str, Any], words: str | None) -> None:
    wrong = unfit(**{"fsync": "on", "synchronous": "on", "standbys": "", **settings})
    assert bool(wrong) is (words is not None)
    assert words is None or words in wrong[0]


# --- locks ------------------------------------------------------------------------------------------------------------


def dead(locks: FreeLocks, at_s: float, *, held: bool = False, home: str = "here", server: str = "here") -> bool:
    row = HeldSession(SessionId("s"), 10.0, 0, home, held)
    return bool(locks.dead([row], home=server, asked_at_s=at_s, answered_at_s=at_s + 0.1))


def test_a_lock_that_stays_free_is_a_death() -> None:
    locks = FreeLocks()
    assert [dead(locks, at_s) for at_s in (0, 0.1 + GRACE_S - 0.01, 0.1 + GRACE_S)] == [False, False, True]


def test_a_lock_that_is_taken_again_is_none() -> None:
    locks = FreeLocks()
    assert not dead(locks, 0)
    assert not dead(locks, 1, held=True)
    assert not dead(locks, 2)
    assert dead(locks, 2.1 + GRACE_S)


def test_after_a_restart_the_renewals_alone_count() -> None:
    locks = FreeLocks()
    assert not any(dead(locks, at_s, server="there") for at_s in (0, 5, 50))
    assert not dead(locks, 60), "from the first look at the lock of this life"


def test_the_number_of_a_lock_fits_into_a_bigint() -> None:
    assert all(0 <= lock_of(SessionId(new_uid())) < 1 << 62 for _ in range(100))


# --- outcomes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "kind", "fix"),
    [
        (SqlRefused("42501", "permission denied"), AccessDenied, "rights"),
        (SqlRefused("28P01", "password authentication failed"), AccessDenied, "password"),
        (SqlRefused("53100", "could not extend file"), StoreUnavailable, "free some space"),
        (SqlRefused("53300", "too many clients"), StoreUnavailable, "max_connections"),
        (SqlRefused("25006", "read-only transaction"), StoreUnavailable, "primary"),
        (SqlRefused("XX000", "anything"), StoreUnavailable, None),
        (NoReply("the line broke"), OutcomeUnknown, None),
        (Unreplicated("canceling wait for synchronous replication"), OutcomeUnknown, "standby"),
    ],
)
def test_what_became_of_a_commit(failure: Any, kind: type[Exception], fix: str | None) -> None:
    error = outcome(failure, "commit", "db")
    assert type(error) is kind
    assert (error.fix is None) is (fix is None)
    assert fix is None or fix in (error.fix or "")
    assert isinstance(unavailable(failure, "read", "db"), StoreUnavailable), "nothing of a read is unknown"


def test_a_refused_connection_is_known_by_its_words() -> None:
    assert state_of('FATAL: password authentication failed for user "x"') == "28P01"
    assert state_of("Connection refused") == ""


# --- rows -------------------------------------------------------------------------------------------------------------


def test_a_commit_presents_revisions_of_this_database_alone() -> None:
    exact = [Exact(A, Version(version)) for version in ("origin-12", "other-12", "nonsense")]
    guards: list[Guard] = [*exact, Absent(B)]
    values = commit_values(guards, [], origin="origin")
    assert values["keys"] == ["a", "a", "a", "b"]
    assert values["wanted"] == [12, -1, -1, None]
    assert not values["writes"]


def test_the_writes_of_a_commit() -> None:
    one, two = SessionId("1"), SessionId("2")
    writes: list[Write] = [
        Put(A, b"x", None, two),
        Put(B, b"\x00", None, one),
        Put(Key("d"), b"", None, two),
        Delete(C, Version("o-1")),
    ]
    values = commit_values([], writes, origin="o")
    assert values["put"] == ["a", "b", "d"]
    assert values["values"] == [b"x", b"\x00", b""]
    assert values["sessions"] == ["2", "1", "2"]
    assert values["bound"] == ["2", "1"], "in the order of the writes"
    assert values["gone"] == ["c"]


def test_a_row_is_a_record() -> None:
    record = record_of((b"a/b", b"\\x00ff", b"7", None), origin="o")
    assert record is not None
    assert (record.key, record.value, record.version, record.session) == ("a/b", b"\x00\xff", "o-7", None)
    assert record_of((b"no key!", b"\\x", b"7", None), origin="o") is None
    assert session_of((b"s", b"2500000", b"3", b"home", b"f")) == HeldSession(SessionId("s"), 2.5, 3, "home", False)


def test_an_announcement_of_another_program_is_none() -> None:
    assert parsed("flights 12") == ("flights", 12)
    assert [parsed(text) for text in ("", "flights", "no scope! 3", "flights x")] == [None] * 4
