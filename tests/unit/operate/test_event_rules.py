"""Which events of a member are new, and the order of several members' events."""

from __future__ import annotations

from typing import Any

import pytest

from tenure.operate.event_rules import NewEvents, asked_after, in_order, new_events


def event(number: int, at: str = "12:00") -> dict[str, Any]:
    return {"number": number, "at": at, "event": "TermWon"}


ONE, TWO, THREE = (event(number) for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("last", "answer", "expected"),
    [
        (None, [], NewEvents([])),
        (None, [TWO, THREE], NewEvents([TWO, THREE])),
        (ONE, [ONE], NewEvents([])),
        (ONE, [ONE, TWO, THREE], NewEvents([TWO, THREE])),
        (ONE, [event(5)], NewEvents([event(5)], missed=3)),
        (TWO, [], None),
        (TWO, [event(2, "13:00"), event(3, "13:01")], None),
    ],
    ids=["no event yet", "the first answer", "nothing new", "new events", "dropped events", "younger", "another life"],
)
def test_new_events(last: dict[str, Any] | None, answer: list[dict[str, Any]], expected: NewEvents | None) -> None:
    assert new_events(last, answer) == expected


def test_a_member_is_asked_for_the_last_known_event_too() -> None:
    assert [asked_after(last) for last in (None, ONE, THREE)] == [0, 0, 2]


def test_events_are_in_the_order_of_time_then_of_members_then_of_numbers() -> None:
    found = in_order(
        [
            ("ben", event(1, "12:01")),
            ("anna", event(8, "12:01")),
            ("anna", event(7, "12:01")),
            ("ben", event(2, "12:00")),
        ]
    )
    assert [(one["source"], one["number"]) for one in found] == [("ben", 2), ("anna", 7), ("anna", 8), ("ben", 1)]
