"""How often a query is rehearsed."""

from __future__ import annotations

import pytest

from tenure.takeover.rehearsal import MORE_ROUNDS, MORE_S, ROUNDS, Rounds


@pytest.mark.parametrize(
    ("seconds", "rehearsals"),
    [(0.5, ROUNDS + MORE_ROUNDS), (MORE_S / 4, 6), (MORE_S, ROUNDS), (10 * MORE_S, ROUNDS)],
)
def test_a_batch_that_takes_long_is_rehearsed_less_often(seconds: float, rehearsals: int) -> None:
    rounds, ended_s, done = Rounds(), 0.0, 0
    while rounds.needed:
        ended_s += seconds
        rounds.done(ended_s)
        done += 1
    assert done == rehearsals
