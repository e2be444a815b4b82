"""The words for the end of a term are one closed list, and each is explained in the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tenure import errors
from tenure.coordination import failing
from tenure.coordination.election_rules import RESTART
from tenure.coordination.terms import WHYS
from tenure.link.driver import AFTER

ROOT = Path(__file__).parents[2]


def used() -> Iterator[str]:
    yield from (after.resign for after in AFTER.values() if after.resign is not None)
    yield from (failing.FAILED, failing.SINK_AWAY, failing.SOURCE_AWAY, failing.STORAGE_AWAY, RESTART)
    yield from (kind.word for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "word"))


def test_each_word_for_an_end_is_in_the_list() -> None:
    assert set(used()) <= WHYS.keys()


def test_each_word_stands_in_the_page_for_operators() -> None:
    page = (ROOT / "docs/operate.md").read_text(encoding="utf-8")
    table = page.partition("| why | meaning | detail |")[2].partition("\n\n")[0]
    assert [word for word in WHYS if f"`{word}`" not in table] == []
