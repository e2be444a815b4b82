"""Pure: which events of a member are new, and the order of the events of several members. No I/O, no clock.

A member numbers its events from 1 on, keeps the newest 2,000, and begins anew when its agent is started again. So a
reader asks for the last event that it has, and all after it: an answer that begins with another event is of another
life of the member, or the events between were dropped.

Promise: no event of a life is shown twice. Events that were dropped between two answers are counted. Not promised: the
exact order of two members whose clocks differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class NewEvents:
    """The events of an answer that are new. `missed`: how many before them were dropped."""

    events: Sequence[Mapping[str, Any]]
    missed: int = 0


def asked_after(last: Mapping[str, Any] | None) -> int:
    """The number after which a member is asked for events, so that its answer begins with the last known event. `last`
    None: no event is known."""
    return 0 if last is None else int(last["number"]) - 1


def new_events(last: Mapping[str, Any] | None, answer: Sequence[Mapping[str, Any]]) -> NewEvents | None:
    """The new events of an answer to `asked_after`; None: the member was started again, so ask for all its events."""
    if last is None:
        return NewEvents(answer)
    if not answer:
        return None  # a life has at least the event that was asked for
    first = answer[0]
    if first["number"] == last["number"]:
        return NewEvents(answer[1:]) if first["at"] == last["at"] else None
    return NewEvents(answer, int(first["number"]) - int(last["number"]) - 1)


def in_order(events: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Pairs of member and event -> the events by time, each with its member as `source`."""
    ordered = sorted(events, key=lambda one: (str(one[1]["at"]), one[0], one[1]["number"]))
    return [{"at": event["at"], "source": member, **event} for member, event in ordered]
