"""Pure: the picture of a scope -> a verdict: how bad it is, why, and what to type.

Promise: each rule of `RULES` is one line of the answer and of the page for operators. The picture is of the store
alone, so a verdict says nothing that only a member knows, such as a batch that hangs. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tenure.coordination.candidates import State
from tenure.operate import symptoms
from tenure.operate.picture import ScopePicture


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


def verdict(picture: ScopePicture, *, flags: str = "") -> Verdict:
    """The findings of all rules that apply. `flags`: of a member of this store, with its storage, without passwords;
    empty: the reader knows them."""
    names = {
        "run": " ".join(filter(None, (f"tenure run PIPELINE.py --scope {picture.snapshot.scope}", flags))),
        "log": _log_of(picture),
    }
    found = [
        VerdictLine(rule.name, rule.level, *said, do=rule.do.format_map(names))
        for rule in RULES
        if (said := rule.find(picture)) is not None
    ]
    order = [Level.BAD, Level.WARN, Level.OK]
    return Verdict(tuple(sorted(found, key=lambda one: order.index(one.level))))


def _log_of(picture: ScopePicture) -> str:
    """Where the output of Spark is of the first member whose driver is not up. No record has the flag."""
    waits = next((one for one in picture.snapshot.members if not one.ready), None)
    member, host = ("MEMBER", "its host") if waits is None else (waits.member, waits.host or "its host")
    return f"the file of --spark-log, by default tenure-{member}.spark.log in the temporary folder of {host}"


RULES: Final = (
    VerdictRule(
        "given-up",
        Level.BAD,
        "nobody leads: the scope is paused, because a batch failed at its last attempt",
        "mend the cause (for bad input files: tenure batch quarantine); then: tenure resume",
        symptoms.given_up,
    ),
    VerdictRule(
        "no-members",
        Level.BAD,
        "nobody leads, and no member lives",
        "mend the cause; then start a member: {run}",
        symptoms.no_members,
    ),
    VerdictRule(
        "away",
        Level.BAD,
        "nobody leads: a source, a sink or the storage does not answer",
        "bring it back: members try again by themselves, and go on. To try at once: tenure failover",
        symptoms.away,
    ),
    VerdictRule(
        "fails",
        Level.BAD,
        "nobody leads: a batch fails, and is tried again",
        "mend the cause; for bad input files: tenure batch quarantine",
        symptoms.fails,
    ),
    VerdictRule(
        "no-driver",
        Level.BAD,
        "nobody leads: no member's driver is up",
        "read {log}; tenure history has how earlier drivers ended",
        symptoms.no_driver,
    ),
    VerdictRule(
        "nofailover",
        Level.BAD,
        "nobody leads: every live member has `nofailover`",
        "start a member without --nofailover: {run}",
        symptoms.nobody_may,
    ),
    VerdictRule(
        "silent",
        Level.BAD,
        "a member leads, and its driver gives no sign of life",
        "wait: it is killed after driver_silence, and a standby takes over. At once: tenure failover",
        symptoms.is_silent,
    ),
    VerdictRule(
        "paused", Level.WARN, "nobody leads: an operator has paused the scope", "tenure resume", symptoms.paused
    ),
    VerdictRule(
        "electing",
        Level.WARN,
        "nobody leads for a moment",
        "look again in some seconds: tenure status",
        symptoms.electing,
    ),
    VerdictRule(
        "never-led",
        Level.WARN,
        "no member ever led the scope",
        "start a member: {run}; or check --scope: tenure scopes",
        symptoms.never_led,
    ),
    VerdictRule(
        "fails-by-turns",
        Level.WARN,
        "a member leads after failures, and its query has made no progress yet",
        "wait for the next batch; if it fails again, mend the cause",
        symptoms.fails_by_turns,
    ),
    VerdictRule(
        "unstable",
        Level.WARN,
        "the leadership changes again and again",
        "tenure history; raise --ttl if sessions end, mend the drivers if they die",
        symptoms.unstable,
    ),
    VerdictRule(
        "paused-while-led",
        Level.WARN,
        "a member leads, and the scope is paused",
        "after the maintenance: tenure resume",
        symptoms.paused_while_led,
    ),
    VerdictRule(
        "alone", Level.WARN, "a member leads, and no standby lives", "start another member: {run}", symptoms.alone
    ),
    VerdictRule(
        "returning",
        Level.WARN,
        "a member leads, and the standby has lost its driver and comes back with another driver",
        "wait a minute; if it does not come back: {run}",
        symptoms.returning,
    ),
    VerdictRule(
        "silent-standby",
        Level.WARN,
        "the driver of a standby gives no sign of life",
        "look at that host: memory, disk, a debugger; then: tenure restart MEMBER",
        symptoms.standby_is_silent,
    ),
    VerdictRule(
        "no-ready-standby",
        Level.WARN,
        "a member leads, and no standby could take over",
        "wait until it has started; if that lasts, read {log}",
        symptoms.no_standby_is_ready,
    ),
    VerdictRule(
        "standby-fails",
        Level.WARN,
        "the rehearsals of a standby fail",
        "mend the cause on that host; then: tenure restart MEMBER",
        symptoms.standby_fails,
    ),
    VerdictRule(
        "mirror-behind",
        Level.WARN,
        "the mirrors of a standby are far behind: a takeover would copy for long",
        "look at the storage; what that member says of it: tenure events",
        symptoms.mirror_is_behind,
    ),
    VerdictRule(
        "other-file",
        Level.WARN,
        "a member's pipeline file is not that of the leader",
        "roll the change out: tenure restart MEMBER",
        symptoms.other_file,
    ),
    VerdictRule(
        "unread",
        Level.WARN,
        "a record does not decode",
        "tenure restart MEMBER, or run the version of Tenure that wrote it",
        symptoms.unread,
    ),
    VerdictRule("ended", Level.OK, "the pipeline has ended for good", "", symptoms.ended),
    VerdictRule("at-rest", Level.OK, "no member runs, and none has to", "", symptoms.at_rest),
    VerdictRule("leads", Level.OK, "a member leads", "", symptoms.leads),
)
"""All rules: within a level in the order of their weight."""


@dataclass(frozen=True, slots=True)
class MembersWord:
    """What a member says. `state` empty: it does not answer. `leader`: whom it has heard of; empty: nobody."""

    member: str
    state: str
    leader: str


def without_store(answers: Sequence[MembersWord], *, why: str) -> list[tuple[str, str]]:
    """The verdict where the store does not answer this host, as `lines_of` has it. A member whose store is away, too,
    does not know who leads."""
    knows = [one for one in answers if one.state not in ("", State.AWAY)]
    waits = [one.member for one in answers if one.state == State.AWAY]
    silent = [one.member for one in answers if not one.state]
    leaders = sorted({one.member if one.state == State.LEADING else one.leader for one in knows} - {""})
    if knows:
        do = "look again in some seconds. If they still say so, look at the way from this host to the store"
    else:
        do = "bring the same store back: members go on by themselves. A new store would begin anew"
    if leaders:
        sentence = f"the store does not answer this host. Who leads, as the members say: {', '.join(leaders)}"
    elif knows:
        names = ", ".join(one.member for one in knows)
        sentence = f"the store does not answer this host. No leader is known to {names}"
    elif waits:
        sentence = f"the store does not answer, also not to its members. Waiting for it: {', '.join(waits)}"
    else:
        sentence = "neither the store nor a member answers this host"
    if silent and len(silent) < len(answers):
        sentence += f". No answer from {', '.join(silent)}"
    return [(Level.BAD.value, sentence), ("why", why), ("do", do)]


def lines_of(found: Verdict) -> Iterator[tuple[str, str]]:
    """The verdict for people: a word, and its text."""
    for finding in found.findings:
        yield finding.level.value, finding.sentence
        if finding.cause:
            yield "why", finding.cause
        if finding.do:
            yield "do", finding.do
