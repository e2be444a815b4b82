"""Pure: the picture of a scope -> a verdict: how bad it is, why, and what to type.

Promise: each rule of `RULES` is one line of the answer and of the page for operators. The picture is of the store
alone, so a verdict says nothing that only a member knows, such as a batch that hangs. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Final

from tenure.coordination.candidates import State
from tenure.coordination.past_members import EXITED, PastMember, is_shown
from tenure.coordination.terms import End
from tenure.durations import lasting, seconds_since
from tenure.operate.history import TermStatus
from tenure.operate.picture import ScopePicture

UNSTABLE_WITHIN: Final = timedelta(minutes=20)
UNSTABLE_TERMS: Final = 4
"""So many terms that began within that time, and that no operator asked for, are too many."""

_NAMED: Final = 4
"""How many members that are gone a sentence names."""

_BY_OPERATORS: Final = ("switchover", "failover", "restart", "quarantine", "resigned")
_AT_REST: Final = ("finished", "resigned", "cleaned up", "nothing to do")
"""Ends after which it is right that nobody leads and no member lives. A member that a signal stopped is none of them: a
pipeline whose members were all evicted stands still."""


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    """The output is right and goes on; a takeover would be slow or fail."""
    BAD = "bad"
    """The output does not go on."""


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """What one rule says."""

    rule: str
    level: Level
    sentence: str
    cause: str = ""
    do: str = ""
    """What to type; empty: nothing."""

    @property
    def line(self) -> str:
        """Sentence, cause and command in one line."""
        return "; ".join(filter(None, (self.sentence, self.cause, self.do)))


@dataclass(frozen=True, slots=True)
class VerdictRule:
    """`when`: the symptom, for the page. `find`: the sentence and the cause; None: the rule does not apply."""

    name: str
    level: Level
    when: str
    do: str
    find: Callable[[ScopePicture], tuple[str, str] | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The findings, the worst first. There is at least one."""

    findings: tuple[VerdictLine, ...]

    @property
    def level(self) -> Level:
        """The worst level."""
        return self.findings[0].level


def verdict(picture: ScopePicture) -> Verdict:
    """The findings of all rules that apply."""
    found = [
        VerdictLine(rule.name, rule.level, *said, do=rule.do.format(scope=picture.snapshot.scope))
        for rule in RULES
        if (said := rule.find(picture)) is not None
    ]
    order = [Level.BAD, Level.WARN, Level.OK]
    return Verdict(tuple(sorted(found, key=lambda one: order.index(one.level))))


# --- nobody leads -------------------------------------------------------------------------------------------


def _never_led(picture: ScopePicture) -> tuple[str, str] | None:
    if picture.last is not None or picture.result is not None:
        return None
    return "no member ever led this scope", ""


def _ended(picture: ScopePicture) -> tuple[str, str] | None:
    if picture.result is None or picture.led:
        return None
    return f"the pipeline has {picture.result.ending.value} for good, and is {picture.result.stage.value}", ""


def _given_up(picture: ScopePicture) -> tuple[str, str] | None:
    pause = picture.snapshot.pause
    if picture.led or pause is None or not pause.why:
        return None
    return f"nobody leads{_for(picture)}: {pause.by or 'a member'} paused the scope after the last attempt", pause.why


def _paused(picture: ScopePicture) -> tuple[str, str] | None:
    pause = picture.snapshot.pause
    if picture.led or pause is None or pause.why:
        return None
    return f"nobody leads{_for(picture)}: {pause.by or 'an operator'} has paused the scope", pause.reason


def _is_empty(picture: ScopePicture) -> bool:
    """Whether nobody leads, and the reason is neither a pause nor the end of the pipeline."""
    return not picture.led and picture.last is not None and picture.snapshot.pause is None and picture.result is None


def _at_rest(picture: ScopePicture) -> tuple[str, str] | None:
    last = picture.last
    if not _is_empty(picture) or picture.snapshot.members or last is None or last.why not in _AT_REST:
        return None
    return "no member runs: the last one ended as it was asked to", ""


def _no_members(picture: ScopePicture) -> tuple[str, str] | None:
    last = picture.last
    if not _is_empty(picture) or picture.snapshot.members or last is None or last.why in _AT_REST:
        return None
    shown = [f"{row.member} ({row.shown(now=picture.now)})" for row in picture.gone[:_NAMED]]
    more = f" and {len(picture.gone) - _NAMED} more" if len(picture.gone) > _NAMED else ""
    return f"nobody leads{_for(picture)}, and no member lives. Last seen: {', '.join(shown)}{more}", _why_none(picture)


def _why_none(picture: ScopePicture) -> str:
    """Why no member lives: the newest error of a run that is later than the last term, or how that term ended."""
    last = picture.last
    failed = max((row for row in picture.gone if row.how == EXITED), key=lambda row: row.until, default=None)
    if failed is not None and (last is None or failed.until >= last.until):
        return _error_of(failed)
    return "" if last is None else _end_of(last)


