"""The page Settings lists each default of Spark's that a driver changes, with its value."""

from __future__ import annotations

from tenure.sinks.staging import stage as staging
from tenure.spark import session
from tenure.takeover import rehearsal
from tests.house.tree import ROOT

PAGE = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")


def test_each_default_stands_on_the_page_with_its_value() -> None:
    for name, value in session.DEFAULTS.items():
        assert f"| `{name}` | `{value}` |" in PAGE


def test_each_other_setting_stands_on_the_page() -> None:
    for name in (*session._QUIET, *staging._SETTINGS, *rehearsal.SETTINGS):
        assert f"`{name}`" in PAGE
