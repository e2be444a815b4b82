"""Members with two releases of Spark beside one another, without Spark: who goes on, who ends, after how many terms."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.store import CHECKPOINTS, CheckpointStore
from tenure.coordination.records import Put
from tenure.coordination.term import Term
from tenure.declarations.declaration import Declaration, DeclaredStream
from tenure.declarations.sparks import check_spark, epochs_of, spark_before
from tenure.declarations.store import DECLARED, DeclarationStore
from tenure.errors import DeclaredOtherwise
from tenure.events import Events
from tenure.handles.store import MOST_INLINE, HandleStore
from tenure.link.driver import Ended
from tenure.operate.snapshot import take_snapshot
from tenure.results.result import Ending, Result, Stage
from tenure.scope_context import ScopeContext
from tenure.storage.blobs import FileBlobs
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import CLOCK, SCOPE, Scene, Scripted, make_scene


class Pair:
    """Members on threads. Each of their drivers records its Spark, and plans a batch where the member is to plan."""

    def __init__(self, scene: Scene, folder: Path) -> None:
        self.scene, self._folder = scene, folder
        self.declarations = DeclarationStore(scene.store, SCOPE, clock=CLOCK)
        self.ended: dict[str, Ended | DeclaredOtherwise] = {}
        self._stops: dict[str, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def start(self, name: str, spark: str, *, plans: bool = True, warm: bool = False) -> Scripted:
        stop = self._stops[name] = threading.Event()

        def step(term: Term) -> Ended:
            self._record(term, spark)
            if plans:
                self._plan(term)
            wait_until(lambda: stop.is_set() or term.lost, what="a word")
            return Ended.LOST if term.lost else Ended.STOPPED

        driver = Scripted(*[step] * 9)
        driver.spark, driver.warm = spark, warm
        member = self.scene.member(driver, name=name)

        def run() -> None:
            try:
                self.ended[name] = member.run(stop=stop)
            except DeclaredOtherwise as refused:
                self.ended[name] = refused

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)
        return driver

    def _record(self, term: Term, spark: str) -> None:
        """As a driver does under its term."""
        found = self.declarations.read(term)

        def epochs() -> list[int]:
            return epochs_of(found.handles.values())

        check_spark(SCOPE, found.declaration, epochs, spark=spark)
        before = spark_before(found.declaration, epochs, spark=spark, epoch=term.epoch)
        declared = Declaration("f", spark, {"q": DeclaredStream(None)}, "UTC", before)
        self.declarations.write(term, declared, replaces=found.record)

    def _plan(self, term: Term) -> None:
        area, blobs = CHECKPOINTS.child("q"), FileBlobs(str(self._folder))
        handles = HandleStore(self.scene.store, SCOPE, area=area, blobs=blobs, clock=CLOCK, inline_limit=MOST_INLINE)
        checkpoints = CheckpointStore(handles, query="q")
        newest = checkpoints.newest(term)
        batch = 0 if newest is None else newest.batch + 1
        checkpoints.plan(term, Checkpoint("q", "id", batch, "offsets", "run", term.epoch, "now"))

    def leads(self, name: str, *, standbys: int = 0) -> None:
        def settled() -> bool:
            found = take_snapshot(self.scene.store, SCOPE)
            others = [one for one in found.members if one.ready and one.member != name]
            return found.leader == name and len(others) == standbys

        wait_until(settled, what=f"{name} to lead beside {standbys}")

    def stop(self, name: str) -> None:
        self._stops[name].set()
        wait_until(lambda: name in self.ended, what=f"the end of {name}")

    def end(self) -> None:
        for stop in self._stops.values():
            stop.set()
        for thread in self._threads:
            thread.join(timeout=NEVER_S)
            assert not thread.is_alive()


@pytest.fixture
def make_pair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Pair]:
    def make() -> Pair:
        pair = Pair(make_scene(monkeypatch), tmp_path)
        request.addfinalizer(pair.end)
        return pair

    return make


REFUSED = (
    "scope 'rows' has run with Spark 4.1.4, and this member has Spark 3.5.9, which may misread the state and the "
    "logs of the newer release; start this member with Spark 4.1 or newer"
)


def test_an_upgrade_is_rolled_out_and_the_members_of_before_end_without_a_term(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    pair.start("anna", "3.5.9")
    pair.leads("anna")
    old = pair.start("carl", "3.5.9")
    pair.start("ben", "4.1.4", warm=True)
    pair.leads("anna", standbys=2)
    pair.stop("anna")
    wait_until(lambda: "carl" in pair.ended, what="the end of carl")
    pair.leads("ben")
    assert str(pair.ended["carl"]) == REFUSED
    assert old.epochs == []


def test_a_standby_ends_as_soon_as_a_newer_spark_has_planned(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    pair.start("ben", "4.1.4")
    pair.leads("ben")
    old = pair.start("anna", "3.5.9")
    wait_until(lambda: "anna" in pair.ended, what="the end of anna")
    assert str(pair.ended["anna"]) == REFUSED
    pair.leads("ben")
    pair.stop("ben")
    assert old.epochs == []


def test_an_empty_office_stays_empty_beside_a_member_that_could_not_keep_it(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    pair.start("ben", "4.1.4")
    pair.leads("ben")
    pair.stop("ben")
    for name in ("anna", "dora", "emma"):  # as a supervisor starts one again and again
        old = pair.start(name, "3.5.9")
        wait_until(partial(pair.ended.__contains__, name), what=f"the end of {name}")
        assert str(pair.ended[name]) == REFUSED
        assert old.epochs == []
    assert take_snapshot(pair.scene.store, SCOPE).epoch == 1
    assert len(pair.scene.words()) == 1, "nobody but ben has led"
    pair.start("carl", "4.3.0")
    pair.leads("carl")


def test_a_newer_spark_that_planned_nothing_costs_no_member(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    pair.start("anna", "3.5.9")
    pair.leads("anna")
    pair.stop("anna")
    pair.start("ben", "4.1.4", plans=False)
    pair.leads("ben")
    old = pair.start("carl", "3.5.9")
    pair.leads("ben", standbys=1)
    pair.stop("ben")
    pair.leads("carl")
    assert old.epochs == [3]
    found = pair.declarations.read().declaration
    assert found is not None
    assert (found.spark, found.spark_before) == ("3.5.9", None)


def test_a_record_that_does_not_decode_is_not_judged_here(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()
    put = Put(DECLARED, b"{", replaces=None)
    pair.scene.store.commit(SCOPE, guards=(), writes=[put])
    driver = Scripted(lambda term: Ended.STOPPED)
    driver.spark = "3.5.9"
    assert pair.scene.member(driver).run(stop=threading.Event()) is Ended.STOPPED


def test_an_ended_pipeline_is_cleaned_up_by_any_spark(make_pair: Callable[[], Pair]) -> None:
    pair = make_pair()

    def finish(term: Term) -> Ended:
        pair._record(term, "4.1.4")
        pair._plan(term)
        result = Result(Ending.FINISHED, Stage.DIRTY, term.epoch, "ben", "now")
        context = ScopeContext(pair.scene.store, SCOPE, "memory://nothing", CLOCK, Events.nobody)
        context.results().write_dirty(term, result)
        return Ended.STOPPED

    assert pair.scene.member(Scripted(finish)).run(stop=threading.Event()) is Ended.STOPPED
    old = Scripted(cleans=[lambda term: Ended.CLEANED])
    old.spark = "3.5.9"
    assert pair.scene.member(old, name="carl").run(stop=threading.Event()) is Ended.CLEANED
    assert old.cleaned == 1