def _gone(row: PastMember, picture: ScopePicture) -> str:
    return f"{row.member} is gone ({row.shown(now=picture.now)})" + (f": {row.line}" if row.line else "")


def _error_of(row: PastMember) -> str:
    return f"{row.member} ended with exit code {row.exit_code}: {row.line}"


def _away(picture: ScopePicture) -> tuple[str, str] | None:
    failing = picture.snapshot.failing
    if not _is_empty(picture) or failing is None or not failing.last.is_away or not picture.snapshot.members:
        return None
    return (
        f"nobody leads{_for(picture)}: {failing.last.kind}, {failing.tries} times since {failing.since}",
        failing.last.why,
    )


def _fails(picture: ScopePicture) -> tuple[str, str] | None:
    failing = picture.snapshot.failing
    if not _is_empty(picture) or failing is None or failing.last.is_away or not picture.snapshot.members:
        return None
    what = f"batch {failing.last.batch} of {failing.last.query}" if failing.last.query else "the pipeline's function"
    return f"nobody leads{_for(picture)}: {what} fails, and is tried again (attempt {failing.count})", failing.last.why


def _no_driver(picture: ScopePicture) -> tuple[str, str] | None:
    members = picture.snapshot.members
    if not _is_empty(picture) or not members or picture.snapshot.failing is not None:
        return None
    if any(one.ready for one in members) or all(one.nofailover for one in members):
        return None
    last, states = picture.last, ", ".join(f"{one.member} is {one.state.value}" for one in members)
    return f"nobody leads{_for(picture)}, and no member could: {states}", "" if last is None else _end_of(last)


def _nobody_may(picture: ScopePicture) -> tuple[str, str] | None:
    members = picture.snapshot.members
    if not _is_empty(picture) or picture.snapshot.failing is not None:
        return None
    if not members or not all(one.nofailover for one in members):
        return None
    return f"nobody leads{_for(picture)}: every live member has nofailover", ""


def _electing(picture: ScopePicture) -> tuple[str, str] | None:
    if not _is_empty(picture) or picture.snapshot.failing is not None:
        return None
    if not any(one.ready for one in picture.snapshot.members):
        return None
    return f"nobody leads{_for(picture)}: an election is under way", ""


# --- somebody leads -----------------------------------------------------------------------------------------


def _fails_by_turns(picture: ScopePicture) -> tuple[str, str] | None:
    failing = picture.snapshot.failing
    if not picture.led or failing is None:
        return None
    return f"the last leaders failed {failing.tries} times since {failing.since}", failing.last.why


def _unstable(picture: ScopePicture) -> tuple[str, str] | None:
    within = UNSTABLE_WITHIN.total_seconds()
    ends = [
        before
        for before, term in pairwise(picture.history.terms)
        if (age := seconds_since(term.since, now=picture.now)) is not None
        and age <= within
        and before.why not in _BY_OPERATORS
    ]
    if len(ends) < UNSTABLE_TERMS:
        return None
    return f"the leadership changed {len(ends)} times in {within / 60:g} minutes", _end_of(ends[-1])


def _paused_while_led(picture: ScopePicture) -> tuple[str, str] | None:
    pause = picture.snapshot.pause
    if not picture.led or pause is None:
        return None
    return f"the scope is paused by {pause.by or 'an operator'}: nobody would take over", pause.reason or pause.why


def _alone(picture: ScopePicture) -> tuple[str, str] | None:
    leader = next((one for one in picture.snapshot.members if one.member == picture.snapshot.leader), None)
    if not picture.led or picture.standbys or (leader is not None and leader.in_process):
        return None
    lately = next((row for row in picture.snapshot.gone if is_shown(row, now=picture.now)), None)
    cause = "" if lately is None else _gone(lately, picture)
    return "no standby lives: a takeover would wait for a member to start", cause


def _no_standby_is_ready(picture: ScopePicture) -> tuple[str, str] | None:
    if not picture.led or not picture.standbys or any(one.ready for one in picture.standbys):
        return None
    states = ", ".join(f"{one.member} is {one.state.value}" for one in picture.standbys)
    return f"no standby could take over: {states}", ""


def _standby_fails(picture: ScopePicture) -> tuple[str, str] | None:
    failing = [one for one in picture.standbys if one.state is State.FAILING]
    if not failing:
        return None
    return f"rehearsals fail on {', '.join(one.member for one in failing)}", failing[0].trouble


def _other_file(picture: ScopePicture) -> tuple[str, str] | None:
    leader = next((one for one in picture.snapshot.members if one.member == picture.snapshot.leader), None)
    if leader is None or not leader.file:
        return None
    others = [one.member for one in picture.standbys if one.file not in ("", leader.file)]
    return (f"the pipeline file of {', '.join(others)} is not that of the leader", "") if others else None


