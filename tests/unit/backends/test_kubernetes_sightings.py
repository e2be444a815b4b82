"""What a process has seen of a session, beyond the observer that saw it."""

from __future__ import annotations

import os

from tenure.backends.kubernetes.url import Place
from tenure.backends.shared.sightings import Sightings, Silence, sightings_of
from tenure.coordination.records import Scope, SessionId

TTL_S = 10.0
SESSION = SessionId("s1")
SCOPE = Scope("shop")


def seen(sightings: Sightings, version: str, *, now_s: float) -> Silence:
    return sightings.silence(SESSION, version, ttl_s=TTL_S, now_s=now_s)


def test_observers_that_look_for_less_than_the_ttl_see_a_death_together() -> None:
    sightings, now_s = Sightings(), 0.0
    for now_s in range(0, 11):
        silence = seen(sightings, "1", now_s=float(now_s))  # an observer a second
        assert not silence.is_death
        silence.confirmed(asked_s=float(now_s), answered_s=float(now_s))
        sightings.note(SESSION, silence)
    assert seen(sightings, "1", now_s=10.0).is_death


def test_a_renewal_between_two_observers_begins_a_new_silence() -> None:
    sightings = Sightings()
    silence = seen(sightings, "1", now_s=0.0)
    silence.confirmed(asked_s=5.0, answered_s=5.0)
    sightings.note(SESSION, silence)
    assert seen(sightings, "2", now_s=9.0) == Silence("2", TTL_S, 9.0)


def test_the_time_between_two_observers_counts_as_between_two_looks() -> None:
    sightings = Sightings()
    seen(sightings, "1", now_s=0.0)
    silence = seen(sightings, "1", now_s=1000.0)
    silence.confirmed(asked_s=1000.0, answered_s=1000.0)
    assert silence.counted_s == TTL_S / 2


def test_two_observers_at_once_do_not_count_for_each_other() -> None:
    sightings = Sightings()
    one, other = seen(sightings, "1", now_s=0.0), seen(sightings, "1", now_s=0.0)
    one.confirmed(asked_s=5.0, answered_s=5.0)
    sightings.note(SESSION, one)
    assert other.counted_s == 0.0


def test_remains_are_due_when_it_was_said_first() -> None:
    sightings = Sightings()
    assert [sightings.due(SESSION, at_s=at_s, now_s=at_s) for at_s in (1.0, 2.0)] == [1.0, 1.0]
    assert sightings.due(SESSION, SCOPE, at_s=3.0, now_s=3.0) == 3.0
    sightings.done(SESSION)
    assert sightings.due(SESSION, at_s=4.0, now_s=4.0) == 4.0
    assert sightings.due(SESSION, SCOPE, at_s=4.0, now_s=4.0) == 3.0
    assert sightings.due(SESSION, SCOPE, at_s=9000.0, now_s=9000.0) == 9000.0, "it was forgotten"


def test_a_session_that_nobody_has_looked_at_for_long_is_forgotten() -> None:
    sightings = Sightings()
    seen(sightings, "1", now_s=0.0)
    assert seen(sightings, "1", now_s=9000.0) == Silence("1", TTL_S, 9000.0)


def test_a_forked_child_has_seen_nothing() -> None:
    place = Place("forks", "tenure")
    seen(sightings_of(place), "1", now_s=0.0)
    child = os.fork()
    if child == 0:
        os._exit(0 if seen(sightings_of(place), "1", now_s=9.0).seen_s == 9.0 else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert seen(sightings_of(place), "1", now_s=9.0).seen_s == 0.0
