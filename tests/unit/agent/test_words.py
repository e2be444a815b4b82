"""What a session says that it is for."""

from __future__ import annotations

import pytest

from tenure.agent.words import leading, standing_by
from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.coordination.candidates import State
from tenure.coordination.records import Key, Record, Version


def record(key: str) -> Record:
    return Record(Key(key), b"", Version("1"), None)


def test_a_leader_names_each_query_with_its_newest_batch() -> None:
    batches = [f"checkpoints/{query}/{checkpoint_name(batch)}" for query, batch in (("b", 3), ("a", 12), ("a", 9))]
    records = [record("epoch"), *map(record, batches), record(f"{batches[0]}/lock-99")]
    assert leading("anna", "shop", epoch=3, records=records) == "anna leads shop, epoch 3, a batch 12, b batch 3"


def test_a_leader_that_has_planned_nothing_says_no_batch() -> None:
    assert leading("anna", "shop", epoch=1, records=[record("checkpoints/totals")]) == "anna leads shop, epoch 1"


@pytest.mark.parametrize("state", [state for state in State if state is not State.LEADING])
def test_a_standby_says_for_which_pipeline(state: State) -> None:
    assert standing_by("bert", "shop", state).startswith("bert st")
    assert standing_by("bert", "shop", state).endswith(" for shop")
