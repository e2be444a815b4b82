"""Members that contend for one scope in PostgreSQL while its servers fail, and the truth of their commits.

Promise: `check` fails where an epoch was given twice, where a commit that was acknowledged is lost, where a write of a
term was applied after a write of a later term, and where a term that is over can write. Each commit writes a record of
its own, so a commit that is lost shows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

import pytest

from tenure.backends.registry import open_store
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import OutcomeUnknown, SessionEnded, StoreUnavailable, TermLost
from tests.kit.waiting import NEVER_S, wait_until

SCOPE, CLOCK = Scope("flights"), SystemClock()
TTL: Final = timedelta(seconds=4)
LIMITS: Final = "connect_timeout=2s&request_timeout=1s"


class Contenders:
    """Threads that lead in turns, by the store at `url`, and write under each term."""

    def __init__(self, url: str, *, names: Sequence[str] = ("anna", "ben")) -> None:
        self.url: Final = f"{url}?{LIMITS}"
        self._names = names
        self._stop = threading.Event()
        self.terms: list[Term] = []
        self.acknowledged: list[tuple[float, str]] = []
        """When, and the name of the record."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """They contend until the block ends. Raises what ended a contender."""
        with ThreadPoolExecutor(len(self._names)) as pool:
            members: list[Future[None]] = [pool.submit(self._lead, name) for name in self._names]
            try:
                yield
            finally:
                self._stop.set()
            for member in members:
                member.result(NEVER_S)

    @property
    def epochs(self) -> list[int]:
        return [term.epoch for term in self.terms]

    def wait_for_writes(self) -> None:
        """Return when ten more writes were acknowledged."""
        before = len(self.acknowledged)
        wait_until(lambda: len(self.acknowledged) >= before + 10, what="acknowledged writes")

    def longest_pause_s(self) -> float:
        """The longest time between two acknowledged commits."""
        times = [at_s for at_s, _ in self.acknowledged]
        return max((later - earlier for earlier, later in pairwise(times)), default=0.0)

    def check(self, connection: Any) -> None:
        """`connection`: of psycopg, to the primary."""
        found = connection.execute("select key from tenure.records where key like 'written/%' order by revision")
        there = [str(key).removeprefix("written/") for (key,) in found.fetchall()]
        assert not {name for _, name in self.acknowledged} - set(there), "acknowledged commits are lost"
        assert self.epochs == sorted(set(self.epochs)), "an epoch was given twice"
        writers = [int(name.split("-")[0]) for name in there]
        assert writers == sorted(writers), "a term wrote after a later term"
        with closing(open_store(self.url, clock=CLOCK)) as store:
            for term in self.terms[:-1]:
                with pytest.raises(TermLost):
                    commit_under(store, term, writes=[Put(Key("late"), b"", None)], clock=CLOCK)

    def _lead(self, name: str) -> None:
        with closing(open_store(self.url, clock=CLOCK)) as store:
            while not self._stop.is_set():
                try:
                    with SessionKeeper(store, ttl=TTL, clock=CLOCK) as keeper:
                        term = Election(store, SCOPE, member=name, clock=CLOCK).campaign(keeper, stop=self._stop)
                        if term is not None:
                            self.terms.append(term)
                            self._write(store, term)
                except (StoreUnavailable, OutcomeUnknown, SessionEnded, TermLost):
                    CLOCK.wait(self._stop, timeout_s=0.1)

    def _write(self, store: CoordinationStore, term: Term) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = f"{term.epoch}-{number}"
            commit_under(store, term, writes=[Put(Key(f"written/{name}"), b"", None)], clock=CLOCK)
            self.acknowledged.append((CLOCK.monotonic_s(), name))
            CLOCK.wait(self._stop, timeout_s=0.02)
