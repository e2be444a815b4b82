"""Pure: the symptoms of a scope, by its picture: the sentence and the cause of each, or None. No I/O, no clock."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Final

from rich import filesize

from tenure.coordination.candidates import SILENT, State
from tenure.coordination.failing import FAILED, SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY, Failing
from tenure.coordination.past_members import EXITED, RETURNS, PastMember, is_shown
from tenure.coordination.terms import End
from tenure.durations import clock_time, lasting, seconds_since
from tenure.operate.history import TermStatus
from tenure.operate.picture import ScopePicture

UNSTABLE_WITHIN: Final = timedelta(minutes=20)
UNSTABLE_TERMS: Final = 4
"""So many terms that began within that time, and that no operator asked for, are too many."""

_NAMED: Final = 4
"""How many members that are gone a sentence names."""

_RETURNS_S: Final = 120.0
"""A member that does not come back with another driver within this time is gone."""

_BY_OPERATORS: Final = ("switchover", "failover", "restart", "quarantine", "resigned")
_AWAY: Final = (SINK_AWAY, SOURCE_AWAY, STORAGE_AWAY)
"""Ends over what did not answer: other rules name the cause, and a longer ttl does not help."""
_AT_REST: Final = ("finished", "resigned", "cleaned up", "nothing to do")
"""Ends after which it is right that nobody leads and no member lives. A member that a signal stopped is none of them: a
pipeline whose members were all evicted stands still."""

BEHIND_BATCHES: Final = 100
"""A takeover would copy for long, as the alarm `TenureMirrorBehind` has it."""


# --- nobody leads -------------------------------------------------------------------------------------------


def never_led(picture: ScopePicture) -> tuple[str, str] | None:
    """No member ever led the scope."""
    if picture.last is not None or picture.result is not None:
        return None
    return "no member ever led this scope", ""


def ended(picture: ScopePicture) -> tuple[str, str] | None:
    """The pipeline has ended for good."""
    if picture.result is None or picture.led:
        return None
    return f"the pipeline has {picture.result.ending.value} for good, and is {picture.result.stage.value}", ""


def given_up(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: the scope is paused, because a batch failed at its last attempt."""
    pause = picture.snapshot.pause
    if picture.led or pause is None or not pause.why:
        return None
    who = f"member {pause.by}" if pause.by else "a member"
    return f"nobody leads{_for(picture)}: {who} paused it after the last attempt", pause.why


