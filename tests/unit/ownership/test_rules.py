"""The table of what a store says and a storage shows: refused, or not, and with which word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenure.ownership.rules import (
    KEPT,
    Done,
    InStorage,
    InStore,
    Mark,
    Newest,
    changed_since,
    claimed_by_another,
    grant_name,
    marked_by_another,
    not_needed,
    refusal,
)

MINE, OTHER = "1" * 32, "2" * 32
GRANT, ANOTHER = "a" * 12, "b" * 12

STORE = InStore(MINE, 7, {6: GRANT, 7: GRANT}, {"q": Newest(40, 6)})
"""Epoch 6 has planned batch 40, and epoch 7 has begun."""
STORAGE = InStorage(None, (Mark(5, MINE, GRANT), Mark(6, MINE, GRANT)), {"q": Done(39, "runs/q/r/commits/39")})
NOTHING = InStorage()


def mark(epoch: int, identity: str = MINE, grant: str = GRANT) -> Mark:
    return Mark(epoch, identity, grant)


def marked(*marks: Mark) -> InStorage:
    return replace(STORAGE, marks=marks)


def done(batch: int, query: str = "q") -> InStorage:
    return replace(STORAGE, done={query: Done(batch, f"runs/{query}/r/commits/{batch}")})


FINE = {
    "both are new": (InStore(), NOTHING),
    "the first grant, and nothing is marked": (InStore(MINE, 1), NOTHING),
    "claimed, and its first leader died before its mark": (InStore(MINE, 2), InStorage(MINE)),
    "marked, and nothing is planned yet": (InStore(MINE, 2), InStorage(None, (mark(1),))),
    "nothing is planned, and an empty storage is named instead": (InStore(MINE, 9), NOTHING),
    "it goes on": (STORE, STORAGE),
    "its own mark is there already": (STORE, marked(mark(6), mark(7))),
    "the newest batch is done": (STORE, done(40)),
    "a claim that another one wrote over before it saw the marks": (STORE, replace(STORAGE, claimed=OTHER)),
    "an epoch that the store remembers no more": (STORE, marked(mark(2, grant=ANOTHER), mark(6))),
    "the newest checkpoint does not decode": (replace(STORE, newest={"q": Newest(40, None)}), STORAGE),
    "it has ended, and its checkpoints are gone first": (InStore(MINE, 7, ended=True), STORAGE),
    "it has ended, and its marks are gone last": (InStore(MINE, 7, ended=True), NOTHING),
    "its cleanup removes the marks meanwhile": (
        InStore(MINE, 7, ended=True),
        InStorage(done={"q": Done(3, "runs/q/r/commits/3")}, earlier=(MINE,)),
    ),
    "a woken leader left something when all was cleaned up": (
        InStore(MINE, 7, ended=True, clean=True),
        InStorage(done={"q": Done(3, "runs/q/r/commits/3")}),
    ),
}


@pytest.mark.parametrize(("store", "storage"), FINE.values(), ids=FINE.keys())
def test_what_is_of_one_life(store: InStore, storage: InStorage) -> None:
    assert refusal(store, storage, store) is None


ANEW = "to begin anew, use another --scope, and another output"
STORE_FIX = f"restore the store; {ANEW}"
STORAGE_FIX = f"restore the storage; {ANEW}"
EITHER = f"restore the store, or name the storage that is its own; {ANEW}"

REFUSED = {
    "the store was emptied": (
        InStore(),
        STORAGE,
        "it belongs to owner 11111111, and the store knows nothing of that",
        STORE_FIX,
    ),
    "the store was emptied, when the storage was only claimed": (
        InStore(),
        InStorage(MINE),
        "it belongs to owner 11111111, and the store knows nothing of that",
        STORE_FIX,
    ),
    "the store was emptied, and has a new life": (
        InStore(OTHER, 1),
        STORAGE,
        "it belongs to owner 11111111, and the store to owner 22222222",
        EITHER,
    ),
    "another store, which has planned elsewhere": (
        replace(STORE, identity=OTHER),
        STORAGE,
        "it belongs to owner 11111111, and the store to owner 22222222",
        EITHER,
    ),
    "another store was faster": (
        InStore(MINE, 1),
        InStorage(OTHER),
        "it belongs to owner 22222222, and the store to owner 11111111",
        EITHER,
    ),
    "two names": (
        STORE,
        marked(mark(1, OTHER), mark(6)),
        "owner 11111111, owner 22222222 have claimed it at once",
        f"stop the members of one of them, and remove its marks from the folder owner; {ANEW}",
    ),
    "of an older version, or the record was removed": (
        replace(STORE, identity=None),
        STORAGE,
        "the store has checkpoints and no owner: its record 'identity' was removed, or an older version wrote them",
        f"restore the record, if it was removed; {ANEW}",
    ),
    "an older copy of the store, by its epoch": (
        STORE,
        marked(mark(6), mark(8)),
        "it is marked by epoch 8, and the store is in epoch 7, so the store is an older copy",
        STORE_FIX,
    ),
    "an older copy of the store, from before it planned": (
        InStore(MINE, 1),
        STORAGE,
        "it is marked by epoch 6, and the store is in epoch 1, so the store is an older copy",
        STORE_FIX,
    ),
    "an older copy of the store, which has given the epochs again": (
        STORE,
        marked(mark(6), mark(7, grant=ANOTHER)),
        "its mark of epoch 7 is of another grant than the store's, so the store comes from an older copy",
        STORE_FIX,
    ),
    "an older copy of the store, by a batch": (
        STORE,
        done(41),
        "it has runs/q/r/commits/41, and the newest checkpoint of query 'q' is 40, so the store is an older copy",
        STORE_FIX,
    ),
    "an older copy of the store, by a query": (
        STORE,
        done(0, "p"),
        "it has runs/p/r/commits/0, and the store has no checkpoint of query 'p'",
        STORE_FIX,
    ),
    "an empty store, and a storage without marks": (
        InStore(),
        InStorage(done={"q": Done(3, "runs/q/r/commits/3")}),
        "it has runs/q/r/commits/3, and the store has no checkpoint of query 'q'",
        STORE_FIX,
    ),
    "an older copy of the storage": (
        STORE,
        marked(mark(4), mark(5)),
        "it has no mark of epoch 6, in which batch 40 of query 'q' was planned, so it is an older copy, or another one",
        STORAGE_FIX,
    ),
    "an empty storage": (
        STORE,
        NOTHING,
        "it has no mark of epoch 6, in which batch 40 of query 'q' was planned, so it is an older copy, or another one",
        STORAGE_FIX,
    ),
    "it has ended, and this is the storage of somebody else": (
        InStore(MINE, 7, ended=True),
        marked(mark(6, OTHER)),
        "it belongs to owner 22222222, and the store to owner 11111111",
        EITHER,
    ),
    "it has ended, and this is the storage of nobody": (
        InStore(MINE, 7, ended=True),
        InStorage(done={"q": Done(3, "runs/q/r/commits/3")}),
        "it has runs/q/r/commits/3, and no mark of an owner",
        f"restore the storage, or name its own; if this is it, remove runs/q/r; {ANEW}",
    ),
    "it has ended, and this is an older copy of its storage": (
        replace(STORE, ended=True),
        marked(mark(5)),
        "it has no mark of epoch 6, in which batch 40 of query 'q' was planned, so it is an older copy, or another one",
        STORAGE_FIX,
    ),
    "it has ended and is clean, and this is the storage of somebody else": (
        InStore(MINE, 7, ended=True, clean=True),
        marked(mark(6, OTHER)),
        "it belongs to owner 22222222, and the store to owner 11111111",
        "restore the store, or name the storage that is its own; to begin anew, use another --scope, or tenure result "
        "forget and an empty storage, and another output",
    ),
    "it has ended, and its marks were gone before": (
        InStore(MINE, 7, ended=True),
        InStorage(done={"q": Done(3, "runs/q/r/commits/3")}, earlier=(OTHER,)),
        "it has runs/q/r/commits/3, and no mark of an owner",
        f"restore the storage, or name its own; if this is it, remove runs/q/r; {ANEW}",
    ),
}


@pytest.mark.parametrize(("store", "storage", "found", "fix"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_not(store: InStore, storage: InStorage, found: str, fix: str) -> None:
    refused = refusal(store, storage, store)
    assert refused is not None
    assert (refused.found, refused.fix) == (found, fix)


# --- the storage is read between two readings of the store -------------------------------------------------------


def test_a_leader_that_goes_on_meanwhile_is_no_stranger() -> None:
    """It planned batch 41 and noted it as done after the store was read the first time."""
    after = replace(STORE, newest={"q": Newest(41, 6)})
    assert refusal(STORE, done(41), after) is None


def test_a_leader_that_was_elected_meanwhile_is_no_stranger() -> None:
    """Its grant, its mark and its first plan came one by one in between."""
    after = InStore(MINE, 8, {6: GRANT, 7: GRANT, 8: GRANT}, {"q": Newest(41, 8)})
    assert refusal(STORE, STORAGE, after) is None, "its mark came after the storage was read"
    assert refusal(STORE, marked(mark(6), mark(8)), after) is None, "or before"


def test_the_mark_of_an_epoch_that_is_over_meanwhile_may_have_gone() -> None:
    after = replace(STORE, epoch=90, newest={"q": Newest(80, 89)})
    assert refusal(STORE, marked(mark(88), mark(89)), after) is None


def test_a_query_whose_checkpoints_go_meanwhile_is_not_asked_for() -> None:
    assert refusal(STORE, NOTHING, InStore(MINE, 8, ended=True)) is None


# --- what a grant and a plan ask besides -------------------------------------------------------------------------


def test_of_a_claim_only_the_identity_is_asked() -> None:
    assert claimed_by_another(marked(mark(90)), STORE) is None
    assert claimed_by_another(marked(mark(7), mark(1, OTHER)), STORE) is not None


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (mark(6), None),
        (mark(7, OTHER), "owner 11111111, owner 22222222 have claimed it at once"),
        (mark(7, grant=ANOTHER), "its mark of epoch 7 is of another grant than the store's"),
        (mark(8), "it is marked by epoch 8, and the store is in epoch 7"),
    ],
    ids=["nobody", "another store", "a copy of the store, in its epoch", "a copy of the store, in a later one"],
)
def test_whoever_marks_it_at_the_same_time_is_seen(other: Mark, found: str | None) -> None:
    refused = marked_by_another(marked(mark(7), other), STORE)
    assert (refused is None) if found is None else (refused is not None and refused.found.startswith(found))


NOTED = mark(6)


@pytest.mark.parametrize(
    ("storage", "found"),
    [
        (marked(mark(6)), None),
        (marked(mark(9)), None),
        (NOTHING, None),
        (marked(mark(5)), "its newest mark is of epoch 5 now: it is an older copy"),
        (marked(mark(6, OTHER)), "it belongs to owner 22222222 now"),
        (marked(mark(9, OTHER)), "it belongs to owner 22222222 now"),
    ],
    ids=["as it was", "it went on", "it has ended", "an older copy", "another one", "another one, further on"],
)
def test_a_plan_is_applied_to_the_storage_that_it_was_made_of(storage: InStorage, found: str | None) -> None:
    refused = changed_since(NOTED, storage)
    assert (None if refused is None else refused.found) == found


def test_marks_that_nobody_asks_for_any_more() -> None:
    store = InStore(MINE, 30, {}, {"q": Newest(40, 30), "idle": Newest(3, 2)})
    found = marked(*(mark(epoch) for epoch in (1, 2, 3, 20, 25, 26, 27, 28, 29, 30)))
    gone = not_needed(found, store)
    assert [one.epoch for one in gone] == [1, 3, 20, 25]
    left = replace(found, marks=tuple(set(found.marks) - {*gone}))
    assert len(left.marks) == KEPT + 1
    assert refusal(store, left, store) is None


def test_none_goes_of_epochs_that_the_reading_of_the_store_may_not_know() -> None:
    """A leader that was paused between reading the store and removing marks: of later epochs it knows nothing."""
    store = InStore(MINE, 3, {}, {"q": Newest(40, 3)})
    assert not_needed(marked(*(mark(epoch) for epoch in range(1, 30))), store) == []


def test_none_goes_while_a_checkpoint_does_not_say_its_epoch() -> None:
    store = InStore(MINE, 30, {}, {"q": Newest(40, None)})
    assert not_needed(marked(*(mark(epoch) for epoch in range(1, 30))), store) == []


def test_a_mark_is_read_as_it_is_written_and_nothing_else_is_one() -> None:
    one = mark(123456789, grant=grant_name(3, holder="anna", since="today"))
    assert Mark.parse(str(one)) == one
    assert Mark.parse(str(mark(7))) == mark(7)
    for name in ("identity", f"{mark(7)}.part-0123456789abcdef", f"x{mark(7)}", "e00000007", f"e7-{MINE}-{GRANT}"):
        assert Mark.parse(name) is None


def test_each_grant_has_a_name_of_its_own() -> None:
    names = {
        grant_name(epoch, holder=holder, since=since)
        for epoch in (1, 2)
        for holder in ("anna", "ben")
        for since in ("monday", "tuesday")
    }
    assert len(names) == 8
