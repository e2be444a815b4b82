"""The verdict: every picture has one, and each rule says its sentence, its cause and what to type."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product

import pytest

from tenure.coordination.candidates import SILENT, Candidate, Lag, Pause, State, Unread
from tenure.coordination.failing import FAILED, SINK_AWAY, FailedAttempts, Failing, Failure
from tenure.coordination.past_members import EXITED, MISSED, RETURNS, PastMember
from tenure.coordination.terms import Opening
from tenure.operate.history import TermHistory, TermStatus
from tenure.operate.picture import ScopePicture
from tenure.operate.snapshot import Snapshot
from tenure.operate.verdict import RULES, Level, MembersWord, lines_of, verdict, without_store
from tenure.results.result import Ending, Result, Stage

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
SINCE, ENDED = "2030-01-01T11:00:00.000+00:00", "2030-01-01T11:58:00.000+00:00"
ANNA = Candidate("anna", "here", 7, SINCE, State.LEADING, file="f1")
BEN = Candidate("ben", "there", 8, SINCE, State.WARM, file="f1")
HELD = TermStatus(1, "anna", SINCE, "", "", "", "")
OVER = replace(HELD, until=ENDED, until_at_most=ENDED, why="failed", detail="no such column 'x'")
GONE = PastMember("anna", "here", 7, SINCE).ended(
    EXITED, at="2030-01-01T11:59:00.000+00:00", exit_code=8, line="no such column 'x'; see the log"
)
MISSED_BEN = PastMember(
    "ben", "there", 8, SINCE, "2030-01-01T11:58:10.000+00:00", "2030-01-01T11:58:11.000+00:00", MISSED
)
RETURNING = PastMember("ben", "there", 8, SINCE).ended(
    RETURNS, at="2030-01-01T11:59:50.000+00:00", line="signal SIGKILL"
)
AWAY = Failing(Failure(SINK_AWAY, "sink of 'raw': refused", "raw", 9), "anna", SINCE, ENDED, 7, 60.0)
FAILS = Failing(
    Failure(FAILED, "bad record 'x'", "raw", 9), "anna", SINCE, ENDED, 2, 30.0, {"raw": FailedAttempts(9, {"e": 2})}
)
CLEAN = Result(Ending.FINISHED, Stage.CLEAN, 1, "anna", ENDED)
SNAPSHOT = Snapshot("rows", "sqlite", "anna", 1, paused=False, switchover=None, members=(ANNA, BEN), queries=())
LED = ScopePicture(SNAPSHOT, TermHistory((HELD,)), None, NOW)
EMPTY = ScopePicture(replace(SNAPSHOT, leader=None, members=(BEN,)), TermHistory((OVER,), empty_since=ENDED), None, NOW)


def with_(picture: ScopePicture, **fields: object) -> ScopePicture:
    """The picture with other fields of its snapshot."""
    return replace(picture, snapshot=replace(picture.snapshot, **fields))  # type: ignore[arg-type] # its own fields


def ended_by(*whys: str) -> ScopePicture:
    """A picture of a leader whose predecessors ended within the last minutes."""
    terms = [replace(OVER, epoch=number, why=why, since=ENDED) for number, why in enumerate(whys)]
    return replace(LED, history=TermHistory((*terms, replace(HELD, since=ENDED))))


CASES = {
    "leads": (LED, Level.OK, "anna leads, epoch 1, for 1 h", ""),
    "never-led": (
        replace(with_(EMPTY, members=()), history=TermHistory(())), Level.WARN, "no member ever led this scope", "",
    ),
    "ended": (
        replace(with_(EMPTY, members=()), result=CLEAN), Level.OK,
        "the pipeline has finished for good, and is clean", "",
    ),
    "at-rest": (
        replace(with_(EMPTY, members=()), history=TermHistory((replace(OVER, why="finished"),))), Level.OK,
        "no member runs: the last one ended as it was asked to", "",
    ),
    "no-members": (
        with_(EMPTY, members=(), gone=(GONE, MISSED_BEN)), Level.BAD,
        "nobody leads for 2 min, and no member lives. Last seen (UTC): anna (here:7, exit code 8 at 11:59:00), "
        "ben (there:8, not seen since 11:58:10, gone by 11:58:11)",
        "anna ended with exit code 8: no such column 'x'; see the log",
    ),
    "given-up": (
        with_(EMPTY, pause=Pause(ENDED, "batch 9 of raw fails: bad record", "ben")), Level.BAD,
        "nobody leads for 2 min: member ben paused it after the last attempt", "batch 9 of raw fails: bad record",
    ),
    "paused": (
        with_(EMPTY, pause=Pause(ENDED, "", "root@here", "new disk")), Level.WARN,
        "nobody leads for 2 min: root@here has paused the scope", "new disk",
    ),
    "away": (
        with_(EMPTY, failing=AWAY), Level.BAD, "nobody leads for 2 min: sink away, 7 times since 11:00:00 UTC",
        "sink of 'raw': refused",
    ),
    "fails": (
        with_(EMPTY, failing=FAILS), Level.BAD,
        "nobody leads for 2 min: batch 9 of raw fails, and is tried again (attempt 0)", "bad record 'x'",
    ),
    "no-driver": (
        with_(EMPTY, members=(replace(BEN, state=State.STARTING),)), Level.BAD,
        "nobody leads for 2 min, and no member could: ben is starting",
        "anna's term 1 ended: failed: no such column 'x'",
    ),
    "nofailover": (
        with_(EMPTY, members=(replace(BEN, nofailover=True),)), Level.BAD,
        "nobody leads for 2 min: every live member has nofailover", "",
    ),
    "electing": (EMPTY, Level.WARN, "nobody leads for 2 min: an election is under way", ""),
    "fails-by-turns": (
        with_(LED, failing=AWAY), Level.WARN, "the last leaders failed 7 times since 11:00:00 UTC",
        "sink of 'raw': refused",
    ),
    "unstable": (
        ended_by("session ended", "driver died", "sink away", "storage away", "failed", "session ended", "switchover"),
        Level.WARN,
        "the leadership changed 4 times in 20 minutes", "anna's term 5 ended: session ended: no such column 'x'",
    ),
    "paused-while-led": (
        with_(LED, pause=Pause(ENDED, "", "root@here", "new disk")), Level.WARN,
        "the scope is paused by root@here: nobody would take over", "new disk",
    ),
    "alone": (
        with_(LED, members=(ANNA,), gone=(MISSED_BEN,)), Level.WARN,
        "no standby lives: a takeover would wait for a member to start",
        "ben is gone (there:8, not seen since 11:58:10, gone by 11:58:11 UTC)",
    ),
    "silent": (
        with_(LED, members=(replace(ANNA, trouble=SILENT), BEN)), Level.BAD,
        "anna leads, and its driver gives no sign of life", "",
    ),
    "silent-standby": (
        with_(LED, members=(ANNA, replace(BEN, trouble=SILENT))), Level.WARN,
        "ben stands by, and its driver gives no sign of life", "",
    ),
    "returning": (
        with_(LED, members=(ANNA,), gone=(RETURNING,)), Level.WARN,
        "no standby lives for the moment: ben comes back with another driver", "signal SIGKILL",
    ),
    "mirror-behind": (
        with_(LED, members=(ANNA, replace(BEN, lag=Lag(120, 5_000_000)))), Level.WARN,
        "the mirrors of ben are 120 batches and 5.0 MB behind", "",
    ),
    "no-ready-standby": (
        with_(LED, members=(ANNA, replace(BEN, state=State.STARTING))), Level.WARN,
        "no standby could take over: ben is starting", "",
    ),
    "standby-fails": (
        with_(LED, members=(ANNA, replace(BEN, state=State.FAILING, trouble="no driver for the table"))), Level.WARN,
        "rehearsals fail on ben", "no driver for the table",
    ),
    "other-file": (
        with_(LED, members=(ANNA, replace(BEN, file="f2"))), Level.WARN,
        "the pipeline file of ben is not that of the leader", "",
    ),
    "unread": (
        with_(LED, unread=(Unread("members/zoe", "record 'members/zoe' does not decode"),)), Level.WARN,
        "1 records do not decode, and are skipped", "record 'members/zoe' does not decode",
    ),
}  # fmt: skip
"""VerdictRule -> a picture to which it applies, its level, its sentence and its cause."""


@pytest.mark.parametrize("rule", CASES)
def test_each_rule_says_its_sentence(rule: str) -> None:
    picture, level, sentence, cause = CASES[rule]
    found = verdict(picture)
    (finding,) = [one for one in found.findings if one.rule == rule]
    assert (finding.level, finding.sentence, finding.cause) == (level, sentence, cause)
    assert found.level is level
    assert bool(finding.do) == (level is not Level.OK), "what is wrong has a command"


def test_each_rule_has_its_case() -> None:
    assert {rule.name for rule in RULES} == CASES.keys()


def test_every_picture_has_a_verdict_and_nobody_who_does_not_lead_is_fine() -> None:
    states = [(), (replace(BEN, state=State.STARTING),), (BEN,), (replace(BEN, nofailover=True),)]
    states += [(replace(BEN, state=State.STARTING), replace(ANNA, state=State.READY, nofailover=True))]
    pauses = (None, Pause(ENDED), Pause(ENDED, "batch 9 fails", "ben"))
    histories = (TermHistory(()), EMPTY.history, CASES["at-rest"][0].history)
    for leader, members, pause, failing, result, history in product(
        (None, "anna"), states, pauses, (None, AWAY, FAILS), (None, CLEAN), histories
    ):
        if leader is not None and not history.terms:
            continue
        snapshot = replace(SNAPSHOT, leader=leader, members=members, pause=pause, failing=failing)
        found = verdict(ScopePicture(snapshot, history, result, NOW))
        assert found.findings, (leader, members, pause, failing, result, history)
        at_rest = result is not None or (not members and history.terms and history.terms[-1].why == "finished")
        assert leader or pause or at_rest or found.level is not Level.OK
        assert list(lines_of(found))


def test_a_pipeline_whose_members_were_all_stopped_is_not_well() -> None:
    stopped = TermHistory((replace(OVER, why="stopped", detail=""),), empty_since=ENDED)
    found = verdict(replace(with_(EMPTY, members=()), history=stopped))
    assert (found.level, found.findings[0].rule) == (Level.BAD, "no-members")


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        (
            [MembersWord("anna", "leading", "anna"), MembersWord("ben", "away", "anna")],
            "the store does not answer this host. Who leads, as the members say: anna",
        ),
        (  # The leader has no address, or does not answer: its standby has heard of it.
            [MembersWord("anna", "", ""), MembersWord("ben", "warm", "anna")],
            "the store does not answer this host. Who leads, as the members say: anna. No answer from anna",
        ),
        (
            [MembersWord("ben", "starting", "")],
            "the store does not answer this host. No leader is known to ben",
        ),
        (  # What a member heard before its store went away is old.
            [MembersWord("anna", "away", "anna"), MembersWord("ben", "away", "anna")],
            "the store does not answer, also not to its members. Waiting for it: anna, ben",
        ),
        ([MembersWord("anna", "", "")], "neither the store nor a member answers this host"),
    ],
)
def test_the_members_answer_where_the_store_does_not(answers: list[MembersWord], sentence: str) -> None:
    (level, said), (_, why), (_, do) = without_store(answers, why="no route to host")
    assert (level, said, why) == ("bad", sentence, "no route to host")
    assert ("from this host" in do) == any(one.state not in ("", "away") for one in answers)


def test_members_that_fail_and_are_started_again_are_told() -> None:
    """They end with their error, and so note no failure that is tried again."""
    unstable = "the leadership changed 4 times in 20 minutes"
    crashes = ended_by("failed", "failed", "failed", "failed")
    assert unstable in [one.sentence for one in verdict(crashes).findings]
    tried_again = replace(crashes, snapshot=replace(crashes.snapshot, failing=AWAY))
    assert unstable not in [one.sentence for one in verdict(tried_again).findings]


def test_the_worst_comes_first() -> None:
    levels = [one.level for one in verdict(with_(LED, members=(ANNA,), failing=AWAY)).findings]
    assert levels == [Level.WARN, Level.WARN, Level.OK]


def test_a_last_leader_that_nobody_noted_lived_until_its_last_known_sign() -> None:
    lost = replace(OVER, host="here", until="2030-01-01T11:30:00.000+00:00", until_at_most="", why="session ended")
    picture = replace(with_(EMPTY, members=()), history=TermHistory((lost,), empty_since=lost.until))
    (finding,) = verdict(picture).findings
    assert finding.sentence.endswith("Last seen (UTC): anna (here, not seen since 11:30:00, nobody saw it go)")
    joined = PastMember("anna", "here", 7, SINCE)
    (finding,) = verdict(with_(picture, gone=(joined,))).findings
    assert finding.sentence.endswith("Last seen (UTC): anna (here:7, not seen since 11:30:00, nobody saw it go)")


def test_the_end_of_a_term_that_is_newer_than_an_error_is_the_cause() -> None:
    late = replace(OVER, until="2030-01-01T11:59:30.000+00:00", why="driver died", detail="signal SIGKILL")
    picture = replace(with_(EMPTY, members=(), gone=(GONE,)), history=TermHistory((late,), empty_since=late.until))
    assert verdict(picture).findings[0].cause == "anna's term 1 ended: driver died: signal SIGKILL"


def test_a_member_that_does_not_come_back_is_gone() -> None:
    late = replace(RETURNING, until="2030-01-01T11:50:00.000+00:00")
    (alone, _) = verdict(with_(LED, members=(ANNA,), gone=(late,))).findings
    assert alone.rule == "alone"
    assert alone.cause == "ben is gone (there:8, left at 11:50:00 UTC to come back with another driver): signal SIGKILL"


def test_one_failure_is_no_row_of_failures() -> None:
    once = replace(AWAY, tries=1)
    assert verdict(with_(EMPTY, failing=once)).findings[0].sentence.endswith("sink away, once at 11:00:00 UTC")


def test_attempts_do_not_count_as_leadership() -> None:
    """The failures began at 11:00 with the end of anna's term; each later term was an attempt."""
    began = replace(OVER, since="2030-01-01T10:00:00.000+00:00", until="2030-01-01T11:00:01.000+00:00")
    attempt = replace(OVER, epoch=2, since="2030-01-01T11:57:00.000+00:00")
    picture = replace(with_(EMPTY, failing=AWAY), history=TermHistory((began, attempt), empty_since=ENDED))
    assert verdict(picture).findings[0].sentence.startswith("nobody leads for 59 min")
    forgotten = replace(picture, history=TermHistory((attempt,), empty_since=ENDED))
    assert verdict(forgotten).findings[0].sentence.startswith("nobody leads for 1 h")
    finished = {"raw": Opening(committed_at="2030-01-01T11:57:30.000+00:00")}
    led = replace(picture, history=TermHistory((began, replace(attempt, openings=finished)), empty_since=ENDED))
    assert verdict(led).findings[0].sentence.startswith("nobody leads for 2 min")


def test_the_command_that_starts_a_member_is_whole() -> None:
    gone = with_(EMPTY, members=(), gone=(GONE,))
    (finding,) = verdict(gone, flags="--store sqlite:///srv/ha.db --storage URL").findings
    assert finding.do.endswith("tenure run PIPELINE.py --scope rows --store sqlite:///srv/ha.db --storage URL")
    assert verdict(gone).findings[0].do.endswith("tenure run PIPELINE.py --scope rows")


def test_the_log_of_a_driver_that_is_not_up_is_named() -> None:
    (finding,) = verdict(with_(EMPTY, members=(replace(BEN, state=State.STARTING),))).findings
    assert "by default tenure-ben.spark.log in the temporary folder of there" in finding.do
