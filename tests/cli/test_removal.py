"""`tenure remove`, on a file and on a server."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock, timestamp
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import Liveness
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import TermLost
from tenure.results.result import Ending, Result, Stage
from tenure.scope_context import ScopeContext
from tests.cli.support import Told, tenure
from tests.stores import ONE_SERVER, new_store

SCOPE, CLOCK, TTL = Scope("rows"), SystemClock(), timedelta(seconds=10)


class Ended:
    """A store with a scope whose pipeline has ended, and the term in which it ended."""

    def __init__(self, url: str, store: CoordinationStore, folder: Path) -> None:
        self.url = url
        self.store = store
        results = ScopeContext(store, SCOPE, f"file://{folder}/storage/rows", CLOCK).results()
        with self.leads() as term:
            results.write_dirty(term, Result(Ending.FINISHED, Stage.DIRTY, term.epoch, "anna", timestamp(CLOCK)))
            results.mark_clean(term)
        self.term = Term.from_json(term.to_json(), liveness=Liveness(clock=CLOCK, until_s=float("inf")))

    def leads(self) -> contextlib.AbstractContextManager[Term]:
        return held(self.store, SCOPE, Identity("anna", "here", 7), ttl=TTL, timeout=None, clock=CLOCK)

    def remove(self, *words: str, scope: str = "rows") -> Told:
        return tenure("remove", scope, *words, "--store", self.url)

    def scopes(self) -> list[str]:
        return [one["scope"] for one in tenure("scopes", "--store", self.url, "-o", "json").json]


@pytest.fixture(params=ONE_SERVER)
def ended(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ended]:
    monkeypatch.delenv("TENURE_STORAGE", raising=False)
    url = new_store(request, request.param, tmp_path)
    with contextlib.closing(open_store(url, clock=CLOCK)) as store:
        yield Ended(url, store, tmp_path)


def test_a_scope_goes_once_its_name_was_typed(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    dry = ended.remove("-o", "json").json
    assert (dry["scope"], dry["removed"]) == ("rows", False)
    assert {"identity", "results/result"} <= set(dry["records"])
    assert ended.remove().err.splitlines()[-1] == "nothing was written; --apply removes them"
    monkeypatch.setattr("sys.stdin", io.StringIO("rows\n"))
    told = ended.remove("--apply")
    asks = "remove is for good, and there is no terminal to ask at; add --yes-remove rows"
    assert (told.code, told.error) == (2, asks)
    wrong = ended.remove("--apply", "--yes-remove", "row")
    assert (wrong.code, wrong.error) == (2, "'row' is not the scope 'rows'; nothing was written; type its name")
    assert ended.scopes() == ["rows"]
    done = ended.remove("--apply", "--yes-remove", "rows", "-o", "json")
    assert (done.code, done.json["removed"], done.json["records"]) == (0, True, dry["records"])
    assert ended.scopes() == []
    again = ended.remove()
    assert (again.code, "scope 'rows' is not in this store" in again.error) == (2, True)


def test_a_leader_of_the_removed_scope_that_wakes_up_writes_nothing(ended: Ended) -> None:
    """Also while the next life of the scope is in its first term."""
    assert ended.remove("--apply", "--yes-remove", "rows").code == 0
    put = Put(Key("late"), b"{}", replaces=None)
    with ended.leads(), pytest.raises(TermLost):
        commit_under(ended.store, ended.term, writes=(put,), clock=CLOCK)
    assert ended.store.read(SCOPE, Key("late")) is None


def test_the_name_is_asked_for_at_a_terminal(ended: Ended, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO("rows\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    told = ended.remove("--apply")
    assert (told.code, ended.scopes()) == (0, [])
    assert "records go for good, with the history. Type the name of the scope" in told.out


def test_a_scope_whose_member_lives_is_refused(ended: Ended) -> None:
    with ended.leads():
        told = ended.remove("--apply", "--yes-remove", "rows")
    assert told.code == 2
    assert told.error == (
        "scope 'rows' is not removed: its members live: anna; stop them, and whatever starts them again"
    )
