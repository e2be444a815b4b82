"""The output of `tenure history`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from tenure.coordination.terms import End
from tenure.durations import lasting, seconds_since
from tenure.operate.history import TermHistory, TermStatus

_A_GAP_S: Final = 1.0
"""A shorter time without a leader has no line of its own in the table."""


def json_of(term: TermStatus) -> dict[str, Any]:
    """A term as JSON: `null` where nothing is known."""
    found: dict[str, Any] = {name: value if value != "" else None for name, value in asdict(term).items()}
    openings = {query: {k: v for k, v in one.items() if v != ""} for query, one in found.pop("openings").items()}
    times = {"from": found.pop("since"), "to": found.pop("until"), "to_at_most": found.pop("until_at_most")}
    names = {name: found.pop(name) for name in ("epoch", "holder", "host", "version")}
    return {**names, **times, **found, "openings": openings}


def rows_of(known: TermHistory, *, now: datetime) -> list[dict[str, Any]]:
    """The rows of the table: the terms, and the times in which nobody led."""
    rows: list[dict[str, Any]] = []
    for term in known.terms:
        before = rows[-1] if rows else None
        if before is not None and term.gap_s >= _A_GAP_S:
            rows.append(_nobody(before["to"], term.since, f"nobody led for {_gap(term)}"))
        rows.append(_row(term))
    if known.empty_since:
        seconds = seconds_since(known.empty_since, now=now)
        how_long = "" if seconds is None else f" for {lasting(seconds)}"
        rows.append(_nobody(known.empty_since, None, f"nobody has led{how_long}"))
    return rows


def _nobody(since: str | None, until: str | None, why: str) -> dict[str, Any]:
    return {"epoch": None, "holder": None, "from": since, "to": until, "why": why}


def _gap(term: TermStatus) -> str:
    most, least = lasting(term.gap_s), lasting(term.gap_at_least_s)
    return most if most == least else f"{least} to {most}"


def _row(term: TermStatus) -> dict[str, Any]:
    line = End(term.why, term.detail, term.by, term.reason).line if term.why else ""
    why = "; ".join(_told(line, term))
    return {
        "epoch": term.epoch,
        "holder": term.holder,
        "from": term.since,
        "to": term.until or None,
        "why": why or None,
    }


def _told(line: str, term: TermStatus) -> Iterator[str]:
    if line:
        yield line
    if term.until != term.until_at_most:
        yield "nobody saw it end, its last known sign counts"
    if term.note:
        yield f"{term.holder} said later: {term.note}"
