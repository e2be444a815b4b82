"""The section *MySQL* of the page about sinks: its types are those in use."""

from __future__ import annotations

import re

from tenure.sinks.mysql.columns import TYPES
from tests.house.tree import ROOT


def test_the_table_of_types_is_the_one_in_use() -> None:
    page = (ROOT / "docs/sinks.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", page.partition("\n## MySQL\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    named = dict(re.findall(r"^\| `([a-z_(),]+)` \| `([a-z_(),0-9]+)` \|$", section, re.MULTILINE))
    assert named == {**TYPES, "decimal(p,s)": "decimal(p,s)"}
