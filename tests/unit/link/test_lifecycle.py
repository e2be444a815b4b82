"""The table of what follows on a leadership: total, and what is given up has a word."""

from __future__ import annotations

import pytest

from tenure.link.driver import AFTER, Ended


def test_every_end_has_a_row() -> None:
    assert set(AFTER) == set(Ended)


@pytest.mark.parametrize("ended", list(Ended))
def test_a_term_is_given_up_or_was_lost_never_both(ended: Ended) -> None:
    after = AFTER[ended]
    goes_on = (Ended.LOST, Ended.DIED, Ended.SWITCHOVER, Ended.RESTART, Ended.OVERTAKEN)
    assert after.again == (ended in goes_on)
    assert (after.resign is None) == (ended is Ended.LOST)


def test_the_words_of_the_history_differ() -> None:
    words = [after.resign for after in AFTER.values() if after.resign is not None]
    assert len(set(words)) == len(words)
