"""Listings of several run directories at a time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tenure.checkpoints.run_name import RunName
from tenure.ownership import owner
from tenure.ownership.rules import Done
from tests.kit.waiting import NEVER_S


def put(root: Path, *runs: str) -> str:
    for number, run in enumerate(runs):
        (root / "runs" / run / "commits").mkdir(parents=True)
        (root / "runs" / run / "commits" / str(number)).touch()
    return str(root)


def test_the_newest_batch_of_each_query_counts(tmp_path: Path) -> None:
    runs = [f"{query}/e{epoch:08d}-anna-0123456789ab" for epoch in range(1, 8) for query in ("a", "b")]
    storage = put(tmp_path, *runs)
    assert owner.newest_done(storage, since=lambda query: 1) == {
        "a": Done(12, f"runs/{runs[12]}/commits/12"),
        "b": Done(13, f"runs/{runs[13]}/commits/13"),
    }
    assert owner.newest_done(storage, since=lambda query: 7 if query == "a" else 8).keys() == {"a"}


def test_what_one_listing_raises_is_raised_and_nobody_waits_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()

    def list_runs(storage: str, runs: Sequence[RunName]) -> list[tuple[str, Done]]:
        if runs[0].epoch == 1:
            raise OSError("refused")
        assert hangs.wait(NEVER_S)
        return []

    monkeypatch.setattr(owner, "_all_done", list_runs)
    storage = put(tmp_path, "a/e00000001-anna-0123456789ab", "a/e00000002-anna-0123456789ab")
    try:
        with pytest.raises(OSError, match="refused"):
            owner.newest_done(storage, since=lambda query: 0)
        waiting = [thread for thread in threading.enumerate() if thread.name == "tenure-listing"]
        assert waiting
        assert all(thread.daemon for thread in waiting), "or the process would not end"
    finally:
        hangs.set()
    for thread in waiting:
        thread.join(NEVER_S)
