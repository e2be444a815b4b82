"""Pure: the picture of a scope -> the parts of the page of one pipeline.

Promise: a part names its fields one by one, so offsets, settings and parameters are never sent. A time without a leader
is a span of its own: between two terms, the time in which a leader may have been there and the time in which nobody
led are two spans. No I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from tenure.checkpoints.checkpoint import decode_checkpoint
from tenure.checkpoints.store import CHECKPOINTS
from tenure.coordination.candidates import Candidate
from tenure.coordination.records import Record
from tenure.coordination.terms import End
from tenure.errors import Corrupt
from tenure.events import event_from_data
from tenure.handles.areas import handles_in
from tenure.handles.handle import decode_handle
from tenure.operate.history import TermStatus
from tenure.operate.picture import ScopePicture
from tenure.operate.verdict import verdict
from tenure.ui.rows import findings_of

_SHORTEST_GAP_S: Final = 0.0005
"""A shorter time without a leader is no span."""

_TEXT_MOST: Final = 600

SWEEPS: Final = ("OrphansFound", "Swept", "CleanupDelayed", "CleanupEnded")
"""The events that say how far a sweep or a cleanup is."""


def parts_of(picture: ScopePicture, records: Sequence[Record]) -> dict[str, Any]:
    """Name -> part. `records`: all of the scope."""
    snapshot = picture.snapshot
    found = verdict(picture)
    return {
        "verdict": {"level": found.level.value, "findings": findings_of(found)},
        "office": _office(picture),
        "terms": [_term(term) for term in picture.history.terms],
        "spans": list(_spans(picture)),
        "takeovers": takeovers(picture.history.terms),
        "members": [_member(one, leader=snapshot.leader) for one in snapshot.members],
        "queries": [
            {
                "query": one.query,
                "batch": one.batch,
                "epoch": one.epoch,
                "planned_at": one.planned_at,
                "behind": one.behind,
            }
            for one in snapshot.queries
        ],
        "checkpoints": list(_checkpoints(records)),
        "unread": [{"key": one.key, "why": one.why} for one in snapshot.unread],
    }


def trouble(error: Corrupt) -> dict[str, Any]:
    """The verdict over a scope with a record that does not decode."""
    finding = {"rule": "unread", "level": "bad", "sentence": "a record does not decode", "cause": str(error), "do": ""}
    return {"verdict": {"level": "bad", "findings": [finding]}}


def missing(scope: str) -> dict[str, Any]:
    """The verdict over a scope without any record."""
    sentence = f"scope {scope!r} is not in this store: no member ever ran it"
    do = "start a member: tenure run; or look for the right name among all pipelines"
    finding = {"rule": "never-led", "level": "warn", "sentence": sentence, "cause": "", "do": do}
    return {"verdict": {"level": "warn", "findings": [finding]}}


def _office(picture: ScopePicture) -> dict[str, Any]:
    last, snapshot = picture.last, picture.snapshot
    asked = snapshot.switchover
    return {
        "leader": snapshot.leader,
        "epoch": snapshot.epoch,
        "since": last.since if last is not None and picture.led else None,
        "empty_since": picture.history.empty_since or None,
        "is_paused": snapshot.paused,
        "switchover": None if asked is None else {"to": asked.to, "by": asked.asked.by, "reason": asked.asked.reason},
    }


def _term(term: TermStatus) -> dict[str, Any]:
    return {
        "epoch": term.epoch,
        "holder": term.holder,
        "host": term.host,
        "version": term.version,
        "since": term.since,
        "until": term.until or None,
        "until_at_most": term.until_at_most or None,
        "why": End(term.why, term.detail, term.by, term.reason).line if term.why else None,
        "note": term.note or None,
        "gap_s": term.gap_s,
        "gap_at_least_s": term.gap_at_least_s,
    }


def _spans(picture: ScopePicture) -> Iterator[dict[str, Any]]:
    """What the time line draws, in order of time. `until` None: until now."""
    terms = picture.history.terms
    for number, term in enumerate(terms):
        after = terms[number + 1] if number + 1 < len(terms) else None
        if term.gap_s > _SHORTEST_GAP_S:
            before = terms[number - 1]
            surely = before.until_at_most or before.until
            if surely != before.until:
                yield _span("perhaps", before.until, surely)
            if term.gap_at_least_s > _SHORTEST_GAP_S:
                yield _span("gap", surely, term.since)
        why = End(term.why, term.detail).line if term.why else ""
        until = term.until or (None if after is None else after.since)
        yield {**_span("term", term.since, until), "epoch": term.epoch, "holder": term.holder, "why": why}
    if picture.history.empty_since and picture.result is None:
        yield _span("gap", picture.history.empty_since, None)


def _span(kind: str, since: str, until: str | None) -> dict[str, Any]:
    return {"kind": kind, "since": since, "until": until}


def takeovers(terms: Sequence[TermStatus]) -> list[dict[str, Any]]:
    """The takeovers of which a phase is known, oldest first, each with its bars in the order of time."""
    found = []
    for number, term in enumerate(terms):
        bars = list(_bars(term, terms[number - 1] if number else None))
        if any(bar["phase"] != "empty" for bar in bars):
            found.append({"epoch": term.epoch, "holder": term.holder, "since": term.since, "bars": bars})
    return found


def _bars(term: TermStatus, before: TermStatus | None) -> Iterator[dict[str, Any]]:
    if before is not None and before.until:
        yield _bar("empty", f"nobody led after {before.holder}", before.until, term.since)
    for query, opening in sorted(term.openings.items(), key=lambda item: (item[1].started_at, item[0])):
        seeded = opening.seeded_at or term.since
        if opening.seeded_at:
            files = f"{opening.files} files{' beside a mirror' if opening.mirrored else ''}"
            bar = _bar("seed", f"{query}: state, {files}", opening.seeded_at, opening.seeded_at)
            yield {**bar, "before_s": opening.seed_s}
        if opening.started_at:
            yield _bar("start", f"{query}: query starts", seeded, opening.started_at)
        if opening.planned_at:
            yield _bar("plan", f"{query}: first batch is planned", opening.started_at or seeded, opening.planned_at)
        if opening.committed_at:
            first = opening.planned_at or opening.started_at or seeded
            yield _bar("commit", f"{query}: first batch runs", first, opening.committed_at)


def _bar(phase: str, text: str, since: str, until: str) -> dict[str, Any]:
    return {"phase": phase, "text": text, "since": since, "until": max(since, until), "before_s": 0.0}


def _member(one: Candidate, *, leader: str | None) -> dict[str, Any]:
    tags = [f"priority {one.priority}"] * (one.priority != 0) + ["nofailover"] * one.nofailover
    return {
        "member": one.member,
        "role": "leader" if one.member == leader else "standby",
        "state": one.state.value,
        "host": one.host,
        "pid": one.pid,
        "joined": one.since,
        "lag": None if one.lag is None else {"batches": one.lag.batches, "bytes": one.lag.bytes},
        "tags": [*tags, *["service"] * one.in_process],
        "file": one.file,
        "trouble": one.trouble,
        "has_probes": bool(one.http),
    }


def _checkpoints(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """All kept checkpoints, the oldest of each query first. Where the payload is a blob, the time is not known."""
    found: list[dict[str, Any]] = []
    for record in handles_in(records, CHECKPOINTS):
        with suppress(Corrupt):  # the verdict has it
            handle, query = decode_handle(record), record.key.split("/")[1]
            known = handle.inline
            planned = "" if known is None else decode_checkpoint(known, query=query, name=handle.name).planned_at
            found.append({"query": query, "batch": int(handle.name), "epoch": handle.epoch, "planned_at": planned})
    yield from sorted(found, key=_order_of)


def _order_of(checkpoint: Mapping[str, Any]) -> tuple[str, int]:
    return checkpoint["query"], checkpoint["batch"]


def answer_of(member: str, answer: Mapping[str, Any], *, at: str) -> dict[str, Any]:
    """What a member says of itself at `/status`; of a member that does not answer, the `trouble`."""
    names = ("state", "epoch", "leader", "silent_s", "session_s", "away", "away_since", "failing", "paused")
    return {"member": member, "at": at, "trouble": answer.get("trouble"), **{name: answer.get(name) for name in names}}


def event_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """One event, with its line for people; of an event of another version, its fields."""
    own = {name: value for name, value in data.items() if name not in ("number", "at", "of")}
    text = ""
    with suppress(ValueError, TypeError, KeyError):
        text = event_from_data(own).line()
    if not text:
        shown = {name: value for name, value in own.items() if name not in ("event", "scope", "member", "pid")}
        text = ", ".join(f"{name} {value}" for name, value in shown.items() if value not in ("", None))
    return {**{name: data.get(name) for name in ("number", "at", "of", "event")}, "text": text[:_TEXT_MOST]}


def batch_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """One committed batch. `rows`: only where it is known."""
    names = ("number", "at", "of", "query", "batch", "epoch", "seconds", "repeated", "rows")
    return {name: data[name] for name in names if data.get(name) is not None}


def sweep_in(events: Iterable[Mapping[str, Any]], before: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The newest news of a sweep or a cleanup; None: there is none yet. `before`: of earlier events."""
    news = before
    for event in events:
        if event.get("event") in SWEEPS and (news is None or str(event.get("at")) >= str(news["at"])):
            names = ("event", "at", "of", "row", "count", "removed", "left", "first", "seconds", "again_s")
            news = {name: event[name] for name in names if name in event}
    return news


def backlog_of(answer: Mapping[str, Any]) -> Mapping[str, int]:
    """Query -> the offsets of Kafka that it is behind, as a leader says at `/status`; empty: it knows none."""
    behind = answer.get("behind")
    if answer.get("state") != "leading" or not isinstance(behind, Mapping):
        return {}
    return {str(query): count for query, count in behind.items() if isinstance(count, int)}
