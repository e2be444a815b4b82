"""The marks of an owner on every kind of storage: the first one stays, and of two at once at most one goes on."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.backends.memory import MemoryServer, MemoryStore
from tenure.blobs.filesystem import FileBlobs
from tenure.coordination.election import Election
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch
from tenure.ownership.marks import Marks
from tenure.ownership.owner import Owner
from tenure.ownership.rules import InStorage, Mark
from tenure.testing.clock import ManualClock
from tenure.testing.servers import BUCKET
from tests.contract.test_hdfs import hdfs  # noqa: F401 # a fixture, asked for by its name
from tests.faults.lab import TTL, StillKeeper

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
    """The only member of a store of its own."""

    def __init__(self, storage: str) -> None:
        clock = ManualClock(sleeping_advances=True)
        store = MemoryStore(MemoryServer(clock))
        keeper: SessionKeeper = StillKeeper(store, ttl=TTL, clock=clock).__enter__()
        term = Election(store, ROWS, member="anna", clock=clock).campaign(keeper, stop=_Never())
        assert term is not None
        self.term: Term = term
        self.owner = Owner(store, ROWS, storage=storage, clock=clock)

    def own(self) -> str:
        """`own`, or why it was refused."""
        try:
            self.owner.own(self.term)
        except OwnerMismatch as refused:
            return refused.what
        return "owns it"

    def meanwhile(self, do: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        """Do something between its first look at the storage and its claim."""
        marks = self.owner._marks
        look = marks.look

        def looked() -> InStorage:
            found = look()
            patch.setattr(marks, "look", look)
            do()
            return found

        patch.setattr(marks, "look", looked)


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
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every storage takes every put, whatever is there, as S3 servers do that do not know of conditions."""

    def put(self: FileBlobs, path: str, data: bytes) -> None:
        self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._fs.pipe_file(path, data)

    monkeypatch.setattr(FileBlobs, "_write", put)


@pytest.mark.usefixtures("deaf")
def test_where_nothing_is_put_if_absent_two_names_refuse_both(storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Marks(storage).claim(OTHER)
    assert Marks(storage).claim(MINE) == MINE, "it takes every put"
    FileBlobs(f"{storage}/owner").delete("identity")
    first, second = Contender(storage), Contender(storage)
    second.meanwhile(lambda: told.append(first.own()), monkeypatch)
    told: list[str] = []
    assert "have claimed it at once" in second.own()
    assert told == ["owns it"], "nobody else was there"
    with pytest.raises(OwnerMismatch, match="have claimed it at once"):
        first.owner.check()
    assert "have claimed it at once" in first.own()


@pytest.mark.usefixtures("deaf")
def test_where_nothing_is_put_if_absent_who_comes_later_is_refused(storage: str) -> None:
    first, second = Contender(storage), Contender(storage)
    assert first.own() == "owns it"
    assert "it belongs to owner" in second.own()
    first.owner.check()
