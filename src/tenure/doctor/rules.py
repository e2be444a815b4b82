"""Pure: from a figure to a remark, which has a grade, a meaning and a fix. No I/O, no clock.

Promise: a limit stands here, with its reason, and nowhere else in the room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from tenure.coordination.candidates import Candidate
from tenure.coordination.examination import Grade, Remark
from tenure.storage.disk import FreeSpace

SHORT_TTL: Final = timedelta(seconds=2)
"""A collection of garbage, or a loaded machine, stops a process for longer now and then."""

USUAL_PATIENCE: Final = timedelta(seconds=20)
"""Orchestrators leave 30 s between SIGTERM and SIGKILL, and the agent needs some of them after the queries' end."""

MORE_GRACE: Final = timedelta(seconds=10)

TTL_OF_SLOWEST: Final = 5
"""A session is renewed each third of its ttl. With so many slowest requests in a ttl, one slow renewal ends no term."""

_FEW_OF_SLOWEST: Final = 2
"""With fewer, a session ends while its renewal is under way."""

SKEW_S: Final = 2.0
"""The clock of a server is read in whole seconds. Clocks that are synchronised differ by milliseconds."""

BESIDE_HEAP_BYTES: Final = 700 << 20
"""What a JVM has beside a heap that is full, and the two Python processes of a member (docs/sizing.md)."""

LITTLE_BYTES: Final = 1 << 30
FULL_BYTES: Final = 64 << 20
"""A JVM unpacks some 20 MiB at its start."""
LITTLE_FILES: Final = 20_000
SCRAPED_S: Final = 300.0
"""A Prometheus asks each minute at least; the alarms of deploy/monitoring look back for less."""

FULL_FILES: Final = 500
"""Each batch of a query has some dozen files."""


def about_times(*, ttl: timedelta, stop_patience: timedelta) -> list[Remark]:
    """The times among the settings."""
    remarks = []
    if ttl < SHORT_TTL:
        remarks.append(
            Remark(
                Grade.WARN,
                f"ttl {_s(ttl)}",
                "a pause of garbage collection, or a slow disk, ends the term",
                "give a ttl of 5s or more",
            )
        )
    if stop_patience > USUAL_PATIENCE:
        grace = _s(stop_patience + MORE_GRACE)
        remarks.append(
            Remark(
                Grade.NOTE,
                f"stop_patience {_s(stop_patience)}",
                f"the orchestrator must leave {grace} between SIGTERM and SIGKILL, and usually leaves 30 s",
                f"set terminationGracePeriodSeconds (Kubernetes) or TimeoutStopSec (systemd) to {grace}",
            )
        )
    return remarks or [Remark(Grade.OK, f"ttl {_s(ttl)}, stop_patience {_s(stop_patience)}")]


