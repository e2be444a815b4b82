"""What a member says of itself in the store, and how often at most."""

from __future__ import annotations

from datetime import timedelta

from tenure.clock import SystemClock
from tenure.coordination.candidates import Candidate, Lag, State
from tenure.coordination.election import Election, observe
from tenure.coordination.records import Scope
from tenure.coordination.session import SessionKeeper
from tests.kit.clock import ManualClock
from tests.kit.memory import MemoryServer, MemoryStore

SCOPE = Scope("rows")
LONG = timedelta(seconds=600)


def test_a_lag_alone_is_written_every_few_seconds_at_most_and_with_every_change_of_state() -> None:
    clock, store = ManualClock(), MemoryStore(MemoryServer())
    with SessionKeeper(store, ttl=LONG, clock=SystemClock()) as keeper:
        election = Election(store, SCOPE, member="anna", clock=clock)
        election.join(keeper, host="here", pid=7)

        def announce(state: State, lag: Lag | None) -> Candidate:
            election.announce(keeper, state, lag=lag)
            (found,) = observe(store, SCOPE).members
            return found

        assert announce(State.READY, Lag(9, 900)).lag == Lag(9, 900), "the first one at once"
        assert announce(State.READY, Lag(8, 800)).lag == Lag(9, 900)
        assert announce(State.WARM, Lag(7, 700)).lag == Lag(7, 700)
        clock.advance(timedelta(seconds=4))
        assert announce(State.WARM, Lag(0, 0)).lag == Lag(7, 700)
        clock.advance(timedelta(seconds=1))
        assert announce(State.WARM, Lag(0, 0)).lag == Lag(0, 0)
        assert announce(State.LEADING, None).lag is None


def test_offsets_behind_alone_are_written_every_half_minute_at_most_and_with_every_change_of_state() -> None:
    clock, store = ManualClock(), MemoryStore(MemoryServer())
    with SessionKeeper(store, ttl=LONG, clock=SystemClock()) as keeper:
        election = Election(store, SCOPE, member="anna", clock=clock)
        election.join(keeper, host="here", pid=7)

        def announce(state: State, behind: int) -> object:
            election.announce(keeper, state, behind={"copy": behind})
            (found,) = observe(store, SCOPE).members
            return found.behind

        assert announce(State.LEADING, 900) == {"copy": 900}
        clock.advance(timedelta(seconds=29))
        revision = observe(store, SCOPE).revision
        assert announce(State.LEADING, 800) == {"copy": 900}
        assert observe(store, SCOPE).revision == revision, "a batch costs no write"
        clock.advance(timedelta(seconds=1))
        assert announce(State.LEADING, 700) == {"copy": 700}
        assert announce(State.READY, 600) == {"copy": 600}


def test_what_is_wrong_with_a_member_and_its_file_are_written_at_once_and_in_short() -> None:
    store = MemoryStore(MemoryServer())
    with SessionKeeper(store, ttl=LONG, clock=SystemClock()) as keeper:
        election = Election(store, SCOPE, member="anna", clock=ManualClock())
        election.join(keeper, host="here", pid=7)
        for trouble, said in (("no luck", "no luck"), ("x" * 5000, "x" * 300), ("", "")):
            election.announce(keeper, State.FAILING, file="f1", trouble=trouble)
            (found,) = observe(store, SCOPE).members
            assert (found.file, found.trouble) == ("f1", said)
        revision = observe(store, SCOPE).revision
        election.announce(keeper, State.FAILING, file="f1")
        assert observe(store, SCOPE).revision == revision, "nothing is new"