def _unread(picture: ScopePicture) -> tuple[str, str] | None:
    unread = picture.snapshot.unread
    return (f"{len(unread)} records do not decode, and are skipped", unread[0].why) if unread else None


def _leads(picture: ScopePicture) -> tuple[str, str] | None:
    last = picture.last
    if not picture.led or last is None:
        return None
    age = seconds_since(last.since, now=picture.now)
    how_long = "" if age is None else f", for {lasting(age)}"
    return f"{picture.snapshot.leader} leads, epoch {last.epoch}{how_long}", ""


def _for(picture: ScopePicture) -> str:
    """For how long nobody has led."""
    age = seconds_since(picture.history.empty_since, now=picture.now)
    return "" if age is None else f" for {lasting(age)}"


def _end_of(term: TermStatus) -> str:
    line = End(term.why, term.detail, term.by, term.reason).line
    return f"{term.holder}'s term {term.epoch} ended: {line}" if term.why else ""


RULES: Final = (
    VerdictRule(
        "given-up",
        Level.BAD,
        "nobody leads: the scope is paused, because a batch failed at its last attempt",
        "mend the cause; then: tenure resume",
        _given_up,
    ),
    VerdictRule(
        "no-members",
        Level.BAD,
        "nobody leads, and no member lives",
        "mend the cause; then start a member: tenure run",
        _no_members,
    ),
    VerdictRule(
        "away",
        Level.BAD,
        "nobody leads: a source, a sink or the storage does not answer",
        "mend it: members go on by themselves. To try at once: tenure failover",
        _away,
    ),
    VerdictRule(
        "fails",
        Level.BAD,
        "nobody leads: a batch fails, and is tried again",
        "mend the cause; for bad input files: tenure batch quarantine",
        _fails,
    ),
    VerdictRule(
        "no-driver",
        Level.BAD,
        "nobody leads: no member's driver is up",
        "read the file of --spark-log on a member's host; tenure history has how earlier drivers ended",
        _no_driver,
    ),
    VerdictRule(
        "nofailover",
        Level.BAD,
        "nobody leads: every live member has `nofailover`",
        "start a member without --nofailover",
        _nobody_may,
    ),
    VerdictRule("paused", Level.WARN, "nobody leads: an operator has paused the scope", "tenure resume", _paused),
    VerdictRule(
        "electing",
        Level.WARN,
        "nobody leads for a moment",
        "look again in some seconds: tenure status",
        _electing,
    ),
    VerdictRule(
        "never-led",
        Level.WARN,
        "no member ever led the scope",
        "start a member: tenure run; or check --scope: tenure scopes",
        _never_led,
    ),
    VerdictRule(
        "fails-by-turns",
        Level.WARN,
        "a member leads after failures, and its query has made no progress yet",
        "wait for the next batch; if it fails again, mend the cause",
        _fails_by_turns,
    ),
    VerdictRule(
        "unstable",
        Level.WARN,
        "the leadership changes again and again",
        "tenure history; raise --ttl if sessions end, mend the drivers if they die",
        _unstable,
    ),
    VerdictRule(
        "paused-while-led",
        Level.WARN,
        "a member leads, and the scope is paused",
        "after the maintenance: tenure resume",
        _paused_while_led,
    ),
    VerdictRule(
        "alone", Level.WARN, "a member leads, and no standby lives", "start another member: tenure run", _alone
    ),
    VerdictRule(
        "no-ready-standby",
        Level.WARN,
        "a member leads, and no standby could take over",
        "wait until it has started; if that lasts, read the file of its --spark-log",
        _no_standby_is_ready,
    ),
    VerdictRule(
        "standby-fails",
        Level.WARN,
        "the rehearsals of a standby fail",
        "mend the cause on that host; then: tenure restart MEMBER",
        _standby_fails,
    ),
    VerdictRule(
        "other-file",
        Level.WARN,
        "a member's pipeline file is not that of the leader",
        "roll the change out: tenure restart MEMBER",
        _other_file,
    ),
    VerdictRule(
        "unread",
        Level.WARN,
        "a record does not decode",
        "tenure restart MEMBER, or run the version of Tenure that wrote it",
        _unread,
    ),
    VerdictRule("ended", Level.OK, "the pipeline has ended for good", "", _ended),
    VerdictRule("at-rest", Level.OK, "no member runs, and none has to", "", _at_rest),
    VerdictRule("leads", Level.OK, "a member leads", "", _leads),
)
"""All rules: within a level in the order of their weight."""


def lines_of(found: Verdict) -> Iterator[tuple[str, str]]:
    """The verdict for people: a word, and its text."""
    for finding in found.findings:
        yield finding.level.value, finding.sentence
        if finding.cause:
            yield "why", finding.cause
        if finding.do:
            yield "do", finding.do
