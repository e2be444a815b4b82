"""`tenure scopes`, as a command on a store whose members are made up."""

from __future__ import annotations

import pytest

from tenure.operate.scopes import CHECK_THE_STORE
from tests.cli.support import Place, Told, tenure
from tests.cli.test_verbs import Actor
from tests.kit.waiting import wait_until


def scopes(place: Place, *more: str) -> Told:
    return tenure("scopes", "--store", f"sqlite://{place.store}", *more)


@pytest.fixture(autouse=True)
def _no_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TENURE_SCOPE", raising=False)


def test_an_empty_store_is_a_clear_line(place: Place) -> None:
    place.make_store()
    told = scopes(place)
    line = f"no scope is in this store (sqlite): no member has led here; {CHECK_THE_STORE}\n"
    assert (told.code, told.out, told.err) == (0, line, "")
    assert scopes(place, "--output", "json").json == []


def test_the_scopes_of_a_store_and_who_leads_them(place: Place) -> None:
    place.make_store()
    with Actor(place, "anna"):
        wait_until(lambda: place.look("status")["leader"] == "anna")
        place.sql("INSERT INTO records VALUES ('bad', 'epoch', 'damaged', 1, NULL)")
        told = scopes(place)
        document = scopes(place, "--output", "json").json
    assert told.code == 0
    assert [line.split("\t") for line in told.out.splitlines()] == [
        ["scope", "leader", "epoch", "live", "newest_batch", "state"],
        ["bad", "", "0", "0", "", "unreadable"],
        ["rows", "anna", "1", "1", "", "led"],
    ]
    title, warning = told.err.splitlines()
    assert title == "scopes of this store (sqlite)"
    assert warning.startswith("tenure: warning: scope 'bad': record 'epoch' does not decode")
    bad, rows = document
    assert (bad["scope"], bad["trouble"] is None) == ("bad", False)
    assert rows == {
        "scope": "rows",
        "leader": "anna",
        "epoch": 1,
        "members": ["anna"],
        "paused": False,
        "ended": None,
        "planned_at": None,
        "trouble": None,
    }


def test_a_store_that_is_not_there(place: Place) -> None:
    told = scopes(place)
    assert (told.code, place.store.exists()) == (4, False)
    assert told.error.startswith(
        f"store {place.store} does not exist, but its directory does; check the path, and that its"
    )
