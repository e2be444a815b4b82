"""Each fault, and all that a person sees of it: the verdict word by word, the history, probes, figures, events, alarms.

The members are the product's, on SQLite; their drivers run no Spark (`commanded.py`). Where a fault is one of a
process or a host, the members are processes; else they are threads of this process. An alarm counts as firing where
its expression is true: `tests/docs/test_alarms.py` has the times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.stage import Sample, Stage, ThreadMember
from tests.kit.members import MemberProcess, pause_between_writes
from tests.kit.waiting import wait_until

LEADS: Final = {"/leader": 200, "/standby": 503, "/health": 200, "/readyz": 200}
STANDS_BY: Final = {"/leader": 503, "/standby": 200, "/health": 200, "/readyz": 200}
NOT_READY: Final = {**STANDS_BY, "/readyz": 503}
OUT: Final = {"/leader": 503, "/standby": 503, "/health": 503, "/readyz": 503}
AWAY: Final = {**OUT, "/health": 200}
HANGS: Final = {"/leader": 200, "/standby": 503, "/health": 503, "/readyz": 503}
GONE: Final = dict.fromkeys(OUT, 0)
NOBODY: Final = "nobody has led for SECONDS"


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with ExitStack() as stack:
        yield Stage(tmp_path, stack)


def sees(stage: Stage, *verdict: str) -> None:
    """Wait until `tenure status` begins with exactly this verdict."""
    with suppress(TimeoutError):
        wait_until(lambda: stage.verdict() == list(verdict))
    assert stage.verdict() == list(verdict)


def fires(stage: Stage, before: Sequence[Sample], *alarms: str) -> None:
    """Wait until exactly these alarms fire, as far as their expressions say."""
    with suppress(TimeoutError):
        wait_until(lambda: stage.alarms(before) == set(alarms))
    assert stage.alarms(before) == set(alarms)


def threads(stage: Stage, name: str) -> ThreadMember:
    found = stage.members[name]
    assert isinstance(found, ThreadMember)
    return found


def process(stage: Stage, name: str) -> MemberProcess:
    found = stage.members[name]
    assert isinstance(found, MemberProcess)
    return found


def told(stage: Stage, name: str, kind: str, *fields: str) -> list[tuple[Any, ...]]:
    """The fields of the events of a kind."""
    return [tuple(event[field] for field in fields) for event in stage.events(name, kind)]


# --- what does not answer, and what fails ----------------------------------------------------------------------------

OUTAGES: Final = {
    "sink": ("sink away", "sink of 'rows': connection to db:5432 refused", "SinkAway"),
    "source": ("source away", "query 'rows': a source does not answer: broker:9092 timed out", "SourceAway"),
    "storage": ("storage away", "query 'rows': cannot write offsets/7: Stale file handle", "StorageAway"),
    "full": ("storage away", "query 'rows': No space left on device", "StorageAway"),
}
"""The order of the drivers -> the word for the end of the term, the error, and the event."""

FIXES: Final = {"full": "; free space on that disk"}


@pytest.mark.parametrize("fault", OUTAGES)
def test_a_sink_a_source_or_a_storage_is_away(stage: Stage, fault: str) -> None:
    why, error, event = OUTAGES[fault]
    cause = error + FIXES.get(fault, "")
    stage.led()
    before = stage.samples()
    stage.order("anna", "ben", fails=fault)
    sees(
        stage,
        f"bad   nobody leads for SECONDS: {why}, once at TIME UTC",
        f"why   {cause}",
        "do    bring it back: members try again by themselves, and go on. To try at once: tenure failover",
    )
    assert f"{why} once since TIME, last by anna: {cause}" in stage.status()
    assert stage.check() == 21
    assert stage.history() == [f"{why}: {error}", NOBODY]
    wait_until(lambda: stage.probes("anna") == stage.probes("ben") == STANDS_BY, what="two standbys")
    assert stage.condition("ben")["failing"] == cause
    assert stage.figure("tenure_away_total", member="anna", what=why.removesuffix(" away")) == 1
    assert stage.figure("tenure_terms_ended_total", member="anna", why=why) == 1
    fires(stage, before, "TenureNobodyLeads", "TenureFailing")
    assert told(stage, "anna", "TermEnded", "why", "detail") == [(why, error)]
    assert told(stage, "anna", event, "why", "again_s") == [(cause, 3.0)]
    stage.order("anna", "ben")
    assert stage.verb("failover", "--force")[0] == 0, "a request ends the wait"
    sees(stage, "ok    ben leads, epoch N, for SECONDS")
    fires(stage, before)


def test_a_poison_record(stage: Stage) -> None:
    error = "query 'rows' failed: ValueError: bad record 'x'"
    stage.led(batch_attempts=2)
    before = stage.samples()
    stage.order("anna", "ben", fails="poison")
    sees(
        stage,
        "bad   nobody leads for SECONDS: batch N of rows fails, and is tried again (attempt 1)",
        f"why   {error}; see the log",
        "do    mend the cause; for bad input files: tenure batch quarantine",
    )
    assert f"failed once since TIME, attempt 1 at batch N, last by anna: {error}; see the log" in stage.status()
    assert stage.history() == [f"failed: {error}", NOBODY]
    fires(stage, before, "TenureNobodyLeads", "TenureFailing")
    assert told(stage, "anna", "AttemptFailed", "query", "attempt", "again_s") == [("rows", 1, 10.0)]
    stage.verb("failover", "--force", "--timeout", "1s")
    sees(
        stage,
        "bad   nobody leads for SECONDS: member ben paused it after the last attempt",
        f"why   batch N of rows fails: {error}; see the log",
        "do    mend the cause (for bad input files: tenure batch quarantine); then: tenure resume",
    )
    line = f"paused by ben, TIME: batch N of rows fails: {error}; see the log; mend the cause, then tenure resume"
    assert line in stage.status()
    assert stage.check() == 21
    assert stage.history() == [f"failed: {error}", f"failed: {error}", NOBODY]
    wait_until(lambda: stage.probes("anna") == stage.probes("ben") == STANDS_BY, what="two standbys")
    wait_until(lambda: stage.condition("anna")["paused"].endswith("(paused by ben)"), what="the pause at the probe")
    fires(stage, before, "TenureNobodyLeads", "TenureFailing", "TenurePaused")
    assert len(stage.events("ben", "ScopePaused")) == 1
    stage.order("anna", "ben")
    assert stage.verb("resume") == (0, "rows is not paused any more\n", "")
    wait_until(lambda: stage.verdict()[0].startswith("ok    "), what="a leader")
    fires(stage, before)


# --- a driver -----------------------------------------------------------------------------------------------------


def test_a_driver_is_killed(stage: Stage) -> None:
    stage.led()
    before = stage.samples()
    threads(stage, "anna").kill_driver()
    sees(
        stage,
        "warn  no standby lives for the moment: anna comes back with another driver",
        "why   the driver ended by itself: signal SIGKILL",
        "do    wait a minute; if it does not come back: tenure run PIPELINE.py --scope rows --store URL --storage URL",
        "ok    ben leads, epoch N, for SECONDS",
    )
    assert stage.history() == ["driver died: signal SIGKILL", ""]
    assert stage.members_table()["anna"]["state"] == "gone"
    assert (stage.probes("anna"), stage.probes("ben")) == (OUT, LEADS)
    assert stage.figure("tenure_driver_restarts_total", member="anna") == 1
    fires(stage, before, "TenureNoReadyStandby")  # which waits for 15 minutes
    assert told(stage, "anna", "TermEnded", "why", "detail") == [("driver died", "signal SIGKILL")]
    assert told(stage, "anna", "DriverEnded", "why") == [("the driver ended by itself: signal SIGKILL",)]
    sees(stage, "ok    ben leads, epoch N, for SECONDS")
    assert stage.members_table()["anna"]["state"] == "warm"
    fires(stage, before)


def test_a_driver_hangs(stage: Stage) -> None:
    stage.led(driver_silence="15s")  # a person looks more than once before it is killed
    before = stage.samples()
    stage.order("anna", silent=True)
    sees(
        stage,
        "bad   anna leads, and its driver gives no sign of life",
        "do    wait: it is killed after driver_silence, and a standby takes over. At once: tenure failover",
        "ok    anna leads, epoch N, for SECONDS",
    )
    assert "anna: its driver gives no sign of life" in stage.status()
    assert stage.check() == 21
    assert (stage.probes("anna"), stage.probes("ben")) == (HANGS, STANDS_BY)
    assert stage.condition("anna")["silent_s"] > 5
    assert (stage.figure("tenure_driver_silent_seconds", member="anna") or 0) > 5, "TenureDriverSilent: 10 s, for 15 s"
    assert len(stage.events("anna", "DriverSilent")) == 1
    sees(
        stage,
        "warn  no standby lives for the moment: anna comes back with another driver",
        "why   the driver has not answered for SECONDS; the driver was killed",
        "do    wait a minute; if it does not come back: tenure run PIPELINE.py --scope rows --store URL --storage URL",
        "ok    ben leads, epoch N, for SECONDS",
    )
    assert stage.history() == ["driver silent: the driver has not answered for SECONDS; the driver was killed", ""]
    fires(stage, before, "TenureNoReadyStandby")
    stage.order("anna")


# --- a host ---------------------------------------------------------------------------------------------------------


def test_a_leader_is_killed_and_then_its_standby(stage: Stage) -> None:
    stage.led(process=True)
    before = stage.samples()
    process(stage, "anna").kill()
    sees(
        stage,
        "warn  no standby lives: a takeover would wait for a member to start",
        "why   anna is gone (HOST:PID, not seen since TIME, gone by TIME UTC)",
        "do    start another member: tenure run PIPELINE.py --scope rows --store URL --storage URL",
        "ok    ben leads, epoch N, for SECONDS",
    )
    assert "anna is gone (HOST:PID, not seen since TIME, gone by TIME UTC)" in stage.status()
    assert stage.check() == 20
    assert stage.history() == ["session ended", ""]
    anna, ben = stage.members_table()["anna"], stage.members_table()["ben"]
    assert (anna["state"], anna["leads_since"]) == ("gone", "")
    assert ben["joined"] < ben["leads_since"]
    assert (stage.probes("anna"), stage.probes("ben")) == (GONE, LEADS)
    fires(stage, before, "TenureMemberDown", "TenureNoReadyStandby")
    process(stage, "ben").kill()
    sees(
        stage,
        "bad   nobody leads for SECONDS, and no member lives. Last seen (UTC): ben (HOST:PID, not seen since TIME, "
        "nobody saw it go), anna (HOST:PID, not seen since TIME, gone by TIME)",
        "why   ben's term N ended: session ended",
        "do    mend the cause; then start a member: tenure run PIPELINE.py --scope rows --store URL --storage URL",
    )
    assert stage.check() == 21
    lost, alone, nobody = stage.history()
    assert (lost, nobody) == ("session ended", NOBODY)
    assert alone == "session ended; nobody saw it end, its last known sign counts"
    fires(stage, before, "TenureMemberDown")  # each of them: nobody else tells of it


def test_a_host_is_paused_and_wakes_and_the_next_leader_is_stopped(stage: Stage) -> None:
    stage.led(process=True)
    before = stage.samples()
    pause_between_writes(process(stage, "anna"), store=stage.url)
    sees(
        stage,
        "warn  no standby lives: a takeover would wait for a member to start",
        "why   anna is gone (HOST:PID, not seen since TIME, gone by TIME UTC)",
        "do    start another member: tenure run PIPELINE.py --scope rows --store URL --storage URL",
        "ok    ben leads, epoch N, for SECONDS",
    )
    assert stage.history() == ["session ended", ""]
    assert stage.probes("ben") == LEADS
    process(stage, "anna").wake()
    sees(stage, "ok    ben leads, epoch N, for SECONDS")
    late = "session ended; anna said later: the deadline passed without a renewal"
    wait_until(lambda: stage.history() == [late, ""], what="the note of anna")
    assert stage.probes("anna") == STANDS_BY
    assert told(stage, "anna", "TermEnded", "why") == [("the deadline passed without a renewal",)]
    fires(stage, before)
    process(stage, "ben").terminate()
    sees(
        stage,
        "warn  no standby lives: a takeover would wait for a member to start",
        "why   ben is gone (HOST:PID, stopped by a signal at TIME UTC)",
        "do    start another member: tenure run PIPELINE.py --scope rows --store URL --storage URL",
        "ok    anna leads, epoch N, for SECONDS",
    )
    assert stage.history() == [late, "stopped", ""]


def test_all_members_end_with_an_error(stage: Stage) -> None:
    error = "query 'rows' failed: no column 'x'"
    stage.led()
    stage.order("anna", "ben", fails="first")
    wait_until(lambda: not any(member.running for member in stage.members.values()), what="the end of all members")
    sees(
        stage,
        "bad   nobody leads for SECONDS, and no member lives. Last seen (UTC): ben (HOST:PID, exit code 8 at TIME), "
        "anna (HOST:PID, exit code 8 at TIME)",
        f"why   ben ended with exit code 8: {error}; see the log",
        "do    mend the cause; then start a member: tenure run PIPELINE.py --scope rows --store URL --storage URL",
    )
    for member in ("anna", "ben"):
        assert f"{member} is gone (HOST:PID, exit code 8 at TIME UTC): {error}; see the log" in stage.status()
        assert told(stage, member, "RunEnded", "exit_code", "error") == [(8, f"{error}; see the log")]
        assert stage.probes(member) == GONE
    assert stage.check() == 21
    assert stage.history() == [f"failed: {error}", f"failed: {error}", NOBODY]
    fires(stage, [], "TenureMemberDown")


# --- the store --------------------------------------------------------------------------------------------------------


def test_the_store_is_away(stage: Stage) -> None:
    stage.led()
    before = stage.samples()
    away = stage.store.rename(stage.store.with_suffix(".away"))
    wait_until(lambda: stage.probes("anna") == stage.probes("ben") == AWAY, what="two members that are away")
    code, table, said = stage.verb("status")
    assert code == 4
    assert said.splitlines() == [
        "bad   the store does not answer, also not to its members. Waiting for it: anna, ben",
        f"why   store {stage.store} does not exist, but its directory does",
        "do    bring the same store back: members go on by themselves. A new store would begin anew",
        "",
        "rows, as its members know it",
        f"tenure: error: store {stage.store} does not exist, but its directory does; check the path, and that its "
        "volume is mounted; the first member of a new store makes the file",
    ]
    heads, *rows = [line.split("\t") for line in table.splitlines()]
    assert [dict(zip(heads, row, strict=True))["state"] for row in rows] == ["away", "away"]
    assert all(stage.condition("anna")[field] for field in ("away", "away_since"))
    assert stage.figure("tenure_store_away", member="ben") == 1
    fires(stage, before, "TenureStoreAway", "TenureNobodyLeads", "TenureNoReadyStandby")
    away.rename(stage.store)
    wait_until(lambda: stage.verb("status")[0] == 0 and stage.verdict()[0].startswith("ok    "), what="a leader")
    wait_until(lambda: "said later" in stage.history()[0], what="the note of anna")
    assert "anna said later: the deadline passed without a renewal: store STORE" in stage.history()[0]
    assert stage.events("anna", "StoreAway")
    assert len(stage.events("anna", "StoreBack")) == 1
    fires(stage, before)


# --- standbys -------------------------------------------------------------------------------------------------------


def test_a_standby_cannot_rehearse(stage: Stage) -> None:
    trouble = "query 'rows': no driver for the table"
    stage.order("ben", trouble=trouble)
    stage.start("anna")
    stage.start("ben")
    sees(
        stage,
        "warn  rehearsals fail on ben",
        f"why   {trouble}",
        "do    mend the cause on that host; then: tenure restart MEMBER",
        "ok    anna leads, epoch N, for SECONDS",
    )
    assert f"ben: {trouble}" in stage.status()
    assert stage.members_table()["ben"]["state"] == "failing"
    assert (stage.check(), stage.probes("ben")) == (20, NOT_READY)
    assert stage.figure("tenure_state", member="ben", state="failing") == 1
    fires(stage, [], "TenureNoReadyStandby")


def test_a_mirror_is_far_behind(stage: Stage) -> None:
    stage.led()
    stage.order("ben", lag={"batches": 120, "bytes": 5_000_000})
    sees(
        stage,
        "warn  the mirrors of ben are 120 batches and 5.0 MB behind",
        "do    look at the storage; what that member says of it: tenure events",
        "ok    anna leads, epoch N, for SECONDS",
    )
    assert stage.members_table()["ben"]["lag"] == "120 batches, 5.0 MB"
    assert stage.condition("ben")["lag"] == {"batches": 120, "bytes": 5_000_000}
    fires(stage, [], "TenureMirrorBehind")


# --- what operators do ------------------------------------------------------------------------------------------------


def test_a_switchover_and_a_rolling_restart_wake_nobody(stage: Stage) -> None:
    stage.led()
    before = stage.samples()
    code, out, said = stage.verb("switchover", "--reason", "new host")
    assert (code, out, said) == (0, "ben leads rows, epoch 2; before: anna\n", "")
    sees(stage, "ok    ben leads, epoch N, for SECONDS")
    assert stage.history()[0].startswith("switchover: to ben (by ")
    assert stage.history()[0].endswith(", new host)")
    assert (stage.probes("anna"), stage.probes("ben")) == (STANDS_BY, LEADS)
    assert told(stage, "anna", "TermEnded", "why", "detail") == [("switchover", "")]
    for name in ("anna", "ben"):
        assert stage.verb("restart", name) == (0, f"member {name} of rows was asked to replace its driver\n", "")
        wait_until(lambda name=name: len(stage.events(name, "DriverStarted")) == 2, what=f"another driver of {name}")  # type: ignore[misc] # bound
        wait_until(lambda: len(stage.verdict()) == 1, what="a leader and a standby")
    sees(stage, "ok    anna leads, epoch N, for SECONDS")
    assert [why.partition(" (")[0] for why in stage.history()] == ["switchover: to ben", "restart", ""]
    fires(stage, before)
    assert stage.figure("tenure_driver_restarts_total", member="ben") == 0, "the operator wanted it"
