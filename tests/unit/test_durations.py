"""Ages as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tenure.durations import ago

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (timedelta(seconds=-5), "0 s ago"),
        (timedelta(seconds=59.9), "59 s ago"),
        (timedelta(seconds=60), "1 min ago"),
        (timedelta(minutes=119), "1 h ago"),
        (timedelta(hours=47), "1 d ago"),
        (timedelta(days=400), "400 d ago"),
    ],
)
def test_an_age_has_its_largest_unit(before: timedelta, told: str) -> None:
    assert ago((NOW - before).isoformat(timespec="milliseconds"), now=NOW) == told


@pytest.mark.parametrize("text", ["", "yesterday", "2026-03-01T11:00:00"])
def test_a_text_that_is_no_time_stays(text: str) -> None:
    assert ago(text, now=NOW) == text