def paused(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: an operator has paused the scope."""
    pause = picture.snapshot.pause
    if picture.led or pause is None or pause.why:
        return None
    return f"nobody leads{_for(picture)}: {pause.by or 'an operator'} has paused the scope", pause.reason


def _is_empty(picture: ScopePicture) -> bool:
    """Whether nobody leads, and the reason is neither a pause nor the end of the pipeline."""
    return not picture.led and picture.last is not None and picture.snapshot.pause is None and picture.result is None


def at_rest(picture: ScopePicture) -> tuple[str, str] | None:
    """No member runs, and none has to."""
    last = picture.last
    if not _is_empty(picture) or picture.snapshot.members or last is None or last.why not in _AT_REST:
        return None
    return "no member runs: the last one ended as it was asked to", ""


def no_members(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads, and no member lives."""
    last = picture.last
    if not _is_empty(picture) or picture.snapshot.members or last is None or last.why in _AT_REST:
        return None
    shown = [f"{row.member} ({row.shown(now=picture.now, zone='')})" for row in picture.gone[:_NAMED]]
    more = f" and {len(picture.gone) - _NAMED} more" if len(picture.gone) > _NAMED else ""
    seen = f"Last seen (UTC): {', '.join(shown)}{more}"
    return f"nobody leads{_for(picture)}, and no member lives. {seen}", _why_none(picture)


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


def away(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: a source, a sink or the storage does not answer."""
    failing = picture.snapshot.failing
    if not _is_empty(picture) or failing is None or not failing.last.is_away or not picture.snapshot.members:
        return None
    return (
        f"nobody leads{_for(picture)}: {failing.last.kind}, {_times(picture, failing)}",
        failing.last.why,
    )


def fails(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: a batch fails, and is tried again."""
    failing = picture.snapshot.failing
    if not _is_empty(picture) or failing is None or failing.last.is_away or not picture.snapshot.members:
        return None
    what = f"batch {failing.last.batch} of {failing.last.query}" if failing.last.query else "the pipeline's function"
    return f"nobody leads{_for(picture)}: {what} fails, and is tried again (attempt {failing.count})", failing.last.why


def _times(picture: ScopePicture, failing: Failing) -> str:
    """`once at 06:53:53 UTC`, `7 times since 06:53:53 UTC`."""
    since = f"{clock_time(failing.since, now=picture.now)} UTC"
    return f"once at {since}" if failing.tries == 1 else f"{failing.tries} times since {since}"


def no_driver(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: no member's driver is up."""
    members = picture.snapshot.members
    if not _is_empty(picture) or not members or picture.snapshot.failing is not None:
        return None
    if any(one.ready for one in members) or all(one.nofailover for one in members):
        return None
    last, states = picture.last, ", ".join(f"{one.member} is {one.state.value}" for one in members)
    return f"nobody leads{_for(picture)}, and no member could: {states}", "" if last is None else _end_of(last)


def nobody_may(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads: every live member has `nofailover`."""
    members = picture.snapshot.members
    if not _is_empty(picture) or picture.snapshot.failing is not None:
        return None
    if not members or not all(one.nofailover for one in members):
        return None
    return f"nobody leads{_for(picture)}: every live member has nofailover", ""


def electing(picture: ScopePicture) -> tuple[str, str] | None:
    """Nobody leads for a moment."""
    if not _is_empty(picture) or picture.snapshot.failing is not None:
        return None
    if not any(one.ready for one in picture.snapshot.members):
        return None
    return f"nobody leads{_for(picture)}: an election is under way", ""


# --- somebody leads -----------------------------------------------------------------------------------------


def fails_by_turns(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads after failures, and its query has made no progress yet."""
    failing = picture.snapshot.failing
    if not picture.led or failing is None:
        return None
    return f"the last leaders failed {_times(picture, failing)}", failing.last.why


def unstable(picture: ScopePicture) -> tuple[str, str] | None:
    """The leadership changes again and again."""
    within = UNSTABLE_WITHIN.total_seconds()
    # A failure that is noted has rules of its own. A member that ends with its error, and is started again, notes none.
    told = (*_BY_OPERATORS, *_AWAY, *(() if picture.snapshot.failing is None else (FAILED,)))
    ends = [
        before
        for before, term in pairwise(picture.history.terms)
        if (age := seconds_since(term.since, now=picture.now)) is not None and age <= within and before.why not in told
    ]
    if len(ends) < UNSTABLE_TERMS:
        return None
    return f"the leadership changed {len(ends)} times in {within / 60:g} minutes", _end_of(ends[-1])


def paused_while_led(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads, and the scope is paused."""
    pause = picture.snapshot.pause
    if not picture.led or pause is None:
        return None
    return f"the scope is paused by {pause.by or 'an operator'}: nobody would take over", pause.reason or pause.why


def is_silent(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads, and its driver gives no sign of life."""
    if not any(one.member == picture.snapshot.leader and one.trouble == SILENT for one in picture.snapshot.members):
        return None
    return f"{picture.snapshot.leader} leads, and {SILENT}", ""


def standby_is_silent(picture: ScopePicture) -> tuple[str, str] | None:
    """The driver of a standby gives no sign of life."""
    silent = [one.member for one in picture.standbys if one.trouble == SILENT]
    return (f"{', '.join(silent)} stands by, and {SILENT}", "") if silent else None


def returning(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads, and the standby has lost its driver and comes back with another driver."""
    lately = next((row for row in picture.snapshot.gone if row.how == RETURNS), None)
    age_s = None if lately is None else seconds_since(lately.until, now=picture.now)
    if lately is None or age_s is None or age_s > _RETURNS_S or not picture.led or picture.standbys:
        return None
    return f"no standby lives for the moment: {lately.member} comes back with another driver", lately.line


def alone(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads, and no standby lives."""
    leader = next((one for one in picture.snapshot.members if one.member == picture.snapshot.leader), None)
    if not picture.led or picture.standbys or (leader is not None and leader.in_process) or returning(picture):
        return None
    lately = next((row for row in picture.snapshot.gone if is_shown(row, now=picture.now)), None)
    cause = "" if lately is None else _gone(lately, picture)
    return "no standby lives: a takeover would wait for a member to start", cause


def no_standby_is_ready(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads, and no standby could take over."""
    if not picture.led or not picture.standbys or any(one.ready for one in picture.standbys):
        return None
    states = ", ".join(f"{one.member} is {one.state.value}" for one in picture.standbys)
    return f"no standby could take over: {states}", ""


def standby_fails(picture: ScopePicture) -> tuple[str, str] | None:
    """The rehearsals of a standby fail."""
    failing = [one for one in picture.standbys if one.state is State.FAILING]
    if not failing:
        return None
    return f"rehearsals fail on {', '.join(one.member for one in failing)}", failing[0].trouble


def mirror_is_behind(picture: ScopePicture) -> tuple[str, str] | None:
    """The mirrors of a standby are far behind: a takeover would copy for long."""
    behind = [one for one in picture.standbys if one.lag is not None and one.lag.batches > BEHIND_BATCHES]
    if not behind or behind[0].lag is None:
        return None
    lag = behind[0].lag
    return f"the mirrors of {behind[0].member} are {lag.batches} batches and {filesize.decimal(lag.bytes)} behind", ""


def other_file(picture: ScopePicture) -> tuple[str, str] | None:
    """A member's pipeline file is not that of the leader."""
    leader = next((one for one in picture.snapshot.members if one.member == picture.snapshot.leader), None)
    if leader is None or not leader.file:
        return None
    others = [one.member for one in picture.standbys if one.file not in ("", leader.file)]
    return (f"the pipeline file of {', '.join(others)} is not that of the leader", "") if others else None


def unread(picture: ScopePicture) -> tuple[str, str] | None:
    """A record does not decode."""
    unread = picture.snapshot.unread
    return (f"{len(unread)} records do not decode, and are skipped", unread[0].why) if unread else None


def leads(picture: ScopePicture) -> tuple[str, str] | None:
    """A member leads."""
    last = picture.last
    if not picture.led or last is None:
        return None
    age = seconds_since(last.since, now=picture.now)
    how_long = "" if age is None else f", for {lasting(age)}"
    return f"{picture.snapshot.leader} leads, epoch {last.epoch}{how_long}", ""


def _for(picture: ScopePicture) -> str:
    """For how long nobody has led. Attempts at a batch that fails, or at what does not answer, do not count."""
    age = seconds_since(picture.led_until, now=picture.now)
    return "" if age is None else f" for {lasting(age)}"


def _end_of(term: TermStatus) -> str:
    line = End(term.why, term.detail, term.by, term.reason).line
    return f"{term.holder}'s term {term.epoch} ended: {line}" if term.why else ""
