"""Three members of one SQLite store, in three processes, while somebody is busy with its files: in every order.

After each step each member asks for its term, and never do two terms stand. At the end the second name goes, a ttl
passes, all members start again, and one of them leads. A copy at another path is another store, which no member opens
here: only the marks in the storage know that it is a copy.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.support.store_member import Member

NAMES: Final = ("anna", "ben", "carl")
SAMPLE: Final = 30
SAMPLE_STEPS: Final = 5
ALL_STEPS: Final = 3


class Scene:
    """The files, and the members, each of which is open or not. The last uses the second name while that exists."""

    def __init__(self, folder: Path, members: Sequence[Member]) -> None:
        self._path = folder / "ha.db"
        self._other = folder / "other.db"
        self._members = members
        for member in members:
            member.ask("close")
        self._open = [False] * len(members)

    def work(self, number: int) -> None:
        """Open if that was not done, contend without a term, write under a term."""
        member = self._members[number]
        if not self._open[number]:
            by_other = number == len(NAMES) - 1 and self._other.exists() and self._other.samefile(self._path)
            self._open[number] = member.ask("open", self._other if by_other else self._path) == "open"
        if self._open[number] and member.ask("write") != "written":
            member.ask("lead")

    def start_again(self, number: int) -> None:
        """End, and be a newcomer."""
        self._members[number].ask("close")
        self._open[number] = False
        self.work(number)

    def read_bytes(self, number: int) -> None:
        """Lose the locks that POSIX gives."""
        self._members[number].ask("read", self._path, self._beside("-wal"), self._beside("-shm"))

    def remove_log(self) -> None:
        self._beside("-wal").unlink(missing_ok=True)
        self._beside("-shm").unlink(missing_ok=True)

    def remove_index(self) -> None:
        self._beside("-shm").unlink(missing_ok=True)

    def replace_file(self) -> None:
        """By a copy of itself, as a restore of a backup does."""
        if self._path.exists():
            copy = self._path.with_name("copy")
            shutil.copy(self._path, copy)
            copy.rename(self._path)

    def second_name(self) -> None:
        """Give the file a second name, or take it away."""
        if self._other.exists():
            self._other.unlink()
        elif self._path.exists():
            os.link(self._path, self._other)

    def standing(self) -> list[str]:
        """The members whose terms stand."""
        return [name for name, member in zip(NAMES, self._members, strict=True) if member.ask("check") == "stands"]

    def somebody_leads_in_the_end(self) -> bool:
        """Once the second name is gone, all members have started again, and a ttl is over. A session that came back
        with an older state of the database has no lock any more: its ttl decides."""
        self._other.unlink(missing_ok=True)
        for _ in range(2):
            for number in range(len(self._members)):
                self._members[number].ask("close")
                self._open[number] = False
            for number in range(len(self._members)):
                self.work(number)
            if len(self.standing()) == 1:
                return True
            for member in self._members:
                member.ask("pass")
        return False

    def _beside(self, ending: str) -> Path:
        return self._path.with_name(self._path.name + ending)


Step = tuple[Callable[..., None], tuple[int, ...]]
STEPS: Final[tuple[Step, ...]] = (
    *((Scene.work, (number,)) for number in range(3)),
    *((Scene.start_again, (number,)) for number in range(3)),
    *((Scene.read_bytes, (number,)) for number in range(3)),
    *((act, ()) for act in (Scene.remove_log, Scene.remove_index, Scene.replace_file, Scene.second_name)),
)


@pytest.fixture(scope="module")
def members() -> Iterator[list[Member]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Member(name)) for name in NAMES]


def play(story: Sequence[Step], folder: Path, members: Sequence[Member]) -> None:
    folder.mkdir()
    scene = Scene(folder, members)
    scene.start_again(0)
    scene.start_again(0)  # now the tables are in the file, and not in the log alone
    assert scene.standing() == ["anna"]
    played = []
    for act, arguments in story:
        act(scene, *arguments)
        played.append(f"{act.__name__}{arguments}")
        standing = scene.standing()
        assert len(standing) <= 1, (played, standing)
    assert scene.somebody_leads_in_the_end(), played
    shutil.rmtree(folder)


def test_some_orders(tmp_path: Path, members: list[Member]) -> None:
    chance = random.Random(37)
    for number in range(SAMPLE):
        play(chance.choices(STEPS, k=SAMPLE_STEPS), tmp_path / str(number), members)


@pytest.mark.long
@pytest.mark.parametrize("first", range(len(STEPS)))
def test_every_order(first: int, tmp_path: Path, members: list[Member]) -> None:
    for number, rest in enumerate(itertools.product(STEPS, repeat=ALL_STEPS - 1)):
        play((STEPS[first], *rest), tmp_path / str(number), members)
