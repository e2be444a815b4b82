"""The bench of takeovers: what orphans cost is told of each round by itself."""

from __future__ import annotations

from bench.takeover_figures import PHASES, Takeover, medians


def after(*seconds: float) -> list[Takeover]:
    return [Takeover(one, after_grant=one, phases=dict.fromkeys(PHASES, 0.0), sweep_s=1.0) for one in seconds]


def test_a_machine_that_slows_down_slows_down_both_of_a_round() -> None:
    none, among = after(0.5, 1.0, 3.0), after(0.6, 1.2, 3.6)

    figures = medians({"among_none": none, "among_orphans": among})

    assert figures["ratios"] == {"after_grant_among_orphans": 1.2}
    assert figures["among_none"]["median_after_grant_s"] == 1.0


def test_a_median_that_one_slow_round_moves_is_not_the_ratio() -> None:
    figures = medians({"among_none": after(0.5, 0.5, 1.5, 1.5), "among_orphans": after(0.5, 1.5, 1.5, 1.5)})

    assert figures["ratios"] == {"after_grant_among_orphans": 1.0}


def test_without_its_other_half_there_is_no_ratio() -> None:
    assert "ratios" not in medians({"among_orphans": after(1.0)})
