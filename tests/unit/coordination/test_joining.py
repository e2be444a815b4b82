"""How a member joins where its name is taken: by its former session, or by another member that lives."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.coordination.candidates import Identity, State
from tenure.coordination.election import Election
from tenure.coordination.joining import join_after_itself
from tenure.coordination.records import Scope
from tenure.coordination.session import Liveness, SessionKeeper
from tenure.errors import UsageError
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE, ANNA = Scope("rows"), Identity("anna", "here", 7)


class Joining:
    """A store, and members that join one after the other. Sleeping moves the clock."""

    def __init__(self) -> None:
        self.clock = Renewing()
        self.store = MemoryStore(MemoryServer(self.clock))

    def election(self) -> Election:
        return Election(self.store, SCOPE, member="anna", clock=self.clock)

    def join(self, election: Election, *, ttl_s: float, who: Identity = ANNA) -> Any:
        """Under a new session. Raises UsageError."""
        session = self.store.open_session(ttl=timedelta(seconds=ttl_s))
        liveness = Liveness(clock=self.clock, until_s=float("inf"))
        keeper = SimpleNamespace(session_id=session.id, ttl=timedelta(seconds=ttl_s), liveness=liveness)
        self.clock.renews = [*self.clock.renews, session]
        assert join_after_itself(
            election, cast(SessionKeeper, keeper), who, state=State.READY, stop=threading.Event(), clock=self.clock
        )
        return session


class Renewing(ManualClock):
    """Renews sessions until an instant."""

    def __init__(self) -> None:
        super().__init__(sleeping_advances=True)
        self.renews: list[Any] = []
        self.kept: list[Any] = []
        self.kept_until_s = 0.0

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        for session in [*self.renews, *(self.kept if self.monotonic_s() < self.kept_until_s else [])]:
            session.renew()


@pytest.fixture
def joining() -> Joining:
    return Joining()


def test_a_former_session_of_a_longer_ttl_is_waited_for(joining: Joining) -> None:
    """A member that was killed, and whose ttl was 60 s, was started again with 10 s, and ended with exit code 2."""
    joining.join(joining.election(), ttl_s=60)
    joining.clock.renews.clear()
    joining.join(joining.election(), ttl_s=10, who=replace(ANNA, pid=8))
    assert 60 <= joining.clock.monotonic_s() < 61


def test_a_process_waits_for_its_own_former_session_however_often_the_store_counts_anew(joining: Joining) -> None:
    """Each election among the store's servers gives all sessions their whole ttl once more."""
    election = joining.election()
    joining.clock.kept.append(joining.join(election, ttl_s=10))
    joining.clock.renews.clear()
    joining.clock.kept_until_s = 45
    joining.join(election, ttl_s=10)
    assert 45 <= joining.clock.monotonic_s() < 56


@pytest.mark.parametrize("joined_before", [False, True])
def test_a_name_that_another_member_keeps_is_refused(joining: Joining, joined_before: bool) -> None:
    election = joining.election()
    if joined_before:
        joining.store.end_session(joining.join(election, ttl_s=10).id)
        joining.clock.renews.clear()
    joining.join(joining.election(), ttl_s=10, who=replace(ANNA, host="there"))
    with pytest.raises(UsageError, match="a live member of scope 'rows' is named 'anna'"):
        joining.join(election, ttl_s=5)
    assert 20 <= joining.clock.monotonic_s() < 21
