"""The terms of a scope and the times without a leader: what was told, what was seen, and what nobody knows."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, encode_checkpoint
from tenure.checkpoints.store import CHECKPOINTS, planned_last
from tenure.cli.history import json_of, rows_of
from tenure.clock import SystemClock
from tenure.coordination.candidates import AskedBy
from tenure.coordination.election import Election
from tenure.coordination.election_rules import Grant, Office, encode_office
from tenure.coordination.records import Put, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import EPOCH, LEADER, Term
from tenure.coordination.terms import End, Opening, TermRecord
from tenure.handles.store import HandleStore
from tenure.operate.history import TermHistory, TermStatus, history
from tenure.operate.orders import Orders
from tenure.storage.blobs import FileBlobs
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.waiting import NEVER_S

SCOPE, TTL = Scope("rows"), timedelta(seconds=30)
ANNA, BEN = TermRecord(1, "anna", "2030-01-01T10:00:00+00:00"), TermRecord(2, "ben", "2030-01-01T10:10:00+00:00")
OFFICE = Office(2, "ben", BEN.since, past=(Grant(1, "anna", ANNA.since),))
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def of(*terms: TermRecord, office: Office = OFFICE, led: bool = True) -> TermHistory:
    """The history of a scope with these records."""
    store = MemoryStore(MemoryServer())
    session = store.open_session(ttl=TTL) if led else None
    writes = [term.put(uid="u", replaces=None) for term in terms]
    writes.append(Put(EPOCH, encode_office(office, uid="u"), replaces=None))
    if session is not None:
        value = f'{{"v":1,"member":"{office.holder}","epoch":{office.epoch}}}'.encode()
        writes.append(Put(LEADER, value, replaces=None, session=session.id))
    store.commit(SCOPE, guards=(), writes=writes)
    return history(store, SCOPE)


def gaps(known: TermHistory) -> list[tuple[float, float]]:
    return [(term.gap_at_least_s, term.gap_s) for term in known.terms]


def test_an_end_that_was_told_counts_as_it_was_told() -> None:
    known = of(ANNA.ended(End("failed", "no such column"), at="2030-01-01T10:08:00+00:00"), BEN)
    assert gaps(known) == [(0, 0), (120, 120)]
    anna, ben = known.terms
    assert (anna.why, anna.detail, anna.until) == ("failed", "no such column", "2030-01-01T10:08:00+00:00")
    assert (ben.why, ben.until, known.empty_since) == ("", "", "")
    assert [row["why"] for row in rows_of(known, now=NOON)] == ["failed: no such column", "nobody led for 2 min", None]


def test_an_end_that_the_next_leader_saw_counts_from_when_it_saw_it() -> None:
    seen = replace(
        ANNA, led_at="2030-01-01T10:09:10+00:00", found_empty_at="2030-01-01T10:09:11+00:00", last_write=BEN.since
    )
    known = of(seen, BEN)
    assert gaps(known)[1] == (49, 49)
    assert (known.terms[0].why, known.terms[0].until) == ("session ended", "2030-01-01T10:09:11+00:00")


def test_a_night_without_any_member_is_no_night_of_leadership() -> None:
    night = replace(ANNA, found_empty_at=BEN.since, last_write="2030-01-01T10:02:00+00:00")
    known = of(night, BEN)
    assert gaps(known)[1] == (0, 480), "nobody knows when it ended, only its last write and when it was found"
    ended, gap, _ = rows_of(known, now=NOON)
    assert (ended["to"], gap["why"]) == ("2030-01-01T10:02:00+00:00", "nobody led for 0 s to 8 min")
    assert ended["why"] == "session ended; nobody saw it end, its last known sign counts"


def test_a_contender_whose_store_was_away_did_not_see_the_end() -> None:
    blind = replace(ANNA, led_at="2030-01-01T10:08:00+00:00", found_empty_at="2030-01-01T10:09:11+00:00")
    known = of(blind, BEN)
    assert gaps(known)[1] == (49, 120), "between the look before the outage and the first look after it"
    assert known.terms[0].until == "2030-01-01T10:08:00+00:00"
    wrote = of(replace(blind, last_write="2030-01-01T10:08:30+00:00"), BEN)
    assert gaps(wrote)[1] == (49, 90), "the last batch is a later sign"


def test_without_any_sign_a_term_counts_until_its_begin() -> None:
    assert gaps(of(replace(ANNA, found_empty_at=BEN.since), BEN))[1] == (0, 600)
    assert gaps(of(BEN))[1] == (0, 600), "the record of the first term is missing"


def test_nobody_leads_now_and_the_last_sign_is_the_newest_batch() -> None:
    resigned = of(ANNA, BEN.ended(End("stopped"), at="2030-01-01T11:00:00+00:00"), led=False)
    assert resigned.empty_since == "2030-01-01T11:00:00+00:00"
    assert rows_of(resigned, now=NOON)[-1]["why"] == "nobody has led for 1 h"
    without_record = of(ANNA, office=replace(OFFICE, until="2030-01-01T11:30:00+00:00", why="stopped"), led=False)
    assert (without_record.terms[-1].why, without_record.empty_since[11:16]) == ("stopped", "11:30")
    killed = of(ANNA, BEN, led=False)
    assert (killed.terms[-1].why, killed.empty_since) == ("session ended", BEN.since)


def test_clocks_of_two_hosts_make_no_gap_below_zero() -> None:
    assert gaps(of(ANNA.ended(End("stopped"), at="2030-01-01T10:11:00+00:00"), BEN))[1] == (0, 0)


def test_who_asked_and_what_the_holder_said_later_stand_in_the_line() -> None:
    asked = End("switchover", "", "root@here", "maintenance of host 7")
    known = of(ANNA.ended(asked, at=BEN.since), BEN)
    assert rows_of(known, now=NOON)[0]["why"] == "switchover: to ben (by root@here, maintenance of host 7)"
    late = of(replace(ANNA, led_at=BEN.since, found_empty_at=BEN.since).noted("the store\n did not answer"), BEN)
    assert rows_of(late, now=NOON)[0]["why"] == "session ended; anna said later: the store did not answer"


def test_json_has_null_for_what_is_not_known() -> None:
    opening = Opening(started_at="2030-01-01T10:10:01+00:00", files=3)
    ben = json_of(of(ANNA, BEN.opened({"counts": opening})).terms[1])
    assert (ben["epoch"], ben["holder"], ben["to"], ben["why"], ben["host"]) == (2, "ben", None, None, None)
    assert ben["openings"] == {
        "counts": {"seed_s": 0.0, "files": 3, "mirrored": False, "started_at": "2030-01-01T10:10:01+00:00"}
    }
    assert {one.name for one in TermStatus.__dataclass_fields__.values()} - ben.keys() == {
        "since", "until", "until_at_most",
    }  # fmt: skip


class Site:
    """One store, members of it, and one wall clock."""

    def __init__(self) -> None:
        self.store = MemoryStore(MemoryServer())
        self.clock = ManualClock()
        self.elections: dict[str, Election] = {}

    def keeper(self) -> SessionKeeper:
        return SessionKeeper(self.store, ttl=TTL, clock=SystemClock())

    def election(self, name: str, keeper: SessionKeeper) -> Election:
        if name not in self.elections:
            self.elections[name] = Election(self.store, SCOPE, member=name, clock=self.clock)
            self.elections[name].join(keeper, host=f"host-of-{name}", pid=7)
        return self.elections[name]

    def lead(self, name: str, keeper: SessionKeeper) -> Term:
        election = self.election(name, keeper)
        term = election.campaign(keeper, stop=threading.Event(), last_write=planned_last)
        assert term is not None
        return term

    def plan(self, term: Term, batch: int) -> None:
        area = HandleStore(self.store, SCOPE, area=CHECKPOINTS.child("q"), blobs=FileBlobs("/none"), clock=self.clock)
        at = self.clock.now().isoformat(timespec="milliseconds")
        checkpoint = Checkpoint("q", "id", batch, "", "runs/q/1", term.epoch, at)
        area.add(term, checkpoint_name(batch), encode_checkpoint(checkpoint))

    def after(self, seconds: float) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @property
    def known(self) -> TermHistory:
        return history(self.store, SCOPE)


def test_the_grant_records_who_holds_the_term_and_where() -> None:
    site = Site()
    with site.keeper() as anna:
        site.lead("anna", anna)
        (term,) = site.known.terms
        assert (term.holder, term.host, bool(term.version)) == ("anna", "host-of-anna", True)


def test_a_standby_that_watched_records_the_moment_at_which_it_found_the_office_empty() -> None:
    site = Site()
    stopped, looked = threading.Event(), threading.Event()
    with site.keeper() as ben:
        with site.keeper() as anna:
            site.plan(site.lead("anna", anna), 0)
            site.after(5)
            standby = site.election("ben", ben)
            watch = threading.Thread(
                target=lambda: standby.campaign(ben, stop=stopped, on_look=lambda _: looked.set()), daemon=True
            )
            watch.start()
            assert looked.wait(NEVER_S)
            site.after(2)
        watch.join(NEVER_S)
    first, second = site.known.terms
    assert first.why == "session ended"
    assert first.until == first.until_at_most == second.since
    assert second.gap_s == 0


def test_a_member_that_comes_into_an_empty_office_knows_the_last_batch_only() -> None:
    site = Site()
    with site.keeper() as anna:
        term = site.lead("anna", anna)
        site.after(60)
        site.plan(term, 0)
    site.after(3600)
    with site.keeper() as ben:
        site.lead("ben", ben)
        first, second = site.known.terms
    assert (second.gap_at_least_s, second.gap_s) == (0, 3600)
    assert first.until_at_most == second.since


def test_what_was_seen_of_one_term_is_not_told_of_another() -> None:
    site = Site()
    with site.keeper() as ben:
        standby = site.election("ben", ben)
        with site.keeper() as anna:
            term = site.lead("anna", anna)
            stopped = threading.Event()
            standby.campaign(ben, stop=stopped, on_look=lambda _: stopped.set())
            site.elections["anna"].resign(term)
        site.after(60)
        with site.keeper() as carl:
            site.lead("carl", carl)
        site.after(60)
        site.lead("ben", ben)
        _, second, third = site.known.terms
    assert (second.until, third.gap_at_least_s, third.gap_s) == (second.since, 0, 60)


def test_a_failover_and_a_pause_say_who_asked_and_why() -> None:
    site = Site()
    orders = Orders(site.store, SCOPE, clock=site.clock, asked=AskedBy("root@here", "host 7 burns"))
    with site.keeper() as anna, site.keeper() as ben:
        term = site.lead("anna", anna)
        site.election("ben", ben)
        site.elections["anna"].own_terms.note_openings(term, {"q": Opening(files=1)})
        orders.failover(to="ben")
        site.lead("ben", ben)
        first, _ = site.known.terms
        assert (first.why, first.detail, first.by, first.reason) == ("failover", "to ben", "root@here", "host 7 burns")
        assert first.openings["q"].files == 1


def test_a_resignation_beside_the_openings_loses_neither() -> None:
    site = Site()
    with site.keeper() as anna:
        term = site.lead("anna", anna)
        other = Election(site.store, SCOPE, member="anna", clock=site.clock)
        site.elections["anna"].own_terms.note_openings(term, {"q": Opening(files=1)})
        other.resign(term, End("stopped"))
        (known,) = site.known.terms
        assert (known.why, known.openings["q"].files) == ("stopped", 1)


def test_openings_that_came_beside_the_resignation_are_kept() -> None:
    site = Site()
    with site.keeper() as anna:
        term = site.lead("anna", anna)
        election = site.elections["anna"]
        own = election.own_terms
        before = own._known
        own.note_openings(term, {"q": Opening(files=1)})
        own._known = before
        election.resign(term, End("stopped"))
        (known,) = site.known.terms
        assert (known.why, known.openings["q"].files) == ("stopped", 1)


@pytest.mark.parametrize("told", [True, False])
def test_a_holder_that_comes_back_adds_what_it_knows_unless_somebody_told_the_end(told: bool) -> None:
    site = Site()
    with site.keeper() as anna:
        term = site.lead("anna", anna)
        if told:
            site.elections["anna"].resign(term, End("stopped"))
    with site.keeper() as ben:
        site.lead("ben", ben)
        site.elections["anna"].own_terms.note_end(1, "the store did not answer")
        site.elections["anna"].own_terms.note_end(2, "this is not a term of mine")
        site.elections["anna"].own_terms.note_end(9, "there is no such term")
        assert [term.note for term in site.known.terms] == ["" if told else "the store did not answer", ""]
