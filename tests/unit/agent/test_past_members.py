"""What members note of members that come and go, on a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from tenure.agent.condition import SILENT_S
from tenure.agent.past_members import PastMembers
from tenure.clock import timestamp
from tenure.coordination.candidates import MEMBERS, SILENT, Candidate, Identity
from tenure.coordination.encoding import new_uid
from tenure.coordination.past_members import EXITED, FINISHED, MISSED, RETURNS, STOPPED, PastMember, past_in
from tenure.coordination.records import Delete, Put
from tenure.coordination.term import LEADER, Term
from tenure.errors import DriverDied, OwnerMismatch, QueryFailed, StoreUnavailable, TenureError
from tenure.link.driver import Ended
from tenure.operate.snapshot import take_snapshot
from tenure.scope_context import ScopeContext
from tests.kit.waiting import wait_until
from tests.unit.agent.scene import CLOCK, SCOPE, Scene, Scripted, fail, make_scene


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


def rows(scene: Scene) -> dict[str, PastMember]:
    return {row.member: row for row in past_in(scene.store.list(SCOPE, "").records)}


def run(scene: Scene, step: Callable[[Term], Ended]) -> None:
    scene.member(Scripted(step)).run(stop=threading.Event())


@pytest.mark.parametrize(("ended", "how"), [(Ended.STOPPED, STOPPED), (Ended.IDLE, FINISHED)])
def test_a_member_says_how_its_run_ended(scene: Scene, ended: Ended, how: str) -> None:
    run(scene, lambda term: ended)
    row = rows(scene)["anna"]
    assert (row.how, row.host, row.pid, row.exit_code) == (how, "here", 7, None)


def test_an_error_is_told_with_its_exit_code_and_its_line(scene: Scene) -> None:
    with pytest.raises(QueryFailed):
        run(scene, fail(QueryFailed("no luck", fix="see the log")))
    row = rows(scene)["anna"]
    assert (row.how, row.exit_code, row.line) == (EXITED, QueryFailed.exit_code, "no luck; see the log")


@pytest.mark.parametrize("error", [OwnerMismatch("another owner"), StoreUnavailable("the disk is full")])
def test_nothing_is_said_in_a_store_that_is_away_or_not_its_own(scene: Scene, error: TenureError) -> None:
    with pytest.raises(type(error)):
        scene.member(Scripted(fail(error)), hold=False).run(stop=threading.Event())
    assert all(not row.until for row in rows(scene).values())


def test_a_run_that_is_refused_leaves_no_scope_behind(scene: Scene) -> None:
    driver = Scripted()
    driver.prepare = lambda **given: fail(QueryFailed("no luck"))(None)  # type: ignore[method-assign,assignment,arg-type] # it raises
    with pytest.raises(QueryFailed):
        scene.member(driver).run(stop=threading.Event())
    assert scene.store.list(SCOPE, "").records == ()


def test_a_leader_misses_a_member_that_vanished(scene: Scene) -> None:
    ben = Candidate("ben", "there", 8, timestamp(CLOCK))
    key = MEMBERS.child("ben")

    def step(term: Term) -> Ended:
        scene.store.commit(SCOPE, guards=(), writes=(Put(key, ben.encode(uid=new_uid()), replaces=None),))
        wait_until(lambda: "ben" in rows(scene), what="the row of ben")
        record = scene.store.read(SCOPE, key)
        assert record is not None
        scene.store.commit(SCOPE, guards=(), writes=(Delete(key, record.version),))
        wait_until(lambda: rows(scene)["ben"].until, what="the end of ben")
        return Ended.IDLE

    run(scene, step)
    row = rows(scene)["ben"]
    assert (row.how, row.exit_code) == (MISSED, None)
    assert ben.since <= row.seen <= row.until


def test_a_leader_notes_nothing_once_its_term_is_taken_away(scene: Scene) -> None:
    def step(term: Term) -> Ended:
        wait_until(lambda: "anna" in rows(scene), what="the row of anna")
        listing = scene.store.list(SCOPE, "")
        leader = next(record for record in listing.records if record.key == LEADER)
        scene.store.commit(SCOPE, guards=(), writes=(Delete(LEADER, leader.version),))
        late = PastMembers(ScopeContext(scene.store, SCOPE, "memory://nothing", CLOCK), Identity("anna", "here", 7))
        late.look([record for record in listing.records if not record.key.is_under(MEMBERS)], term)
        assert not rows(scene)["anna"].until, "the write has the guards of the term"
        return Ended.LOST

    driver = Scripted(step, lambda term: Ended.STOPPED)
    scene.member(driver).run(stop=threading.Event())
    assert driver.epochs == [1, 2]


def test_a_member_says_that_it_comes_back_with_another_driver(scene: Scene) -> None:
    seen: list[PastMember] = []
    driver = Scripted(fail(DriverDied("signal SIGKILL")), lambda term: Ended.STOPPED)
    prepare = driver.prepare

    def prepared(**given: Any) -> bool:
        seen.extend(rows(scene).values())
        return prepare(**given)

    driver.prepare = prepared  # type: ignore[method-assign] # the same, with an ear
    scene.member(driver).run(stop=threading.Event())
    assert [(row.how, row.line) for row in seen] == [(RETURNS, "signal SIGKILL")]
    assert rows(scene)["anna"].how == STOPPED


def test_a_silent_driver_is_announced(scene: Scene) -> None:
    def trouble() -> str:
        (anna,) = take_snapshot(scene.store, SCOPE).members
        return anna.trouble

    def step(term: Term) -> Ended:
        driver.silent_s = SILENT_S + 1
        wait_until(lambda: trouble() == SILENT, what="the silence")
        driver.silent_s = 0.0
        wait_until(lambda: not trouble(), what="the end of the silence")
        return Ended.STOPPED

    driver = Scripted(step)
    scene.member(driver).run(stop=threading.Event())
