"""The marks of an owner on every kind of storage: the first one stays, and of two at once at most one goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tenure.coordination.election import Election
from tenure.coordination.records import Record, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch
from tenure.ownership.marks import Marks
from tenure.ownership.owner import Owner
from tenure.ownership.rules import InStorage, Mark
from tenure.storage.blobs import FileBlobs
from tenure.storage.storage import Storage
from tests.contract.test_hdfs import hdfs  # noqa: F401 # a fixture, asked for by its name
from tests.faults.lab import TTL, StillKeeper
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore
from tests.kit.servers import BUCKET
from tests.lives import bring_back, copy_of

ROWS = Scope("rows")
MINE, OTHER = "1" * 32, "2" * 32
FIRST, SECOND = Mark(7, MINE, "a" * 12), Mark(8, MINE, "b" * 12)
KINDS = ("local", "s3", pytest.param("hdfs", marks=pytest.mark.long))


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A scope's part of a new storage."""
    if request.param == "local":
        return f"{tmp_path}/storage/rows"
    if request.param == "hdfs":
        return f"{request.getfixturevalue('hdfs').url}/{os.urandom(6).hex()}/rows"
    request.getfixturevalue("gate")
    return f"s3://{BUCKET}/{os.urandom(6).hex()}/rows"


def test_the_first_claim_stays(storage: str) -> None:
    assert Marks(storage).look() == InStorage()
    assert Marks(storage).claim(MINE) == MINE
    assert Marks(storage).claim(OTHER) == MINE
    assert Marks(storage).claim(MINE) == MINE
    assert Marks(storage).look() == InStorage(claimed=MINE)


def test_marks_are_put_listed_and_removed(storage: str) -> None:
    marks = Marks(storage)
    for one in (FIRST, SECOND, FIRST):
        marks.put(one, holder="anna", since="today")
    FileBlobs(f"{storage}/owner").write("notes.txt", b"x")
    assert set(Marks(storage).look().marks) == {FIRST, SECOND}
    marks.drop(FIRST)
    marks.drop(FIRST)
    assert Marks(storage).look().marks == (SECOND,)


class Contender:
    """The only member of a store of its own, which may be a copy of another one."""

    def __init__(self, storage: str, *, member: str = "anna", of: Sequence[Record] = ()) -> None:
        clock = ManualClock(sleeping_advances=True)
        self.store = MemoryStore(MemoryServer(clock))
        bring_back(self.store, ROWS, of)
        self._keeper: SessionKeeper = StillKeeper(self.store, ttl=TTL, clock=clock).__enter__()
        self.election = Election(self.store, ROWS, member=member, clock=clock)
        self.term: Term = self.lead()
        self.owner = Owner(self.store, ROWS, storage=storage, clock=clock)

    def lead(self) -> Term:
        term = self.election.campaign(self._keeper, stop=_Never())
        assert term is not None
        return term

    def lead_again(self) -> None:
        self.election.resign(self.term)
        self.term = self.lead()

    def own(self) -> str:
        """`own`, or why it was refused."""
        try:
            self.owner.own(self.term)
        except OwnerMismatch as refused:
            return refused.what
        return "owns it"

    def meanwhile(self, do: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        """Do something between its first looks at the storage and its claim."""
        put = self.owner._put

        def late(*what: Any) -> None:
            do()
            put(*what)

        patch.setattr(self.owner, "_put", late)

    def before_it_looks_again(self, do: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        """Do something between its claim and its last look at the storage."""
        put = self.owner._put

        def put_first(*what: Any) -> None:
            put(*what)
            do()

        patch.setattr(self.owner, "_put", put_first)


class _Never:
    def is_set(self) -> bool:
        return False


def test_of_two_stores_the_second_is_refused_and_leaves_no_trace(storage: str) -> None:
    first, second = Contender(storage), Contender(storage)
    assert first.own() == "owns it"
    before = Marks(storage).look()
    assert "in this store: it belongs to owner" in second.own()
    assert Marks(storage).look() == before
    first.owner.check()


def test_of_two_stores_that_claim_it_at_once_one_goes_on(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Contender(storage), Contender(storage)
    second.meanwhile(lambda: told.append(first.own()), monkeypatch)
    told: list[str] = []
    assert "it belongs to owner" in second.own()
    assert told == ["owns it"]
    first.owner.check()
    first.owner.own(first.term)


@pytest.fixture
def copies(storage: str) -> tuple[Contender, Contender]:
    """Two stores of one identity: the second one is a copy of the first one. Each has been granted epoch 2."""
    first = Contender(storage)
    assert first.own() == "owns it"
    second = Contender(storage, member="ben", of=copy_of(first.store, ROWS))
    first.lead_again()
    assert (first.term.epoch, second.term.epoch) == (2, 2)
    return first, second


def test_of_two_copies_of_a_store_with_grants_at_once_one_goes_on(
    copies: tuple[Contender, Contender], storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = copies
    second.meanwhile(lambda: told.append(first.own()), monkeypatch)
    told: list[str] = []
    assert "its mark of epoch 2 is of another grant than the store's" in second.own()
    assert told == ["owns it"]
    assert [mark.epoch for mark in sorted(Marks(storage).look().marks)] == [1, 2]
    first.owner.check()
    assert first.own() == "owns it"


def test_of_two_copies_of_a_store_who_has_the_lower_epoch_does_not_go_on(
    copies: tuple[Contender, Contender], storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = copies
    second.lead_again()
    first.meanwhile(lambda: told.append(second.own()), monkeypatch)
    told: list[str] = []
    assert "it is marked by epoch 3, and the store is in epoch 2, so the store is an older copy" in first.own()
    assert told == ["owns it"]
    assert [mark.epoch for mark in sorted(Marks(storage).look().marks)] == [1, 3]
    second.owner.check()


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every storage takes every put, whatever is there, as S3 servers do that do not know of conditions."""

    def put(self: Storage, path: str, data: bytes) -> None:
        self.replace(path, data)

    monkeypatch.setattr(Storage, "write", put)


@pytest.mark.usefixtures("deaf")
def test_where_nothing_is_put_if_absent_who_finds_another_mark_removes_its_own(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the rightful leader is not stopped by it, neither now nor at its next start."""
    Marks(storage).claim(OTHER)
    assert Marks(storage).claim(MINE) == MINE, "it takes every put"
    FileBlobs(f"{storage}/owner").delete("identity")
    first, second = Contender(storage), Contender(storage)
    second.meanwhile(lambda: told.append(first.own()), monkeypatch)
    told: list[str] = []
    assert "have claimed it at once" in second.own()
    assert told == ["owns it"], "nobody else was there"
    assert len(Marks(storage).look().marks) == 1
    first.owner.check()
    assert first.own() == "owns it"
    first.lead_again()
    assert first.own() == "owns it"


@pytest.mark.usefixtures("deaf")
def test_where_nothing_is_put_if_absent_two_at_once_refuse_both(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each removes its own mark, and not the other's."""
    one = Contender(storage)
    one.before_it_looks_again(lambda: Marks(storage).put(FIRST, holder="ben", since="today"), monkeypatch)
    assert "have claimed it at once" in one.own()
    assert Marks(storage).look().marks == (FIRST,)


@pytest.mark.usefixtures("deaf")
def test_where_nothing_is_put_if_absent_who_comes_later_is_refused(storage: str) -> None:
    first, second = Contender(storage), Contender(storage)
    assert first.own() == "owns it"
    assert "it belongs to owner" in second.own()
    first.owner.check()