def about_latency(took_s: Sequence[float], *, ttl: timedelta, what: str) -> Remark:
    """Requests that took so long, one after the other. `what`: their name."""
    ordered = sorted(took_s)
    middle, slowest = ordered[len(ordered) // 2], ordered[-1]
    seen = f"{len(ordered)} {what}: median {_ms(middle)}, slowest {_ms(slowest)}, ttl {_s(ttl)}"
    if ttl.total_seconds() >= TTL_OF_SLOWEST * slowest:
        return Remark(Grade.OK, seen)
    enough = f"{int(TTL_OF_SLOWEST * slowest) + 1}s"
    if ttl.total_seconds() >= _FEW_OF_SLOWEST * slowest:
        return Remark(
            Grade.WARN, seen, "a slow renewal ends the term", f"make the store faster, or set ttl to {enough} or more"
        )
    return Remark(
        Grade.BAD,
        seen,
        "a session ends while it is renewed, so no member leads for long",
        f"make the store faster, or set ttl to {enough} or more",
    )


def about_space(where: str, free: FreeSpace) -> Remark:
    """The free space of a file system. `where`: what lies there, and its path."""
    seen = f"{where}: {_size(free.bytes)} of {_size(free.of_bytes)} free"
    if free.files is not None:
        seen += f", {free.files:,} of {free.of_files:,} files free"
    few = free.files is not None and free.of_files is not None
    if free.bytes < FULL_BYTES or (few and (free.files or 0) < FULL_FILES):
        return Remark(
            Grade.BAD, f"{seen}: it is full", "no batch can be written", "free space on that disk, or name another"
        )
    if free.bytes < LITTLE_BYTES or (few and (free.files or 0) < LITTLE_FILES):
        return Remark(Grade.WARN, seen, "it is soon full, and then no batch can be written", "free space on that disk")
    return Remark(Grade.OK, seen)


def about_memory(free: int, *, heap: int) -> Remark:
    """The free memory, in bytes, beside what one more driver needs."""
    needed = heap + BESIDE_HEAP_BYTES
    seen = f"{_size(free)} of memory free; a driver with a heap of {_size(heap)} needs about {_size(needed)}"
    if free >= needed:
        return Remark(Grade.OK, seen)
    return Remark(
        Grade.WARN,
        seen,
        "the kernel may end a driver that starts here; a standby needs as much as a leader",
        "free some memory, or give a smaller heap: --submit '--driver-memory SIZE'",
    )


def about_clock(whose: str, ahead_s: float, *, within_s: float) -> Remark:
    """The wall clock of another, which is `ahead_s` ahead of this host's, as far as that was seen to `within_s`."""
    if abs(ahead_s) <= SKEW_S + within_s:
        return Remark(Grade.OK, f"the clock of {whose} agrees with this host's to {SKEW_S + within_s:.0f} s")
    where = "behind" if ahead_s > 0 else "ahead of"
    return Remark(
        Grade.WARN,
        f"the clock of this host is {abs(ahead_s):.0f} s {where} that of {whose}",
        "the times in history and events are wrong by as much, certificates and S3's signatures may be refused; "
        "no decision of Tenure rests on it",
        "synchronise the clocks, for example with chrony",
    )


def about_members(members: Sequence[Candidate], *, leader: str | None) -> list[Remark]:
    """The live members of the scope. `leader` None: nobody leads."""
    if not members:
        return [Remark(Grade.NOTE, "no member lives", "that is right before the first start")]
    led = "nobody leads" if leader is None else f"{leader} leads"
    names = ", ".join(f"{one.member} on {one.host}" for one in members)
    remarks = [Remark(Grade.OK, f"{len(members)} live: {names}; {led}")]
    electable = [one for one in members if not one.nofailover]
    if len(electable) < 2:
        remarks.append(
            Remark(
                Grade.WARN,
                f"{len(electable)} member may lead",
                "nobody takes over when it dies",
                "start another member on another host",
            )
        )
    elif len({one.host for one in electable}) == 1:
        remarks.append(
            Remark(
                Grade.WARN,
                f"all members are on host {electable[0].host}",
                "nobody takes over when the host dies",
                "start a member on another host",
            )
        )
    files = Counter(one.file for one in members if one.file)
    if len(files) > 1:
        shown = ", ".join(f"{one.member} has {one.file}" for one in members if one.file)
        remarks.append(
            Remark(
                Grade.WARN,
                f"the members have {len(files)} pipeline files: {shown}",
                "a takeover changes the pipeline, or is refused with exit code 12",
                "start all members with one file",
            )
        )
    remarks += [
        Remark(
            Grade.WARN, f"{one.member} fails: {one.trouble}", "its takeover would be slow, or fail", "mend the cause"
        )
        for one in members
        if one.trouble
    ]
    return remarks


def about_file(members: Sequence[Candidate], *, file: str) -> list[Remark]:
    """The fingerprint of the pipeline file here beside those of the live members."""
    others = {one.member: one.file for one in members if one.file and one.file != file}
    if not others:
        return []
    shown = ", ".join(f"{member} has {other}" for member, other in others.items())
    return [
        Remark(
            Grade.NOTE,
            f"the pipeline file here is {file}, and {shown}",
            "a member that starts here changes the pipeline at its first term",
            "that is right during an upgrade",
        )
    ]


def about_scrape(member: str, ago_s: float | None, *, up_s: float) -> Remark:
    """When a member was asked for `/metrics` last. `ago_s` None: never since it started, `up_s` ago."""
    if ago_s is not None and ago_s <= SCRAPED_S:
        return Remark(Grade.OK, f"member {member} was asked for /metrics {ago_s:.0f} s ago")
    if ago_s is None and up_s <= SCRAPED_S:
        return Remark(Grade.NOTE, f"member {member} is up for {up_s:.0f} s, and was not asked for /metrics yet")
    if ago_s is None:
        return Remark(
            Grade.NOTE,
            f"nobody has asked member {member} for /metrics since it started",
            "no alarm of Prometheus sees it",
            "add its --http address to scrape_configs, and load deploy/monitoring/rules.yml",
        )
    return Remark(
        Grade.WARN,
        f"member {member} was asked for /metrics {ago_s / 60:.0f} min ago, and not since",
        "the alarms of Prometheus do not see it any more",
        "look at the page Targets of Prometheus: the address, a firewall, the discovery of members",
    )


def about_orphans(swept: Mapping[str, object] | None) -> Remark:
    """The newest event `Swept` of the members; None: no member has one."""
    if swept is None:
        return Remark(Grade.OK, "the members tell of no orphan")
    if not swept.get("left"):
        return Remark(Grade.OK, f"the last sweep, {swept['at']}, removed {swept.get('removed')} orphans, and left none")
    return Remark(
        Grade.WARN,
        f"the last sweep, {swept['at']}, could not remove {swept['left']} orphans, the first: {swept.get('first')}",
        "they take space; no batch depends on them",
        "mend the reason that the line names; the leader tries again by itself",
    )


def about_masters(answers: Mapping[str, str]) -> list[Remark]:
    """The masters of a standalone cluster. `answers`: address -> why it does not answer; empty: it does."""
    away = {address: why for address, why in answers.items() if why}
    if not away:
        return [Remark(Grade.OK, f"a master of Spark listens at {', '.join(answers)}")]
    shown = ", ".join(f"{address} ({why})" for address, why in away.items())
    if len(away) < len(answers):
        return [Remark(Grade.WARN, f"no master of Spark at {shown}", "the cluster has fewer masters left", "start it")]
    return [
        Remark(
            Grade.BAD,
            f"no master of Spark at {shown}",
            "a driver does not start",
            "start the master, or mend --master or the way there",
        )
    ]


def about_targets(asked: Mapping[str, str]) -> list[Remark]:
    """The targets of the queries. `asked`: query -> why its target does not answer; empty: it does."""
    away = {query: why for query, why in asked.items() if why}
    if not away:
        return [Remark(Grade.OK, f"the targets of {', '.join(asked)} answer")] if asked else []
    return [
        Remark(
            Grade.BAD,
            f"the target of query {query!r} does not answer: {why}",
            "its first batch fails, and the member ends with exit code 8",
            "check its address, the user, the password and the rights",
        )
        for query, why in away.items()
    ]


def about_executors(seen: str, why: str) -> Remark:
    """The executors of a cluster. `seen`: what they are; `why`: why a job failed there; empty: it did not."""
    if not why:
        return Remark(Grade.OK, seen)
    return Remark(
        Grade.BAD,
        f"the executors do not run a job that writes to the storage: {why}",
        "they cannot write the state of a query, so no batch can be run",
        "mount the storage on each host of the cluster for the user of the executors, or give them its address and "
        "credentials; and give them the Python of this host",
    )


def _s(time: timedelta) -> str:
    return f"{time.total_seconds():g} s"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
