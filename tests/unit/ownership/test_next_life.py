"""The end of a life, on every store: whoever is late, and whatever it leaves, is in nobody's way (I10)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tenure.checkpoints.store import CheckpointStore
from tenure.errors import OwnerMismatch, TermLost
from tenure.handles.store import HandleStore
from tenure.ownership import owner as owner_module
from tenure.ownership.owner import renew_identity
from tenure.results.result import Ending, Result, Stage
from tenure.results.store import RESULTS, ResultStore
from tenure.storage.blobs import FileBlobs
from tests.faults.lab import SCOPE, Lab
from tests.unit.cleanup.going_on import QUERY, Pipeline
from tests.unit.ownership.leading import lead, marks, pipeline, refused

__all__ = ["pipeline"]


def results(pipeline: Pipeline) -> ResultStore:
    member, _ = pipeline.leaders[-1]
    handles = HandleStore(member.store, SCOPE, area=RESULTS, blobs=pipeline.lab.files, clock=pipeline.lab.clock)
    return ResultStore(handles)


def end(pipeline: Pipeline) -> None:
    """The leader notes that the pipeline has ended, and removes its checkpoints: the rest of the cleanup follows."""
    member, term = pipeline.leaders[-1]
    results(pipeline).write_dirty(term, Result(Ending.FINISHED, Stage.DIRTY, term.epoch, "ben", "now"))
    for one in CheckpointStore(pipeline.handles(member), query=QUERY).list():
        pipeline.handles(member).remove(term, f"{one.batch:012d}")


def clean(pipeline: Pipeline) -> None:
    """The rest of the cleanup: run directories, and then the marks."""
    shutil.rmtree(pipeline.root)
    results(pipeline).mark_clean(pipeline.leaders[-1][1])


def forget(pipeline: Pipeline) -> None:
    member, term = pipeline.next_leader("operator")
    renew_identity(member.store, term, clock=pipeline.lab.clock)
    results(pipeline).forget(term)


LEFT = "runs/counts/e00000001-anna-000000000000"
"""The run directory of a leader of the life that has ended."""


def test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way(pipeline: Pipeline) -> None:
    """Neither while the pipeline has ended, nor when it begins anew, whose leader removes it."""
    lead(pipeline, "ben", batch=1)
    end(pipeline)
    clean(pipeline)
    pipeline.put(f"{LEFT}/commits/0")
    pipeline.owner().check()
    forget(pipeline)
    lead(pipeline, "carl", batch=0)
    pipeline.owner().check()
    assert LEFT in pipeline.orphans()
    assert not pipeline.sweep()
    assert not pipeline.has(LEFT)
    pipeline.put(f"{pipeline.run}/commits/1")
    refused(pipeline, f"it has {pipeline.run}/commits/1, and the newest checkpoint of query 'counts' is 0")


def test_what_lies_in_a_storage_of_nobody_is_not_cleaned_up(pipeline: Pipeline) -> None:
    end(pipeline)
    shutil.rmtree(pipeline.root / "owner")
    with pytest.raises(OwnerMismatch, match=rf"it has {pipeline.run}/commits/0, and no mark .* remove {pipeline.run};"):
        pipeline.owner().check()
    shutil.rmtree(pipeline.root / pipeline.run)
    pipeline.owner().check()


def meanwhile(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Something happens after somebody asked what is done, and before it looks at the marks for the last time."""
    ask = owner_module.newest_done

    def late(storage: str, *, since: Callable[[str], int]) -> object:
        found = ask(storage, since=since)
        monkeypatch.setattr(owner_module, "newest_done", ask)
        do()
        return found

    monkeypatch.setattr(owner_module, "newest_done", late)


def test_who_starts_while_the_last_cleanup_runs_takes_nobody_for_a_stranger(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    end(pipeline)
    meanwhile(monkeypatch, lambda: shutil.rmtree(pipeline.root))
    pipeline.owner().check()
    assert not pipeline.root.exists()


def test_who_is_paused_while_a_life_is_forgotten_compares_with_the_next_one(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def next_life() -> None:
        end(pipeline)
        clean(pipeline)
        forget(pipeline)
        lead(pipeline, "carl", batch=0)

    lead(pipeline, "ben", batch=1)
    owner = pipeline.owner()
    meanwhile(monkeypatch, next_life)
    owner.check()
    assert marks(pipeline) == [4]


@pytest.mark.parametrize("ends", [False, True], ids=["a leader goes on", "the life ends"])
def test_a_leader_that_is_overtaken_before_its_mark_leaves_none(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """It was paused between its last look at the store and its mark, which the next life would be refused for."""
    lab.files = FileBlobs(str(tmp_path / "scope" / "blobs"))
    pipeline = Pipeline(lab, tmp_path / "scope")
    _, term = pipeline.next_leader("zombie")
    zombie = pipeline.owner()
    put = zombie._put

    def late(*what: Any) -> None:
        lead(pipeline, "ben", batch=0)
        if ends:
            end(pipeline)
            clean(pipeline)
        put(*what)

    monkeypatch.setattr(zombie, "_put", late)
    with pytest.raises(TermLost):
        zombie.own(term)
    assert marks(pipeline) == ([] if ends else [2])
    if ends:
        forget(pipeline)
    lead(pipeline, "carl", batch=0 if ends else 1)
