"""Which paths belong to nobody: by epoch, by session, by what is named; never by age."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenure.checkpoints.run_name import RunName
from tenure.cleanup.orphans import Claims, is_orphan, orphans_in, scratch_folder

UID = "0123456789ab"
CLAIMS = Claims(
    epoch=5,
    holder="anna",
    members=frozenset({"anna", "ben"}),
    named=frozenset({f"runs/q/e00000003-dead-{UID}", "blobs/e00000002/checkpoints/q/7-x"}),
)


@pytest.mark.parametrize(
    ("path", "orphan"),
    [
        (f"runs/q/e00000004-anna-{UID}", True),
        (f"runs/q/e00000004-ben-{UID}", True),
        (f"runs/q/e00000003-dead-{UID}", False),  # a checkpoint names it
        (f"runs/q/e00000005-anna-{UID}", False),  # it is run in now
        (f"runs/q/e00000006-ben-{UID}", False),  # a standby's mirror
        (f"runs/q/e00000006-carl-{UID}", True),  # whose session is gone
        (f"runs/q/e00000005-carl-{UID}", True),
        (f"runs/q/e00000005-ben-{UID}", True),  # he was not elected: nobody can run in it
        (f"runs/q/e00000006-anna-{UID}", False),
        (f"runs/q/e00000007-carl-{UID}", False),  # of another store: here nobody mirrors for an epoch so far ahead
        (f"runs/q/e00000003-two-words-{UID}", True),
        ("runs/q/notes.txt", False),
        ("runs/q/", False),
        (f"runs/q/e00000004-anna-{UID}/offsets", False),
        ("blobs/e00000004/checkpoints/q/8-y", True),
        ("blobs/e00000004/checkpoints/q/8-y.part-00", True),
        ("blobs/e00000004/checkpoints/q/", True),
        ("blobs/e00000004/", True),
        ("blobs/e00000002/checkpoints/q/7-x", False),
        ("blobs/e00000005/checkpoints/q/9-z", False),
        ("blobs/e00000005/", False),
        ("blobs/notes.txt", False),
        ("blobs/e4", False),
        ("rehearsals/ben/q-0", False),
        ("rehearsals/carl/q-0", True),
        ("rehearsals/anna/q-0", True),  # she leads
        ("rehearsals/carl/", True),
        ("rehearsals/carl", False),
        ("notes.txt", False),
        ("", False),
    ],
)
def test_by_epoch_session_and_name(path: str, orphan: bool) -> None:
    assert is_orphan(path, CLAIMS) is orphan
    assert not orphan or is_orphan(path, Claims(5, "anna")), "what is none at least is none"


UNLED = Claims(epoch=2, holder="", members=frozenset({"ben"}), named=frozenset())


@pytest.mark.parametrize(
    ("path", "orphan"),
    [
        (f"runs/q/e00000002-ben-{UID}", False),  # he may win the next epoch, and run in it
        (f"runs/q/e00000002-carl-{UID}", True),  # whose session is gone
        (f"runs/q/e00000001-anna-{UID}", True),  # she led
        (f"runs/q/e00000003-carl-{UID}", False),  # of another store
        ("blobs/e00000001/checkpoints/q/7-x", True),
        ("blobs/e00000002/checkpoints/q/8-y", False),
        ("rehearsals/ben/q-0", False),
    ],
)
def test_where_nobody_leads_the_mirrors_of_the_next_epoch_are_their_members(path: str, orphan: bool) -> None:
    assert is_orphan(path, UNLED) is orphan
    assert not orphan or is_orphan(path, Claims(2, "")), "what is none at least is none"
    if path.startswith("runs/"):
        assert orphans_in(f"{path}/state/0/0", UNLED) is orphan


MEMBERS = st.sampled_from(["anna", "ben", "carl", "e00000001-x", f"a-{UID}"])


@given(st.integers(1, 10), MEMBERS, st.integers(1, 10), st.sets(MEMBERS), st.tuples(st.booleans(), st.booleans()))
def test_what_may_still_be_run_never_is(
    epoch: int, member: str, term: int, members: set[str], named_led: tuple[bool, bool]
) -> None:
    named, led = named_led
    path = str(RunName.new("q", epoch=epoch, member=member))
    found = RunName.parse(path)
    assert found is not None
    assert (found.query, found.epoch, found.member) == ("q", epoch, member)
    holder, next_term = ("anna", term + 1) if led else ("", term)
    claims = Claims(term, holder, frozenset(members), frozenset({path}) if named else frozenset())
    mirrored = epoch == next_term and member in {holder, *members}
    may_be_run = named or mirrored or (epoch == term and member == holder) or epoch > next_term
    assert is_orphan(path, claims) is not may_be_run


def test_what_a_sink_left_in_its_scratch_folder_goes_when_its_epoch_is_over() -> None:
    folder = scratch_folder("copy", 7, epoch=3)
    assert folder != scratch_folder("copy", 7, epoch=3)
    assert not is_orphan(f"{folder}/part-0.parquet", Claims(3, "host-a"))
    assert is_orphan(f"{folder}/part-0.parquet", Claims(4, "host-a"))
