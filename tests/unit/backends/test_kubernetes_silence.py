"""When an observer may call a session dead: only time in which it could have seen a renewal counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.backends.shared.sightings import Silence

TTL_S = 10.0
SLOW_S = 0.05
"""How long a look takes."""


def new() -> Silence:
    return Silence("1", TTL_S, seen_s=0.0)


def look_when_due(silence: Silence) -> float:
    asked_s = silence.next_look_s
    silence.confirmed(asked_s=asked_s, answered_s=asked_s + SLOW_S)
    return asked_s


def test_a_session_that_is_silent_for_its_ttl_is_dead_and_not_before() -> None:
    silence = new()
    asked = [look_when_due(silence)]
    while not silence.is_death:
        asked.append(look_when_due(silence))
    assert asked[-1] == pytest.approx(TTL_S, abs=4 * SLOW_S)
    assert asked[-1] >= TTL_S
    assert len(asked) <= 5


def test_who_renews_in_time_is_never_asked_for() -> None:
    assert new().next_look_s > TTL_S / 3 + 1


def test_a_pause_of_the_observer_does_not_count() -> None:
    silence = new()
    silence.confirmed(asked_s=1000.0, answered_s=1000.0)
    assert not silence.is_death
    assert silence.next_look_s > 1002.0  # who was stopped with it has time to renew


def test_time_without_an_answer_does_not_count() -> None:
    silence = new()
    for at_s in range(1, 60):
        silence.interrupted(at_s=float(at_s))
    silence.confirmed(asked_s=60.0, answered_s=60.0)
    assert silence.counted_s <= 1.0
    assert not silence.is_death


@given(st.lists(st.tuples(st.floats(0.01, 50.0), st.booleans()), min_size=1, max_size=40))
def test_no_more_than_what_was_watched_is_counted(looks: list[tuple[float, bool]]) -> None:
    silence, now_s, watched_s = new(), 0.0, 0.0
    for gap_s, answered in looks:
        now_s += gap_s
        if answered:
            watched_s += min(gap_s, TTL_S / 2)
            silence.confirmed(asked_s=now_s, answered_s=now_s)
        else:
            silence.interrupted(at_s=now_s)
        assert silence.next_look_s >= now_s
    assert silence.counted_s <= watched_s + 1e-6
    assert silence.is_death == (silence.counted_s >= TTL_S - 1e-6)
