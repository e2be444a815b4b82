"""`tenure adopt --lost-store` on a storage made by hand, and the words of `tenure adopt` that do not fit together."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import patch

import pytest

from tenure.checkpoints.store import CheckpointStore
from tenure.errors import OwnerMismatch, StorageError
from tests.cli.moves import SCOPE, checkpoints, context_of, lost, opened, where
from tests.cli.support import Place, tenure
from tests.unit.rundirs.made_by_hand import NEWEST, a_run_directory, put


@pytest.fixture
def storage(place: Place) -> Place:
    """A storage with two runs, a mirror and marks, whose store was lost."""
    own = f"{place.storage}/{SCOPE}"
    a_run_directory(f"{own}/runs/copy/e00000006-anna-0123456789ab")
    put(f"{own}/runs/copy/e00000006-anna-0123456789ab/offsets/{NEWEST + 1}", "of a zombie")
    a_run_directory(f"{own}/runs/copy/e00000007-ben-0123456789ab")
    (Path(own) / f"runs/copy/e00000007-ben-0123456789ab/commits/{NEWEST}").unlink()
    put(f"{own}/runs/copy/e00000009-anna-0123456789ab/state/0/0/1.delta", "of a mirror")
    put(f"{own}/runs/copy/e00000009-carl-0123456789ab/offsets/{NEWEST + 2}", "of a seed that was interrupted")
    put(f"{own}/owner/identity", json.dumps({"v": 1, "identity": "a" * 32}))
    put(f"{own}/owner/e00000007-{'a' * 32}-0123456789ab", "{}")
    return place


def test_a_member_refuses_a_storage_whose_store_was_lost(storage: Place) -> None:
    with opened(storage) as store, pytest.raises(OwnerMismatch):
        context_of(storage, store).owner().check()


def test_it_is_told_from_where_a_scope_goes_on_whose_store_was_lost(storage: Place) -> None:
    told = lost(storage, "-o", "json")
    assert told.code == 0, told.err
    (query,) = told.json
    assert query["run_directory"] == "runs/copy/e00000007-ben-0123456789ab"
    assert (query["batch"], query["is done"], query["goes on with"]) == (NEWEST, False, NEWEST)
    assert "nothing was written; stop all members of the lost store first" in told.err


def test_a_new_life_has_an_epoch_above_all_that_the_storage_has_seen(storage: Place) -> None:
    told = lost(storage, "--apply")
    assert told.code == 0, told.err
    assert "scope rows goes on under a new owner, from epoch 10: start its members" in told.err
    with opened(storage) as store:
        context = context_of(storage, store)
        newest = context.checkpoints("copy").newest()
        assert newest is not None
        assert (newest.batch, newest.epoch, newest.closed) == (NEWEST, 10, False)
        assert newest.run_directory == "runs/copy/e00000007-ben-0123456789ab"
        mark = context.owner().check()
        assert mark is not None
        assert (mark.epoch, mark.identity != "a" * 32) == (10, True)
    assert len(list(Path(f"{storage.storage}/{SCOPE}/owner").iterdir())) == 2


def test_a_repeated_call_completes_what_was_interrupted(storage: Place) -> None:
    with patch.object(CheckpointStore, "adopt", side_effect=StorageError("the machine went")):
        assert lost(storage, "--apply").code == 6
    assert lost(storage, "--apply").code == 0
    assert checkpoints(storage) == [NEWEST]


def test_a_store_that_is_not_lost_is_refused(storage: Place) -> None:
    assert lost(storage, "--apply").code == 0
    a_run_directory(f"{storage.storage}/{SCOPE}/runs/copy/e00000012-carl-0123456789ab")
    told = lost(storage, "--apply")
    assert told.code == 2
    assert "the store is not lost: it knows scope 'rows'" in told.error


def test_a_storage_without_runs_is_refused(place: Place) -> None:
    told = lost(place)
    assert told.code == 2
    assert "has no run directory to go on from; name the storage of the scope" in told.error


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--lost-store", "x"], "--lost-store goes on with all queries of the storage"),
        (["--lost-store", "--query", "x"], "--lost-store goes on with all queries of the storage"),
        ([], "nothing is named to adopt; give CHECKPOINT and --query, or --lost-store"),
        (["x"], "nothing is named to adopt"),
        (["--query", "x"], "nothing is named to adopt"),
    ],
)
def test_words_that_do_not_fit_together(place: Place, arguments: list[str], line: str) -> None:
    told = tenure("adopt", *arguments, *where(place))
    assert told.code == 2
    assert line in told.error
