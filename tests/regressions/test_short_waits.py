"""Callers whose time is short: a wait that is shorter than the ttl, and a call near its own deadline.

`tenure.lead(timeout=...)` in a loop began to observe a stopped leader anew with each call, so it led never. And a call
that met the lock of another program queued behind the busy timeouts of all threads before it, long past its deadline.
"""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

import tenure
from tenure.backends.sqlite import SqliteStore
from tenure.clock import SystemClock
from tenure.coordination.election import WAKE_UP, Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term, check_term
from tenure.errors import TermLost
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER, NEVER_S, wait_until

SCOPE = Scope("nightly")
TTL = timedelta(seconds=1)


def elected(store: SqliteStore, keeper: SessionKeeper) -> Term:
    election = Election(store, SCOPE, member="anna", clock=SystemClock())
    election.join(keeper, host="here", pid=1)
    term = election.campaign(keeper, stop=Never())
    assert term is not None
    return term


class Never:
    def is_set(self) -> bool:
        return False


def test_a_caller_that_waits_again_and_again_leads_after_a_stopped_leader(tmp_path: Path) -> None:
    path = tmp_path / "ha.db"
    with closing(SqliteStore(path, clock=ManualClock())) as stopped:  # its time stands still
        ttl = 3 * WAKE_UP  # a call observes for about one of these, however short its timeout is
        with SessionKeeper(stopped, ttl=ttl, clock=ManualClock()) as keeper:
            elected(stopped, keeper)

            def leads() -> bool:
                try:
                    with tenure.lead(SCOPE, store=f"sqlite://{path}", member="ben", ttl="1s", timeout=WAKE_UP / 4):
                        return True
                except TimeoutError:
                    return False

            assert not leads()
            wait_until(leads)


def test_calls_answer_while_another_program_has_the_file_locked(tmp_path: Path) -> None:
    path, clock = tmp_path / "ha.db", SystemClock()
    store = SqliteStore(path, clock=clock, busy_timeout=2 * NEVER)
    with closing(store), SessionKeeper(store, ttl=TTL, clock=clock) as keeper:
        term = elected(store, keeper)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(4) as threads:
                checks = [threads.submit(check_term, store, term, clock=clock) for _ in range(4)]
                for check in checks:
                    with pytest.raises(TermLost):
                        check.result(timeout=NEVER_S)
            assert store.list(Scope("other")).records == (), "reading goes on"
            other.execute("ROLLBACK")
