"""The thread that sweeps beside the batches of a leader: when it begins, when it looks again, when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

import pytest

from tenure.cleanup.cleaner import Cleaner
from tenure.cleanup.plan import BLOBS, RUNS
from tenure.cleanup.sweeper import Sweeper
from tenure.coordination.records import Scope, Version
from tenure.coordination.session import Liveness
from tenure.coordination.term import Term
from tenure.errors import OwnerMismatch, StorageError, TermLost
from tenure.events import Event, Events, OrphansFound, Swept
from tenure.retry import RetryPolicy, fixed_delay, no_retry
from tests.kit.clock import ManualClock
from tests.kit.waiting import wait_until

POLICY = RetryPolicy(initial=timedelta(seconds=1), maximum=timedelta(seconds=4), attempts=5, jitter=0.0)


class Made:
    """What is left of one kind, and when it was looked for."""

    def __init__(self, clock: ManualClock) -> None:
        self.names: list[str] = []
        self.looked_s: list[int] = []
        self.refuse: Callable[[str], None] = lambda name: None
        self.on_look: Callable[[], None] = lambda: None
        self._clock = clock

    def find(self) -> Sequence[str]:
        self.looked_s.append(round(self._clock.monotonic_s()))
        self.on_look()
        return list(self.names)

    def remove(self, term: Term, name: str) -> None:
        self.refuse(name)
        self.names.remove(name)


class Scene:
    """A sweeper whose thread alone moves the clock, by waiting."""

    def __init__(self) -> None:
        self.clock = ManualClock(sleeping_advances=True)
        self.told: list[Event] = []
        self.runs, self.blobs = Made(self.clock), Made(self.clock)
        self.liveness = Liveness(clock=self.clock, until_s=float("inf"))
        self.term = Term(Scope("rows"), 3, "anna", Version("1"), Version("1"), self.liveness)
        self.check: Callable[[], None] = lambda: None
        cleaner = Cleaner(
            {RUNS: self.runs, BLOBS: self.blobs},
            check=lambda term: self.check(),
            scope="rows",
            policy=no_retry(),
            clock=self.clock,
            events=Events.nobody,
        )
        self.cleaner = cleaner
        self.look_first: Callable[[], None] = lambda: None

    def run(self, policy: RetryPolicy = POLICY, *, ready: Callable[[], bool] = lambda: True) -> None:
        """Sweep until it ends by itself."""
        events = Events(self.told.append)
        self.sweeper = Sweeper(
            self.cleaner, self.term, look_first=self.look_first, policy=policy, clock=self.clock, events=events
        )
        self.sweeper.start(ready=ready)
        wait_until(lambda: all(thread.name != "tenure-sweep" for thread in threading.enumerate()))


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize(
    ("policy", "looks"),
    [
        (POLICY, [0, 1, 3, 7, 11]),
        (fixed_delay(delay=timedelta(seconds=5), attempts=3), [0, 5, 10]),
        (no_retry(), [0]),
    ],
    ids=["exponential", "fixed", "none"],
)
def test_it_looks_by_the_policy_whether_or_not_it_found_something(
    scene: Scene, policy: RetryPolicy, looks: list[int]
) -> None:
    scene.run(policy)
    assert scene.runs.looked_s == looks
    assert scene.told == []


def test_it_begins_when_it_may(scene: Scene) -> None:
    scene.run(no_retry(), ready=lambda: scene.clock.monotonic_s() >= 30)
    assert scene.runs.looked_s == [30]


def test_it_tells_what_it_found_before_it_removes_it(scene: Scene) -> None:
    scene.runs.names, scene.blobs.names = ["a", "b"], ["c"]
    scene.run()
    assert scene.told == [
        OrphansFound("rows", epoch=3, row=RUNS, count=2),
        OrphansFound("rows", epoch=3, row=BLOBS, count=1),
        Swept("rows", epoch=3, removed=3, left=0, first="", seconds=0.0),
    ]


def test_what_cannot_go_is_tried_again_and_keeps_nothing_else(scene: Scene) -> None:
    scene.runs.names, scene.blobs.names = ["a"], ["c"]

    def refuse(name: str) -> None:
        if scene.clock.monotonic_s() < 7:
            raise StorageError("it is read-only")

    scene.runs.refuse = refuse
    scene.run()
    swept = [event for event in scene.told if isinstance(event, Swept)]
    assert [(event.removed, event.left) for event in swept] == [(1, 1), (0, 1), (0, 1), (1, 0)]
    assert swept[0].first == f"{RUNS}: a (it is read-only)"
    assert scene.runs.names == scene.blobs.names == []


def test_what_went_by_itself_is_told_too(scene: Scene) -> None:
    """Else the gauge would say for ever that something is left."""
    scene.runs.names = ["a"]

    def refuse(name: str) -> None:
        scene.runs.names = []  # somebody else removes it
        raise StorageError("it is busy")

    scene.runs.refuse = refuse
    scene.run()
    swept = [event for event in scene.told if isinstance(event, Swept)]
    assert [(event.removed, event.left) for event in swept] == [(0, 1), (0, 0)]


def test_what_speaks_against_any_sweep_keeps_everything(scene: Scene) -> None:
    def refuse() -> None:
        raise StorageError("it does not answer")

    scene.runs.names, scene.look_first = ["a"], refuse
    scene.run()
    assert scene.runs.names == ["a"]
    assert scene.runs.looked_s == []
    assert {event.first for event in scene.told if isinstance(event, Swept)} == {
        "storage: the sweep (it does not answer)"
    }


def test_another_owner_ends_all_sweeps(scene: Scene) -> None:
    """Who looks first tells it; the last sweep of a leadership raises it."""
    looked: list[float] = []

    def refuse() -> None:
        looked.append(scene.clock.monotonic_s())
        raise OwnerMismatch("it is not ours")

    scene.runs.names, scene.look_first = ["a"], refuse
    scene.run()
    assert len(looked) == 1
    assert (scene.runs.names, scene.runs.looked_s, scene.told) == (["a"], [], [])
    with pytest.raises(OwnerMismatch):
        scene.sweeper.last(stop=threading.Event())


def test_the_last_one_does_not_wait_for_one_that_hangs(scene: Scene) -> None:
    scene.run(no_retry())
    scene.runs.names = ["a"]
    scene.runs.looked_s.clear()
    stop = threading.Event()
    with scene.sweeper._turn:
        threading.Timer(0.3, stop.set).start()
        scene.sweeper.last(stop=stop)
    assert scene.runs.looked_s == []


@pytest.mark.parametrize("error", [OSError("the client is confused"), ValueError("x")], ids=lambda e: type(e).__name__)
def test_whatever_a_storage_raises_ends_one_sweep_only(scene: Scene, error: Exception) -> None:
    scene.runs.names = ["a"]
    errors = iter([error])

    def refuse(name: str) -> None:
        for one in errors:
            raise one

    scene.runs.refuse = refuse
    scene.run()
    assert [event for event in scene.told if isinstance(event, Swept)] == [
        Swept("rows", epoch=3, removed=0, left=1, first=f"storage: the sweep ({error})", seconds=0.0),
        Swept("rows", epoch=3, removed=1, left=0, first="", seconds=0.0),
    ]


def test_a_term_that_is_over_removes_nothing_and_ends_it(scene: Scene) -> None:
    scene.runs.names = ["a"]

    def lost() -> None:
        raise TermLost(scope="rows", epoch=3)

    scene.check = lost
    scene.run()
    assert (scene.runs.names, scene.runs.looked_s, scene.told) == (["a"], [0], [])


@pytest.mark.parametrize("by", ["stop", "the term"])
def test_it_ends_between_two_removals(scene: Scene, by: str) -> None:
    scene.runs.names = ["a", "b"]

    def end(name: str) -> None:
        if by == "stop":
            scene.sweeper.stop()
        else:
            scene.liveness.end("lost")

    scene.runs.refuse = end
    scene.run()
    assert scene.runs.names == ["b"]
    assert scene.runs.looked_s == [0]
    assert [event for event in scene.told if isinstance(event, Swept)] == [
        Swept("rows", epoch=3, removed=1, left=0, first="", seconds=0.0)
    ]


def test_the_last_one_is_in_the_thread_that_asks_for_it(scene: Scene) -> None:
    scene.run(no_retry())
    scene.runs.names = ["a", "b"]
    scene.sweeper.stop()
    stop = threading.Event()
    scene.runs.refuse = lambda name: stop.set()
    scene.sweeper.last(stop=stop)
    assert scene.runs.names == ["b"]
    stop.clear()
    scene.runs.refuse = lambda name: None
    scene.sweeper.last(stop=stop)
    assert scene.runs.names == []

    def lost() -> None:
        raise TermLost(scope="rows", epoch=3)

    scene.runs.names, scene.check = ["c"], lost
    scene.sweeper.last(stop=stop)
    assert scene.runs.names == ["c"], "somebody else's now"


def test_it_never_begins_when_the_term_ends_before(scene: Scene) -> None:
    def ready() -> bool:
        scene.liveness.end("lost")
        return False

    scene.run(ready=ready)
    assert scene.runs.looked_s == []
