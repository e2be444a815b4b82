"""Reads that the store refuses for a moment: they cost nothing; refused for long, they are an error in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CheckpointStore
from tenure.coordination.election import newest_epoch
from tenure.coordination.reading import LONG, SHORT
from tenure.coordination.term import LEADER, Term
from tenure.coordination.terms import End
from tenure.errors import AccessDenied, StoreUnavailable, TermLost
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.results.result import Ending, Result, Stage
from tenure.results.store import RESULTS, ResultStore
from tests.faults.lab import SCOPE, Lab, Member
from tests.kit.faulty import Call, Proceed, Script, operation

READS = operation("read", "list", "glance")
PLANNED = Checkpoint("q", "id", 0, "offsets", "run", 1, "now")
RESULT = Result(Ending.FINISHED, Stage.DIRTY, 1, "a", "then")


class Scene:
    """A leader that has planned a batch, in a store whose reads may fail."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.leader: Member = lab.member("a")
        self.term: Term = self.leader.lead()
        self.checkpoints().plan(self.term, PLANNED)

    def checkpoints(self) -> CheckpointStore:
        """One that has read nothing yet."""
        return CheckpointStore(self.leader.handles, query="q")

    def results(self) -> ResultStore:
        handles = HandleStore(
            self.leader.store,
            SCOPE,
            area=RESULTS,
            blobs=self.leader.blobs,
            clock=self.lab.clock,
            inline_limit=MOST_INLINE,
        )
        return ResultStore(handles)

    def away(self, *, times: int | None = 1) -> Script:
        return self.leader.store.be_unavailable(when=READS, times=times)

    def denied(self) -> Script:
        def fault(call: Call, proceed: Proceed) -> object:
            raise AccessDenied("no right to look")

        return self.leader.store.script(fault, when=READS, times=None)

    def outlive(self) -> None:
        """The session is renewed whatever happens to reads."""
        self.leader.keeper.liveness.extend(1e6)


@pytest.fixture
def scene(lab: Lab) -> Scene:
    return Scene(lab)


UNDER_A_TERM: dict[str, Callable[[Scene], object]] = {
    "plan": lambda scene: scene.checkpoints().plan(scene.term, Checkpoint("q", "id", 1, "offsets", "run", 1, "now")),
    "retake": lambda scene: scene.checkpoints().retake(scene.term, run_directory="run"),
    "remove": lambda scene: scene.leader.handles.remove(scene.term, "000000000000"),
    "result": lambda scene: scene.results().read(scene.term),
}
WITHOUT: dict[str, Callable[[Scene], object]] = {
    "newest": lambda scene: scene.checkpoints().newest(),
    "glance": lambda scene: scene.checkpoints().glance(),
    "checkpoints": lambda scene: scene.checkpoints().list(),
    "get": lambda scene: scene.leader.handles.get("000000000000"),
    "result before": lambda scene: scene.results().read(),
    "epoch": lambda scene: newest_epoch(scene.leader.store, SCOPE, clock=scene.lab.clock),
}
under_a_term = pytest.mark.parametrize("word", UNDER_A_TERM)
without = pytest.mark.parametrize("word", WITHOUT)


@pytest.mark.parametrize("word", [*UNDER_A_TERM, *WITHOUT])
def test_a_read_that_fails_once_or_thrice_is_made_again(scene: Scene, word: str) -> None:
    for times in (1, 3):
        script = scene.away(times=times)
        {**UNDER_A_TERM, **WITHOUT}[word](scene)
        assert script.fired == times
        if word in ("plan", "close", "remove"):
            break  # it is done
    assert not scene.term.lost


@under_a_term
def test_under_a_term_it_is_made_again_until_the_deadline(scene: Scene, word: str) -> None:
    scene.away(times=None)
    with pytest.raises(TermLost) as lost:
        UNDER_A_TERM[word](scene)
    assert scene.term.lost
    assert not lost.value.write_is_unknown
    assert scene.lab.audit() == set()


@under_a_term
def test_a_term_that_goes_on_being_renewed_is_no_reason_to_wait_for_ever(scene: Scene, word: str) -> None:
    scene.outlive()
    scene.away(times=None)
    began_s = scene.lab.clock.monotonic_s()
    with pytest.raises(StoreUnavailable):
        UNDER_A_TERM[word](scene)
    waited_s = scene.lab.clock.monotonic_s() - began_s
    assert LONG.total_seconds() <= waited_s <= 2 * LONG.total_seconds()
    assert not scene.term.lost


@without
def test_without_a_term_it_is_made_again_for_some_seconds(scene: Scene, word: str) -> None:
    scene.away(times=None)
    began_s = scene.lab.clock.monotonic_s()
    with pytest.raises(StoreUnavailable):
        WITHOUT[word](scene)
    waited_s = scene.lab.clock.monotonic_s() - began_s
    assert SHORT.total_seconds() <= waited_s <= SHORT.total_seconds() + 2


@pytest.mark.parametrize("word", [*UNDER_A_TERM, *WITHOUT])
def test_what_is_not_allowed_is_said_at_once(scene: Scene, word: str) -> None:
    script = scene.denied()
    with pytest.raises(AccessDenied):
        {**UNDER_A_TERM, **WITHOUT}[word](scene)
    assert script.fired == 1


# --- the election ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["glance", "wait"])
def test_a_campaign_outlasts_a_store_that_is_away_for_a_moment(scene: Scene, what: str) -> None:
    standby = scene.lab.member("b")
    script = standby.store.be_unavailable(when=operation(what), times=3)  # type: ignore[arg-type] # one of the words
    if what == "wait":

        def end(call: Call, proceed: Proceed) -> object:
            if script.fired == 3 and not scene.term.lost:
                scene.leader.election.resign(scene.term)
            return proceed()

        standby.store.script(end, when=operation("glance"), times=None)
    else:
        scene.leader.election.resign(scene.term)
    term = standby.lead()
    assert (term.epoch, script.fired) == (2, 3)
    assert len([call for call in standby.store.calls if call.operation == "open_session"]) == 1


def test_a_campaign_that_may_not_look_says_so_at_once(scene: Scene) -> None:
    standby = scene.lab.member("b")

    def denied(call: Call, proceed: Proceed) -> object:
        raise AccessDenied("no right to look")

    script = standby.store.script(denied, when=operation("glance"), times=None)
    with pytest.raises(AccessDenied):
        standby.lead()
    assert script.fired == 1


def test_a_campaign_that_is_stopped_while_the_store_is_away_is_over(scene: Scene) -> None:
    standby = scene.lab.member("b")
    script = standby.store.be_unavailable(when=operation("glance"), times=None)

    class AfterThree:
        def is_set(self) -> bool:
            return script.fired >= 3

    assert standby.election.campaign(standby.keeper, stop=AfterThree()) is None
    assert script.fired == 3


def test_a_resignation_outlasts_a_read_that_fails(scene: Scene) -> None:
    scene.away(times=3)
    scene.leader.election.resign(scene.term, End("stopped"))
    assert scene.lab.truth.read(SCOPE, LEADER) is None


def test_a_resignation_waits_for_no_store_that_is_away_for_long(scene: Scene) -> None:
    scene.outlive()
    script = scene.away(times=None)
    began_s = scene.lab.clock.monotonic_s()
    with pytest.raises(StoreUnavailable):
        scene.leader.election.resign(scene.term)
    assert scene.lab.clock.monotonic_s() - began_s <= SHORT.total_seconds() + 2
    assert not scene.term.lost
    assert script.fired > 1
