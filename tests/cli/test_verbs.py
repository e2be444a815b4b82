"""The verbs of an operator, as commands on a store whose members are made up."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.candidates import Lag, State
from tenure.coordination.election import Election
from tenure.coordination.records import Record, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.coordination.terms import End
from tenure.operate.scopes import CHECK_THE_STORE, NEW_SCOPES
from tests.cli.support import Place, Told, tenure
from tests.kit.waiting import NEVER_S, wait_until

SCOPE, CLOCK, TTL = Scope("rows"), SystemClock(), timedelta(seconds=20)


class Actor:
    """A member that has no driver: it leads and hands over as it is asked, on a thread."""

    def __init__(self, place: Place, name: str, *, obeys: bool = True, nofailover: bool = False, **said: Any) -> None:
        """`said`: what it announces besides."""
        self.name = name
        self._store = SqliteStore(place.store)
        self._election = Election(self._store, SCOPE, member=name, clock=CLOCK)
        self._obeys = obeys
        self._said = said
        self._nofailover = nofailover
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Actor:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join(timeout=NEVER_S)
        self._store.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            with SessionKeeper(self._store, ttl=TTL, clock=CLOCK) as keeper:
                self._election.join(keeper, host="here", pid=7, nofailover=self._nofailover)
                if self._nofailover:
                    self._election.announce(keeper, State.READY, lag=Lag(3, 1_234_567))
                elif self._said:
                    self._election.announce(keeper, **self._said)
                term = self._election.campaign(keeper, stop=self._stop)
                if term is not None:
                    self._lead(term)

    def _lead(self, term: Term) -> None:
        asked = threading.Event()

        def look(records: tuple[Record, ...]) -> None:
            if self._obeys and any(record.key == "switchover" for record in records):
                asked.set()
                self._election.resign(term, End("switchover"))

        self._election.attend(term, stop=self._stop, on_look=look)  # type: ignore[arg-type] # it is a tuple


@pytest.fixture
def pair(place: Place) -> Iterator[Place]:
    """`anna` leads, `ben` stands by, `carl` never leads."""
    place.make_store()
    with Actor(place, "anna"), contextlib.ExitStack() as rest:
        wait_until(lambda: place.look("status")["leader"] == "anna")
        rest.enter_context(Actor(place, "ben"))
        rest.enter_context(Actor(place, "carl", nofailover=True))
        wait_until(lambda: len(place.look("list")) == 3)
        wait_until(lambda: any(row["lag"] for row in place.look("list")))
        yield place


def since(place: Place, member: str) -> str | None:
    """When a member joined; None: it is not there."""
    return next((row["joined"] for row in place.look("list") if row["member"] == member), None)


def verb(place: Place, *words: str) -> Told:
    return tenure(*words, "--store", f"sqlite://{place.store}", "--scope", "rows")


def test_list_shows_who_leads_and_who_could(pair: Place) -> None:
    rows = {row["member"]: (row["role"], row["epoch"], row["tags"]) for row in pair.look("list")}
    assert rows == {
        "anna": ("leader", 1, None),
        "ben": ("standby", None, None),
        "carl": ("standby", None, "nofailover"),
    }
    told = verb(pair, "list")
    assert told.err == "rows on sqlite: anna leads, epoch 1\n"
    heads, *members = [line.split("\t") for line in told.out.splitlines()]
    assert " ".join(heads) == "member role state epoch lag behind priority tags host pid joined leads_since"
    assert [member[:-2] for member in members] == [
        ["anna", "leader", "ready", "1", "", "", "0", "", "here", "7"],
        ["ben", "standby", "ready", "", "", "", "0", "", "here", "7"],
        ["carl", "standby", "ready", "", "3 batches, 1.2 MB", "", "0", "nofailover", "here", "7"],
    ]
    assert [row["lag"] for row in pair.look("list")] == [None, None, {"batches": 3, "bytes": 1_234_567}]


def test_list_shows_whose_rehearsals_fail_and_who_runs_another_file(place: Place) -> None:
    place.make_store()
    trouble = "query 'copy' was not rehearsed: no luck"
    with Actor(place, "anna", state=State.READY, file="f1"), contextlib.ExitStack() as rest:
        wait_until(lambda: place.look("status")["leader"] == "anna")
        rest.enter_context(Actor(place, "ben", state=State.FAILING, file="f2", trouble=trouble))
        rest.enter_context(Actor(place, "carl", state=State.READY, file="f1"))
        wait_until(lambda: [row["file"] for row in place.look("list")] == ["f1", "f2", "f1"])
        rows = {row["member"]: (row["state"], row["trouble"], row["other_file"]) for row in place.look("list")}
        told = verb(place, "list").err.splitlines()
    assert rows == {
        "anna": ("ready", None, False),
        "ben": ("failing", trouble, True),
        "carl": ("ready", None, False),
    }
    assert told[-2:] == [f"ben: {trouble}", "ben: its pipeline file (f2) is not that of the leader"]


def test_a_switchover_waits_for_the_new_leader(pair: Place) -> None:
    joined = since(pair, "anna")
    told = verb(pair, "switchover", "--candidate", "ben")
    assert (told.code, told.out) == (0, "ben leads rows, epoch 2; before: anna\n")
    wait_until(lambda: since(pair, "anna") not in (None, joined), what="anna under a session of its own again")
    told = verb(pair, "switchover")
    assert (told.code, told.out) == (0, "anna leads rows, epoch 3; before: ben\n")
    assert [term["why"] for term in pair.look("history")] == ["switchover", "switchover", None]
    heads, *rows = [line.split("\t") for line in verb(pair, "history").out.splitlines()]
    assert heads == ["epoch", "holder", "from", "to", "why"]
    assert [row[-1] for row in rows] == ["switchover: to ben", "switchover: to anna", ""]


@pytest.mark.parametrize("word", ["switchover", "failover"])
@pytest.mark.parametrize("nobody", ["anna", "carl", "zoe"])
def test_one_that_cannot_lead_is_refused(pair: Place, word: str, nobody: str) -> None:
    told = verb(pair, word, "--candidate", nobody, *(["--force"] if word == "failover" else []))
    assert told.code == 2
    assert told.error == f"member '{nobody}' of scope 'rows' could not take over; ready: ['ben']"
    assert pair.look("status")["epoch"] == 1


def test_a_failover_asks_nobody(place: Place) -> None:
    place.make_store()
    with Actor(place, "anna", obeys=False):
        wait_until(lambda: place.look("status")["leader"] == "anna")
        assert verb(place, "switchover").error == "no standby of scope 'rows' could take over; see tenure list"
        with Actor(place, "ben"):
            wait_until(lambda: len(place.look("list")) == 2)
            late = verb(place, "switchover", "--timeout", "1s")
            assert late.code == 4
            assert late.error.startswith("no other member of scope 'rows' led within 1s; the request is taken back; ")
            assert place.look("status")["switchover"] is None
            told = verb(place, "failover", "--force")
            assert (told.code, told.out) == (0, "ben leads rows, epoch 2; before: anna\n")
    assert place.look("history")[0]["why"] == "failover"


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_failover_asks_at_a_terminal(pair: Place, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO(answer + "\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    told = verb(pair, "failover")
    assert told.out.startswith("anna, epoch 1 leads rows. End this term at once? Its unfinished batch is run again")
    assert told.code == (0 if answer == "y" else 130)
    assert pair.look("status")["epoch"] == (2 if answer == "y" else 1)


def test_a_failover_without_a_terminal_wants_a_word(pair: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    told = verb(pair, "failover")
    assert (told.code, told.error) == (
        2,
        "failover ends a term at once, and there is no terminal to ask at; add --force",
    )
    assert pair.look("status")["epoch"] == 1


def test_no_leader_is_replaced_between_pause_and_resume(pair: Place) -> None:
    assert verb(pair, "pause").out == "rows is paused: no member is elected until tenure resume\n"
    assert verb(pair, "pause").out == "rows was paused already\n"
    assert "anna leads, epoch 1, paused" in verb(pair, "list").err
    for word in ("switchover",), ("failover", "--force"):
        told = verb(pair, *word)
        assert (told.code, told.error) == (2, "scope 'rows' is paused: nobody would be elected; first: tenure resume")
    assert pair.look("status")["leader"] == "anna"
    assert verb(pair, "resume").out == "rows is not paused any more\n"
    assert verb(pair, "resume").out == "rows was not paused\n"


def test_a_restart_is_asked_of_a_live_member(pair: Place) -> None:
    assert verb(pair, "restart", "ben").out == "member ben of rows was asked to replace its driver\n"
    assert verb(pair, "restart", "ben").code == 0
    told = verb(pair, "restart", "zoe")
    assert (told.code, told.error) == (
        2,
        "no live member of scope 'rows' is named 'zoe'; live: ['anna', 'ben', 'carl']",
    )


def test_only_a_standby_begins_anew(pair: Place) -> None:
    assert verb(pair, "reinit", "ben").out == "standby ben of rows was asked to begin anew\n"
    told = verb(pair, "reinit", "anna")
    assert (told.code, told.out) == (2, "")
    assert told.error == (
        "member 'anna' leads scope 'rows': only a standby begins anew; "
        "first: tenure switchover; or tenure restart, which hands over"
    )


@pytest.mark.parametrize("word", ["switchover", "failover"])
def test_a_scope_without_any_leader_ever(place: Place, word: str) -> None:
    place.make_store()
    with Actor(place, "carl", nofailover=True):
        wait_until(lambda: len(place.look("list")) == 1)
        force = ["--force"] if word == "failover" else []
        assert verb(place, word, *force).error == f"scope 'rows' never had a leader; check --scope; {NEW_SCOPES}"


@pytest.mark.parametrize(
    "words",
    [
        ("pause",),
        ("resume",),
        ("restart", "anna"),
        ("reinit", "anna"),
        ("switchover",),
        ("switchover", "--candidate", "anna"),
        ("failover",),
        ("failover", "--force"),
        ("result", "forget"),
    ],
    ids=" ".join,
)
def test_a_scope_that_never_was_in_the_store(place: Place, words: tuple[str, ...]) -> None:
    place.make_store()
    storage = ["--storage", f"file://{place.storage}"] if words[0] == "result" else []
    for known in (f"the store has no other scope; {CHECK_THE_STORE}; {NEW_SCOPES}", "known: ['flights']"):
        told = verb(place, *words, *storage)
        assert (told.code, told.out) == (2, "")
        assert told.error == f"scope 'rows' is not in this store (sqlite); {known}"
        assert place.sql("select key from records where scope = 'rows'") == []
        place.sql("INSERT OR REPLACE INTO records VALUES ('flights', 'epoch', '{}', 1, NULL)")


def test_a_timeout_that_is_none(place: Place) -> None:
    told = verb(place, "switchover", "--timeout", "soon")
    assert (told.code, told.error) == (
        2,
        "--timeout 'soon' is not a duration; a duration is a number with a unit: 500ms, 5s, 2m, 1h",
    )


def test_a_store_that_is_not_there(place: Place) -> None:
    for word in (("list",), ("switchover",), ("failover",), ("pause",), ("resume",), ("restart", "anna")):
        told = verb(place, *word)
        assert told.code == 4
        assert told.error.startswith(f"store {place.store} does not exist, but its directory does; ")
        assert not place.store.exists()
