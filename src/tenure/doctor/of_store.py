"""Looks at the store: is it there, does it let this user write, how fast, what say its servers; who lives in the scope.

Promise: all writes go to the scratch scope, bound to a session that is closed at the end. Where a member's rights do
not let it write a scratch scope, only the session itself is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from typing import Final

from tenure.clock import Clock
from tenure.coordination.encoding import new_uid
from tenure.coordination.examination import Examinable, Examination, Grade, Remark
from tenure.coordination.records import Exact, Key, Put, Version
from tenure.coordination.store import CoordinationStore, Session
from tenure.doctor import rules
from tenure.doctor.case import Case, NotMade
from tenure.doctor.other_clocks import ahead_of, time_at
from tenure.doctor.scratch import SCRATCH
from tenure.errors import GuardFailed, StoreNotMade
from tenure.opening import scope_store
from tenure.operate.snapshot import take_snapshot

REQUESTS: Final = 20
"""How many commits are measured, one after the other."""

_WAKES: Final = timedelta(seconds=5)


def look_at_store(case: Case) -> Iterator[Remark]:
    """Open it and read. Raises UsageError, StoreUnavailable."""
    if not case.settings.store:
        raise NotMade("no --store is given")
    try:
        store = scope_store(case.settings, clock=case.clock, existing=True)
    except StoreNotMade as absent:
        raise NotMade(f"{absent.what}: the first member makes it") from absent
    case.closing(store.close)
    took_s = _timed(case.clock, lambda: _ask(store))
    case.found_store = store
    yield Remark(Grade.OK, f"{store.guarantees.name} answers, {1000 * took_s:.0f} ms")


def _ask(store: CoordinationStore) -> None:
    """Read a scope; where the rights of members name their own, anything that needs no right: check `servers` has all
    missing rights in one list."""
    examination = store.examination() if isinstance(store, Examinable) else None
    if examination is None or examination.has_scratch:
        store.list(SCRATCH)
    else:
        examination.server_time(SCRATCH)


def look_at_commits(case: Case) -> Iterator[Remark]:
    """A session with the ttl of a member, and commits under it. Raises StoreError; UsageError: the store gives another
    ttl."""
    examination, clock = examination_of(case), case.clock
    session = case.store.open_session(ttl=case.settings.ttl, purpose="tenure doctor")
    with closing(session):
        if examination is None or not examination.has_scratch:
            took_s = [_timed(clock, session.renew) for _ in range(REQUESTS)]
            yield rules.about_latency(took_s, ttl=case.settings.ttl, what="renewals")
            return
        yield from _commits(case.store, session, clock=clock, ttl=case.settings.ttl)
    examination.forget(SCRATCH)


def _commits(store: CoordinationStore, session: Session, *, clock: Clock, ttl: timedelta) -> Iterator[Remark]:
    key, version, first = Key(f"commits/{new_uid()}"), None, None
    revision = store.list(SCRATCH).revision
    took_s: list[float] = []

    def commit() -> Version:
        put = Put(key, b"tenure doctor", replaces=version, session=session.id)
        return store.commit(SCRATCH, guards=(), writes=(put,)).versions[key]

    with store.watch(SCRATCH, after=revision) as changes:
        for _ in range(REQUESTS):
            began_s = clock.monotonic_s()
            version = commit()
            took_s.append(clock.monotonic_s() - began_s)
            first = first or version
        woken = changes.wait(timeout=_WAKES) is not None
    yield rules.about_latency(took_s, ttl=ttl, what="commits")
    if first is not None and not _refuses(store, Exact(key, first)):
        yield Remark(
            Grade.BAD,
            "the store took a commit under the guard of a version that was replaced",
            "a leader that wakes too late would write over its successor",
            "use another store: this one does not keep the contract",
        )
    if not woken:
        yield Remark(
            Grade.WARN,
            f"a watch heard nothing of a commit for {_WAKES.total_seconds():g} s",
            "standbys hear late that nobody leads",
            "look for a proxy or a firewall that ends idle lines",
        )


def _refuses(store: CoordinationStore, stale: Exact) -> bool:
    """Whether the store refuses a guard that does not hold."""
    try:
        store.commit(SCRATCH, guards=(stale,), writes=())
    except GuardFailed:
        return True
    return False


def _timed(clock: Clock, call: Callable[[], object]) -> float:
    began_s = clock.monotonic_s()
    call()
    return clock.monotonic_s() - began_s


def look_at_servers(case: Case) -> Iterator[Remark]:
    """What the servers say of themselves, and of this user's rights. Raises StoreError."""
    examination = examination_of(case)
    if examination is None:
        raise NotMade(f"store {case.store.guarantees.name} says nothing of itself")
    scope = None
    with suppress(NotMade):
        scope = case.scope
    yield from examination.examine(scope)


def look_at_clocks(case: Case) -> Iterator[Remark]:
    """The wall clocks of the store and of the members beside this host's. Raises StoreError."""
    asked = False
    examination = examination_of(case)
    if examination is not None and (ahead := _ahead_of_store(case, examination)) is not None:
        asked = True
        yield rules.about_clock("the store", ahead[0], within_s=ahead[1])
    with suppress(NotMade):
        for one in take_snapshot(case.store, case.scope).members:
            found = ahead_of(case.clock, lambda: time_at(one.http)) if one.http else None  # noqa: B023 - called at once
            if found is not None:
                asked = True
                yield rules.about_clock(f"member {one.member} on {one.host}", found[0], within_s=found[1])
    if not asked:
        raise NotMade("neither the store nor a member shows a clock of its own")


def _ahead_of_store(case: Case, examination: Examination) -> tuple[float, float] | None:
    if not examination.has_scratch:
        return ahead_of(case.clock, lambda: examination.server_time(SCRATCH))
    session = case.store.open_session(ttl=case.settings.ttl, purpose="tenure doctor")
    with closing(session):
        key = Key(f"clock/{new_uid()}")
        put = Put(key, b"tenure doctor", replaces=None, session=session.id)

        def time() -> datetime | None:
            case.store.commit(SCRATCH, guards=(), writes=(put,))
            return examination.server_time(SCRATCH)

        found = ahead_of(case.clock, time)
    examination.forget(SCRATCH)
    return found


def look_at_members(case: Case) -> Iterator[Remark]:
    """Who lives in the scope. Raises StoreError, Corrupt."""
    snapshot = take_snapshot(case.store, case.scope)
    yield from rules.about_members(snapshot.members, leader=snapshot.leader)
    if case.found_driver is not None:
        yield from rules.about_file(snapshot.members, file=case.driver.file)
    silent = [one for one in snapshot.members if one.http and time_at(one.http) is None]
    for one in silent:
        yield Remark(
            Grade.NOTE,
            f"member {one.member} does not answer at {one.http}",
            "its probes cannot be asked from this host",
            "that is right where only the orchestrator reaches them",
        )


def examination_of(case: Case) -> Examination | None:
    """None: the store has none."""
    return case.store.examination() if isinstance(case.store, Examinable) else None
