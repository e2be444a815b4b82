"""The real handle store, interrupted at each of its requests: between two requests of the leader, or while the outcome
of one is unknown, a reader locks, or another thread of the leader writes the same area.

The model (`tests/unit/handles/test_anchor_edges.py`) has every interleaving of the rules. Here is the code that uses
the rules, with the anchor that the threads of a client share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from tenure.errors import HandleLocked, HandleNotFound, OutcomeUnknown, StoreUnavailable, TenureError
from tenure.handles.handle import Lock
from tests.faults.lab import Lab, Member, big
from tests.kit.faulty import Call, Proceed, commits

ONE, TWO, THREE = big("one"), big("two"), big("three")


class Scene:
    """A leader that has handles `x` and `y`, and a reader."""

    def __init__(self, folder: Path) -> None:
        self.lab = Lab(folder)
        self.leader, self.reader = self.lab.member("a"), self.lab.member("b")
        self.term = self.leader.lead()
        self.x = self.leader.handles.add(self.term, "x", ONE)
        self.leader.handles.add(self.term, "y", ONE)
        self.lock: Lock | None = None  # None: there is none
        self.late: list[Proceed] = []
        """Requests that have not arrived yet."""

    def locks(self, member: Member) -> None:
        with suppress(HandleNotFound):
            self.lock = self.reader.handles.lock("x", session=member.keeper.session_id)

    def is_right(self) -> None:
        self.lab.audit()  # each pointer has its blob
        if self.lock is not None:
            assert self.reader.handles.stands(self.lock)
            assert self.lock.handle.name in self.lab.pointers()
            assert self.reader.handles.payload(self.lock.handle) in {ONE, TWO}


def a_reader_locks(scene: Scene) -> None:
    scene.locks(scene.reader)


def a_reader_locks_and_releases(scene: Scene) -> None:
    scene.locks(scene.reader)
    if scene.lock is not None:
        scene.reader.handles.release(scene.lock)
        scene.lock = None


def a_reader_locks_and_dies(scene: Scene) -> None:
    scene.locks(scene.reader)
    scene.lock = None
    scene.reader.dies()


def a_thread_of_the_leader_locks(scene: Scene) -> None:
    with suppress(HandleNotFound):
        scene.lock = scene.leader.handles.lock("x", session=scene.leader.keeper.session_id)


def a_thread_of_the_leader_adds(scene: Scene) -> None:
    scene.leader.handles.add(scene.term, "w", ONE)


def a_thread_of_the_leader_removes(scene: Scene) -> None:
    scene.leader.handles.remove(scene.term, "y")


INTERRUPTIONS: tuple[Callable[[Scene], None], ...] = (
    a_reader_locks,
    a_reader_locks_and_releases,
    a_reader_locks_and_dies,
    a_thread_of_the_leader_locks,
    a_thread_of_the_leader_adds,
    a_thread_of_the_leader_removes,
)

OPERATIONS: Mapping[str, Callable[[Scene], object]] = {
    "add": lambda scene: scene.leader.handles.add(scene.term, "z", THREE),
    "replace": lambda scene: scene.leader.handles.replace(scene.term, scene.x, TWO),
    "remove": lambda scene: scene.leader.handles.remove(scene.term, "x"),
    "add and remove": lambda scene: scene.leader.handles.add(scene.term, "z", THREE, remove=[scene.x]),
}


def interrupts(scene: Scene, interruption: Callable[[Scene], None], how: str, *, at: int) -> Callable[[], bool]:
    """Interrupt the leader's `at`-th request from now on; returns a function that says whether there was one."""
    number = count()
    done: list[Call] = []

    def is_it(call: Call) -> bool:
        return not done and next(number) == at

    def fault(call: Call, proceed: Proceed) -> object:
        done.append(call)
        lost = OutcomeUnknown("lost") if commits(call) else StoreUnavailable("lost")
        if how == "before":
            interruption(scene)
            return proceed()
        if how != "late":
            answer = proceed()
            interruption(scene)
            if how == "after":
                return answer
        else:
            interruption(scene)
            if commits(call):
                scene.late.append(proceed)
        raise lost

    scene.leader.store.script(fault, when=is_it)
    return lambda: bool(done)


def names_after(operation: str, before: set[str]) -> set[str]:
    added = {"z"} if operation.startswith("add") else set()
    removed = {"x"} if operation.endswith("remove") else set()
    return (before | added) - removed


@pytest.mark.parametrize("how", ["before", "after", "reply lost", "late"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_interrupted_operation_has_one_outcome(operation: str, how: str, tmp_path: Path) -> None:
    tried = 0
    for interruption in INTERRUPTIONS:
        for at in count():
            scene = Scene(tmp_path / f"{interruption.__name__}-{at}")
            happened = interrupts(scene, interruption, how, at=at)
            what = f"{operation}, request {at}, {how}, {interruption.__name__}"
            refused = False
            try:
                OPERATIONS[operation](scene)
            except HandleLocked:
                refused = True
                assert scene.lock is not None or scene.late, what
            if not happened():
                break
            tried += 1
            scene.is_right()
            found = scene.lab.pointers()
            others = set(found) - {"x", "z"}
            expected = others | {"x"} if refused else names_after(operation, others | {"x"})
            assert set(found) == expected, what
            for request in scene.late:
                with suppress(TenureError):
                    request()
            assert scene.lab.pointers() == found, what
            scene.is_right()
    assert tried >= len(INTERRUPTIONS)
