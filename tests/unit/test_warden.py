"""The order of a dead agent's end: its drivers' processes, then its session; and what keeps the session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from tenure.agent.processes import ProcessInfo
from tenure.agent.warden import Charge, DriverMark
from tenure.coordination.store import CoordinationStore, Session
from tenure.errors import AccessDenied, SessionEnded, StoreUnavailable
from tenure.warden import GONE_WITHIN_S, carry_out, remains
from tests.kit.clock import ManualClock
from tests.kit.faulty import Call, FaultyStore, Proceed, operation
from tests.kit.memory import MemoryServer, MemoryStore

DRIVER = DriverMark(700, began=50)
HERE = ProcessInfo(os.getpid(), "R", 1, os.getpid(), os.getpid(), threads=1, began=9)
PYTHON = ProcessInfo(700, "S", 1, 700, 700, threads=12, began=50)
JVM = ProcessInfo(710, "S", 700, 700, 700, threads=40, began=60)
WORKER = ProcessInfo(720, "R", 710, 720, 700, threads=1, began=70)
TTL_S = 60.0


@dataclass
class Machine:
    """Processes that end so many looks after they were killed; and what was done, in its order."""

    running: list[ProcessInfo]
    looks_to_die: int = 3
    immortal: tuple[int, ...] = ()
    done: list[str] = field(default_factory=list)
    dying: dict[int, int] = field(default_factory=dict)

    def look(self) -> Sequence[ProcessInfo]:
        for pid, looks in list(self.dying.items()):
            self.dying[pid] = looks - 1
            if looks == 0 and pid not in self.immortal:
                self.running = [one for one in self.running if one.pid != pid]
                del self.dying[pid]
                self.done.append(f"{pid} ended")
        return [HERE, *self.running]

    def kill(self, pid: int) -> None:
        if pid not in self.dying:
            self.done.append(f"{pid} killed")
            self.dying[pid] = self.looks_to_die


class Scene:
    """A session of a dead agent, and its charge."""

    def __init__(self) -> None:
        self.clock = ManualClock(sleeping_advances=True)
        self.store = FaultyStore(MemoryStore(MemoryServer(self.clock)))
        self.session: Session = self.store.open_session(ttl=timedelta(hours=1))
        self.other = self.store.open_session(ttl=timedelta(hours=1))
        self.opened = 0
        self.charge = Charge("sqlite:///ha.db", str(self.session.id), self.session.testament, TTL_S, (DRIVER,))

    def open(self, url: str) -> CoordinationStore:
        assert url == "sqlite:///ha.db"
        self.opened += 1
        return KeptOpen(self.store)

    def carry_out(self, machine: Machine, charge: Charge | None = None) -> str:
        def noted(call: Call, proceed: Proceed) -> object:
            machine.done.append("session")
            return proceed()

        self.store.script(noted, when=operation("end_session"), times=None)
        return carry_out(
            charge or self.charge, open_store=self.open, clock=self.clock, look=machine.look, kill=machine.kill
        )

    @property
    def lives(self) -> bool:
        try:
            self.session.renew()
        except SessionEnded:
            return False
        return True


class KeptOpen(FaultyStore):
    """A client that stays open for the test."""

    def close(self) -> None: ...


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_session_ends_after_the_last_process_of_the_driver(scene: Scene) -> None:
    machine = Machine([PYTHON, JVM, WORKER])
    said = scene.carry_out(machine)
    assert machine.done[-1] == "session"
    assert sorted(machine.done[:-1]) == sorted(f"{one} {how}" for one in (700, 710, 720) for how in ("killed", "ended"))
    assert not scene.lives
    scene.other.renew()
    assert "was ended" in said


def test_a_process_that_does_not_end_keeps_the_session(scene: Scene) -> None:
    machine = Machine([PYTHON, JVM], immortal=(710,))
    began_s = scene.clock.monotonic_s()
    said = scene.carry_out(machine)
    assert scene.clock.monotonic_s() - began_s >= GONE_WITHIN_S
    assert (scene.lives, scene.opened) == (True, 0)
    assert said.endswith("ends at its ttl: processes of the driver may still run")


def test_processes_that_cannot_be_seen_keep_the_session(scene: Scene) -> None:
    assert "may still run" in carry_out(scene.charge, open_store=scene.open, clock=scene.clock, look=tuple)
    assert (scene.lives, scene.opened) == (True, 0)


def test_a_process_that_one_look_misses_is_not_overlooked(scene: Scene) -> None:
    looks = iter([[HERE], [HERE, WORKER], [HERE, WORKER], [HERE], [HERE]])
    killed: list[int] = []
    said = carry_out(
        scene.charge, open_store=scene.open, clock=scene.clock, look=lambda: next(looks), kill=killed.append
    )
    assert killed == [720, 720]
    assert "was ended" in said


@pytest.mark.parametrize(
    ("running", "left"),
    [
        ([PYTHON, JVM, WORKER], [700, 710, 720]),
        ([JVM], [710]),
        ([replace(PYTHON, state="Z", threads=1)], []),
        ([replace(PYTHON, state="Z", threads=3)], [700]),  # its first thread has ended
        ([replace(PYTHON, began=51), replace(JVM, began=52)], []),  # another process has the id of the driver
        ([replace(PYTHON, pid=800, session=800)], []),
    ],
)
def test_what_remains_of_a_driver(running: list[ProcessInfo], left: list[int]) -> None:
    assert [one.pid for one in remains(DRIVER, running)] == left


def test_a_store_that_comes_back_is_asked_again(scene: Scene) -> None:
    scene.store.be_unavailable(when=operation("end_session"), times=4)
    scene.store.lose_request(when=operation("end_session"), times=1)
    said = scene.carry_out(Machine([]))
    assert scene.opened == 5
    assert not scene.lives
    assert "was ended" in said


def test_a_store_that_stays_away_is_left_at_the_ttl(scene: Scene) -> None:
    scene.store.be_unavailable(when=operation("end_session"), times=None)
    began_s = scene.clock.monotonic_s()
    said = scene.carry_out(Machine([]))
    assert TTL_S <= scene.clock.monotonic_s() - began_s < TTL_S + 5
    assert scene.lives
    assert "ends at its ttl: end_session: the store is unreachable" in said


def test_a_refusal_is_final(scene: Scene) -> None:
    def refuse(call: Call, proceed: Proceed) -> object:
        raise AccessDenied("etcd does not permit to close a session")

    scene.store.script(refuse, when=operation("end_session"), times=None)
    assert scene.carry_out(Machine([])).endswith("ends at its ttl: etcd does not permit to close a session")
    assert scene.opened == 1


def test_a_client_that_cannot_be_made_is_one_line(scene: Scene) -> None:
    def gone(url: str) -> CoordinationStore:
        raise StoreUnavailable("store /x does not exist")

    said = carry_out(replace(scene.charge, drivers=(), ttl_s=0), open_store=gone, clock=scene.clock)
    assert said.endswith("ends at its ttl: store /x does not exist")


def test_a_charge_is_one_line_and_shows_no_secret() -> None:
    charge = Charge("etcd://a:secret@host", "7f", "testament", 10.0, (DRIVER, DriverMark(2, 3)))
    assert Charge.from_json(charge.to_json()) == charge
    assert "\n" not in charge.to_json()
    assert "secret" not in repr(charge)
    assert "testament'" not in repr(charge)
