"""When an operator has to know how full etcd is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.backends.etcd.fullness import DEFAULT_QUOTA, Kept, finding_about

FRESH = Kept(newest=1_000, in_use=2_000_000, quota=0, has_first=True, has_many=False)
LONG = replace(FRESH, newest=400_000, in_use=450_000_000, has_many=True)
COMPACTED = replace(LONG, has_first=False)


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (LONG, "etcd has compacted none of its 400000 revisions, and has 450 MB of the default quota, 2,147 MB"),
        (replace(LONG, quota=8_000_000_000), "has 450 MB of its quota of 8,000 MB"),
        (replace(COMPACTED, in_use=DEFAULT_QUOTA // 2), "etcd keeps more than 50000 revisions of history"),
        (replace(COMPACTED, quota=900_000_000), "and has 450 MB of its quota of 900 MB"),
        (replace(FRESH, alarms=("memberID:1 alarm:NOSPACE ",)), "etcd is full, and refuses every write"),
    ],
)
def test_what_is_said(kept: Kept, words: str) -> None:
    finding = finding_about(kept)
    assert finding is not None
    assert words in finding.line
    assert "etcdctl compact REVISION" in finding.line
    assert "\n" not in finding.line


@pytest.mark.parametrize(
    "kept",
    [
        FRESH,
        replace(FRESH, in_use=DEFAULT_QUOTA),  # it is full of records, and not of history
        COMPACTED,
        replace(FRESH, alarms=("memberID:1 alarm:CORRUPT ",)),
    ],
)
def test_what_needs_no_word(kept: Kept) -> None:
    assert finding_about(kept) is None


def test_members_that_compact_need_no_flag() -> None:
    assert finding_about(LONG, compacts=True) is None
    assert finding_about(replace(LONG, in_use=DEFAULT_QUOTA), compacts=True) is not None
