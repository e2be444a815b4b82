"""A member around a driver that is made up, on a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import pytest

from tenure.agent import member as member_module
from tenure.agent.failures import Limits
from tenure.agent.member import Conduct, Member
from tenure.clock import SystemClock
from tenure.coordination import failing as failing_module
from tenure.coordination.candidates import NOT_BEHIND, Identity, Lag
from tenure.coordination.election import Flag
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term
from tenure.events import Event, Events
from tenure.link.driver import Ended, ReadRecords
from tenure.operate.history import history
from tenure.retry import fixed_delay
from tenure.scope_context import ScopeContext
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, CLOCK = Scope("rows"), SystemClock()
Step = Callable[[Term], Ended]


class Scripted:
    """A driver that does one step for each term that it gets, and one of `cleans` for each that it cleans under."""

    def __init__(self, *steps: Step, cleans: Sequence[Step] = ()) -> None:
        self.steps = list(steps)
        self.cleans = list(cleans)
        self.cleaned = 0
        self.prepared = 0
        self.gone: str | None = "it was not started"
        self.epochs: list[int] = []

    def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
        fresh = self.gone is not None
        self.prepared += fresh
        self.gone = None
        return fresh

    def hear(self, records: Sequence[Record]) -> None:
        self.heard = records

    def elected(self) -> None:
        self.elections += 1

    heard: Sequence[Record] = ()
    elections = 0
    warm = False
    lag: Lag | None = None
    trouble = ""
    silent_s = 0.0
    behind: Mapping[str, int] = NOT_BEHIND
    file = "0123456789ab"
    spark = ""

    def lead(self, term: Term, *, stop: Flag, finish: Flag) -> Ended:
        self.finish = finish
        self.epochs.append(term.epoch)
        return self.steps.pop(0)(term)

    def clean(self, term: Term, *, stop: Flag) -> Ended:
        self.cleaned += 1
        self.epochs.append(term.epoch)
        self.gone = "it was closed"
        return self.cleans.pop(0)(term)

    def close(self) -> None:
        self.gone = "it was closed"


class Scene:
    """A store, and what members told of themselves."""

    def __init__(self) -> None:
        self.server = MemoryServer()
        self.store = MemoryStore(self.server)
        self.told: list[Event] = []

    def member(
        self,
        driver: Scripted,
        *,
        name: str = "anna",
        ttl: float = 30,
        store: CoordinationStore | None = None,
        hold: bool = True,
        cold: bool = False,
        final: bool = False,
        ends: bool = False,
        limits: Limits | None = None,
    ) -> Member:
        context = ScopeContext(store or self.store, SCOPE, "memory://nothing", CLOCK, Events(self.told.append))
        conduct = Conduct(
            timedelta(seconds=ttl), hold=hold, cold=cold, final=final, ends=ends, limits=limits or Limits()
        )
        return Member(context, identity=Identity(name, "here", 7), driver=driver, conduct=conduct)

    def words(self) -> list[str]:
        return [one.why for one in history(self.store, SCOPE).terms]


def make_scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    at_once = fixed_delay(delay=timedelta(milliseconds=10))
    monkeypatch.setattr(member_module, "DRIVER_RESTART", at_once)
    monkeypatch.setattr(member_module, "STORE_RETRY", at_once)
    for policy in ("AWAY_RETRY", "BATCH_RETRY"):
        monkeypatch.setattr(failing_module, policy, at_once)
    return Scene()


def fail(error: BaseException) -> Step:
    def step(term: Term) -> Ended:
        raise error

    return step
