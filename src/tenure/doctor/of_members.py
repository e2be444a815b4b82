"""Looks at what the members of the scope say over HTTP: who asks for their figures, and what the last sweep left.

Promise: only addresses are asked that members announced, each for two seconds. Nothing is asked of the storage: a walk
through it is the affair of `tenure sweep plan`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

from tenure.coordination.candidates import Candidate
from tenure.coordination.examination import Remark
from tenure.doctor import rules
from tenure.doctor.case import Case, NotMade
from tenure.durations import seconds_since
from tenure.operate.snapshot import take_snapshot
from tenure.ui.asking import Answer, Asking


def look_at_scrapes(case: Case) -> Iterator[Remark]:
    """Whether each member was asked for `/metrics` lately. Raises StoreError, Corrupt."""
    told = [(member, answer.status) for member, answer in _answers(case) if "scraped_s" in answer.status]
    if not told:
        raise NotMade("no member answers here under an address of --http")
    for member, status in told:
        up_s = seconds_since(member.since, now=case.clock.now())
        yield rules.about_scrape(member.member, status["scraped_s"], up_s=up_s or 0.0)


def look_at_orphans(case: Case) -> Iterator[Remark]:
    """What the newest sweep of a leader left. Raises StoreError, Corrupt."""
    answers = [answer for _, answer in _answers(case) if "scraped_s" in answer.status]
    if not answers:
        raise NotMade("no record has it, and no member answers here; tenure sweep plan looks at the storage itself")
    swept = [event for answer in answers for event in answer.events if event.get("event") == "Swept"]
    newest = max(swept, key=lambda event: str(event["at"]), default=None)
    yield rules.about_orphans(newest)


def _answers(case: Case) -> Sequence[tuple[Candidate, Answer]]:
    members = {one.member: one for one in take_snapshot(case.store, case.scope).members if one.http}
    with closing(Asking()) as asking:
        return [(members[one.member], one) for one in asking.ask(tuple(members.values())) if one.member in members]
