"""Who may read a page and who may act."""

from __future__ import annotations

import pytest

from tenure.ui.access_rules import (
    LASTS,
    Access,
    RequestFacts,
    actor_of,
    cookie_for,
    is_known_host,
    is_loopback,
    is_name,
    may_read,
    name_in,
    operator_of,
)

TOKEN, NOW = "a-token-of-many-characters", 1_900_000_000.0
ACCESS = Access(TOKEN, reads_openly=False)
COOKIE = cookie_for(TOKEN, "ops", now_s=NOW)
HOST, OWN = "127.0.0.1:8600", "http://127.0.0.1:8600"


@pytest.mark.parametrize(
    ("netloc", "known"),
    [
        ("127.0.0.1:8600", True),
        ("127.0.0.1", True),
        ("[::1]:8600", True),
        ("10.1.2.3:8008", True),  # an address is no name: DNS cannot lead it elsewhere
        ("localhost:8600", True),
        ("tenure.localhost", True),
        ("ui.example.org", True),
        ("UI.Example.org:443", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("ui.example.org.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("user@127.0.0.1", False),
        ("127.0.0.1:port", False),
        ("[::1", False),
        ("", False),
    ],
)
def test_a_foreign_name_is_not_served(netloc: str, known: bool) -> None:
    assert is_known_host(netloc, {"ui.example.org"}) is known


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost")),
        *((host, False) for host in ("", "0.0.0.0", "10.0.0.1", "::ffff:10.0.0.1", "::", "host")),
    ],
)
def test_whether_others_reach_an_address(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_a_cookie_names_its_operator_until_it_is_over() -> None:
    assert name_in(TOKEN, COOKIE, now_s=NOW) == "ops"
    assert TOKEN not in COOKIE
    late = NOW + LASTS.total_seconds()
    assert name_in(TOKEN, COOKIE, now_s=late - 1) == "ops"
    assert name_in(TOKEN, COOKIE, now_s=late) is None


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "ops",
        COOKIE[:-1],
        COOKIE.replace("ops", "boss"),
        COOKIE.replace("|1900", "|2900"),
        "|||",
        "ops|x|y",
        f"{COOKIE[:-1]}\udcff",
        cookie_for("another-token-of-many", "ops", now_s=NOW),
    ],
)
def test_no_other_cookie_names_anybody(cookie: str) -> None:
    assert name_in(TOKEN, cookie, now_s=NOW) is None


@pytest.mark.parametrize(
    ("facts", "actor"),
    [
        (RequestFacts(HOST, origin=OWN, cookie=COOKIE), "ops"),
        (RequestFacts(HOST, origin="", cookie=COOKIE), None),  # no browser sends that from our page
        (RequestFacts(HOST, origin="null", cookie=COOKIE), None),
        (RequestFacts(HOST, origin="http://evil.example", cookie=COOKIE), None),
        (RequestFacts(HOST, origin="http://127.0.0.1:9999", cookie=COOKIE), None),
        (RequestFacts(HOST, origin=OWN), None),
        (RequestFacts(HOST, bearer=TOKEN), "token"),
        (RequestFacts(HOST, bearer=TOKEN, by="cron"), "cron"),
        (RequestFacts(HOST, bearer=TOKEN, by="a b|c"), None),
        (RequestFacts(HOST, bearer=TOKEN[:-1]), None),
        (RequestFacts(HOST, bearer="\udcff"), None),
        (RequestFacts(HOST, origin="http://evil.example", bearer=TOKEN), None),
        (RequestFacts(HOST, origin=OWN, bearer="wrong", cookie=COOKIE), None),
    ],
)
def test_who_may_act(facts: RequestFacts, actor: str | None) -> None:
    assert actor_of(ACCESS, facts, now_s=NOW) == actor
    assert actor_of(Access(None), facts, now_s=NOW) is None, "without a token nobody acts"


def test_who_may_read() -> None:
    nobody, signed_in = RequestFacts(HOST), RequestFacts(HOST, cookie=COOKIE)
    assert may_read(Access(TOKEN, reads_openly=True), nobody, now_s=NOW)
    assert not may_read(ACCESS, nobody, now_s=NOW)
    assert may_read(ACCESS, signed_in, now_s=NOW)
    assert operator_of(ACCESS, signed_in, now_s=NOW) == "ops"


@pytest.mark.parametrize("name", ["ops", "a.b@c-d_9", "x" * 64])
def test_a_name_of_an_operator(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize("name", ["", "a b", "a|b", "x" * 65, "ä", "a\n"])
def test_what_is_no_name_of_an_operator(name: str) -> None:
    assert not is_name(name)
