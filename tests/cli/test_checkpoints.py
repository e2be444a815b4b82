"""`tenure checkpoints` as it is typed, on a store with checkpoints that were made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tenure.cli.options import operator
from tests.cli.conftest import place
from tests.cli.moves import opened, where
from tests.cli.support import Place, Told, tenure
from tests.support.checkpointed import KEPT, Checkpointed
from tests.unit.rundirs.made_by_hand import NEWEST

__all__ = ["place"]


@pytest.fixture
def scope(place: Place) -> Iterator[Checkpointed]:
    with opened(place) as store:
        yield Checkpointed(store, place.storage)


def verb(place: Place, *words: str) -> Told:
    return tenure("checkpoints", *words, *where(place))


def test_whole_checkpoints_are_verified(place: Place, scope: Checkpointed) -> None:
    told = verb(place, "verify")
    assert told.code == 0, told.err
    assert told.out.splitlines() == ["query\tbatch\tverdict\tdamage", f"copy\t{NEWEST}\twhole\t"]
    assert [one["batch"] for one in verb(place, "verify", "copy", "--all", "-o", "json").json] == KEPT


def test_damage_ends_with_5_and_says_what_it_means(place: Place, scope: Checkpointed) -> None:
    (scope.run / "metadata").unlink()
    told = verb(place, "verify", "--all")
    assert told.code == 5
    assert told.error == (
        f"3 of 3 checkpoints damaged: batch {KEPT[0]} of query 'copy': {scope.run}/metadata is missing"
    )
    assert f"checkpoint {NEWEST} of copy: no member can go on: each ends with exit code 5" in told.err
    assert f"checkpoint {KEPT[0]} of copy: no takeover reads it: a leader goes on at batch {NEWEST}" in told.err
    listed = verb(place, "verify", "copy", str(NEWEST), "-o", "json")
    assert listed.code == 5
    assert [(one["batch"], one["verdict"], one["damage"]) for one in listed.json] == [
        (NEWEST, "damaged", [f"{scope.run}/metadata is missing"])
    ]


def test_a_damaged_record_is_a_row(place: Place, scope: Checkpointed) -> None:
    key = f"checkpoints/copy/{NEWEST:012d}"
    place.sql("UPDATE records SET value = ? WHERE key = ?", (b"{}", key))
    told = verb(place, "verify", "--all")
    assert told.code == 5
    assert told.error.startswith(f"1 of 3 checkpoints damaged: batch {NEWEST} of query 'copy': record {key!r}")


def test_refusals_of_verify(place: Place, scope: Checkpointed) -> None:
    told = verb(place, "verify", "other")
    assert (told.code, told.error) == (2, "query 'other' has no checkpoint in scope 'rows'; known: ['copy']")
    assert "kept batches: [11, 12, 13]" in verb(place, "verify", "copy", "7").error
    assert verb(place, "verify", "copy", "7", "--all").error == "--all and batch 7 are given; give one of them"


def test_pin_and_unpin(place: Place, scope: Checkpointed) -> None:
    told = verb(place, "pin", "copy", str(KEPT[0]), "--reason", "audit  of May")
    assert told.code == 0, told.err
    assert f"checkpoint {KEPT[0]} of copy is pinned; " in told.out
    with scope.led() as term:
        for batch in range(NEWEST + 1, NEWEST + 4):
            scope.plan(term, batch)
    rows = verb(place, "list", "-o", "json").json
    assert [row["batch"] for row in rows] == [KEPT[0], NEWEST + 1, NEWEST + 2, NEWEST + 3]
    by, reason = rows[0]["pinned"].split(": ")
    assert by.startswith(f"by {operator()} at ")
    assert reason == "audit of May"
    assert [row["pinned"] for row in rows[1:]] == [None] * 3
    again = verb(place, "pin", "copy", str(KEPT[0]))
    assert (again.code, again.out) == (0, f"checkpoint {KEPT[0]} of copy is pinned already, {rows[0]['pinned']}\n")
    assert verb(place, "unpin", "copy", str(KEPT[0])).out == f"checkpoint {KEPT[0]} of copy is not pinned any more\n"
    assert verb(place, "unpin", "copy", str(KEPT[0])).out == f"checkpoint {KEPT[0]} of copy is not pinned\n"
    assert verb(place, "unpin", "copy", "7").code == 2


def test_the_newest_is_pinned_by_default(place: Place, scope: Checkpointed) -> None:
    assert f"checkpoint {NEWEST} of copy is pinned; " in verb(place, "pin", "copy").out
    assert verb(place, "verify", "--all").code == 0
    assert "tenure: error" not in verb(place, "list").err


def test_diff(place: Place, scope: Checkpointed) -> None:
    for batch in KEPT:
        entries = [{"path": f"file:/in/{batch}-{number}", "batchId": batch} for number in range(2)]
        (scope.run / "sources" / "0" / str(batch)).write_text("\n".join(["v1", *map(json.dumps, entries)]))
    told = verb(place, "diff", "copy", str(KEPT[0]))
    assert told.code == 0, told.err
    assert told.out.splitlines() == [
        "what\tfirst\tsecond\tbetween",
        f"batch\t{KEPT[0]}\t{NEWEST}\t2 batches",
        f"source 0 (files)\tlog entry {KEPT[0]}\tlog entry {NEWEST}\t4 files",
        f"source 1 (rate)\t{KEPT[0] + 100}\t{NEWEST + 100}\t",
    ]
    (scope.run / "sources" / "0" / str(NEWEST)).unlink()
    assert "not known: " in verb(place, "diff", "copy", str(KEPT[0])).out
    refused = verb(place, "diff", "copy", "7")
    assert (refused.code, refused.error) == (2, "query 'copy' has no checkpoint 7; kept batches: [11, 12, 13]")
