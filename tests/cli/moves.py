"""`tenure adopt` and `tenure export` as they are typed, and the scope that they work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path

from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.candidates import Identity
from tenure.coordination.held_term import held
from tenure.coordination.records import Scope
from tenure.events import Events
from tenure.scope_context import ScopeContext
from tests.cli.support import Place, Told, tenure

SCOPE = Scope("rows")


def where(place: Place) -> tuple[str, ...]:
    return ("--store", f"sqlite://{place.store}", "--storage", f"file://{place.storage}", "--scope", SCOPE)


def adopt(place: Place, checkpoint: Path | str, *more: str, query: str = "copy") -> Told:
    return tenure("adopt", str(checkpoint), "--query", query, *where(place), *more)


def lost(place: Place, *more: str) -> Told:
    return tenure("adopt", "--lost-store", *where(place), *more)


def export(place: Place, directory: Path, *more: str, query: str = "copy") -> Told:
    return tenure("export", str(directory), "--query", query, "--timeout", "0s", *where(place), *more)


def context_of(place: Place, store: SqliteStore) -> ScopeContext:
    return ScopeContext(store, SCOPE, f"file://{place.storage}/{SCOPE}", SystemClock(), Events.nobody)


def checkpoints(place: Place) -> list[int]:
    told = tenure("checkpoints", "list", *where(place), "-o", "json")
    return [one["batch"] for one in told.json]


@contextmanager
def opened(place: Place) -> Iterator[SqliteStore]:
    with closing(SqliteStore(place.store, clock=SystemClock())) as store:
        yield store


@contextmanager
def led(place: Place, *, member: str = "anna") -> Iterator[None]:
    """A live member, which leads."""
    with opened(place) as store:
        who = Identity(member, "host", 1)
        with held(store, SCOPE, who, ttl=timedelta(seconds=60), timeout=None, clock=SystemClock()):
            yield
