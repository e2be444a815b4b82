"""Members whose leaderships fail: who tries again, when, how often, and what people see of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count

import pytest

from tenure.agent.failures import Limits
from tenure.coordination import failing as failing_module
from tenure.coordination.candidates import PAUSED
from tenure.coordination.failing import FAILING
from tenure.coordination.records import Key, Put
from tenure.coordination.term import Term
from tenure.errors import (
    AccessDenied,
    BatchFailed,
    CorruptRunDirectory,
    OwnerMismatch,
    PipelineFileError,
    QueryFailed,
    SinkUnavailable,
    SourceUnavailable,
    StorageError,
    StorageUnavailable,
    TenureError,
    UsageError,
)
from tenure.handles.handle import encode_handle
from tenure.link.driver import Ended, ReadRecords
from tenure.operate.history import history
from tenure.operate.orders import Orders
from tenure.operate.snapshot import take_snapshot
from tenure.retry import fixed_delay
from tests.kit.faulty import Call, FaultyStore, Proceed, writes_under
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.agent.scene import CLOCK, SCOPE, Scene, Scripted, Step, fail, make_scene

AWAY = {
    "sink away": (SinkUnavailable, "SinkAway"),
    "source away": (SourceUnavailable, "SourceAway"),
    "storage away": (StorageUnavailable, "StorageAway"),
}


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return make_scene(monkeypatch)


def idle(term: Term) -> Ended:
    return Ended.IDLE


def bad(batch: int = 9) -> BatchFailed:
    error = BatchFailed("query 'raw' failed: ValueError: bad record", fix="see spark.log")
    error.of_query("raw", batch)
    return error


def plan(scene: Scene, batch: int) -> None:
    """Let the scope show that this batch of `raw` is planned."""
    key = Key(f"checkpoints/raw/{batch:09}")
    value = encode_handle(uid=f"u{batch}", epoch=1, content=b"{}")
    scene.store.commit(SCOPE, guards=(), writes=(Put(key, value, replaces=None),))


def denied(call: Call, proceed: Proceed) -> object:
    raise AccessDenied("the store permits no write (scripted)")


def kinds(scene: Scene) -> list[str]:
    return [type(event).__name__ for event in scene.told]


# --- what is away -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", AWAY)
def test_what_is_away_costs_a_term_and_no_member(scene: Scene, word: str) -> None:
    kind, event = AWAY[word]
    error = kind("the database refuses connections")
    error.of_query("raw", 9)
    driver = Scripted(*[fail(error)] * 8, idle)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == [*[word] * 8, "finished"]
    assert driver.prepared == 1, "its driver stays"
    assert kinds(scene).count(event) == 8
    assert {term.detail for term in history(scene.store, SCOPE).terms[:8]} == {"the database refuses connections"}


def test_members_take_turns_while_a_sink_is_away(scene: Scene) -> None:
    tried: list[str] = []
    error = SinkUnavailable("refused")
    error.of_query("raw", 9)

    def tries(name: str) -> Step:
        def step(term: Term) -> Ended:
            tried.append(name)
            if len(tried) < 6:
                raise error
            return Ended.IDLE

        return step

    members = {name: scene.member(Scripted(*[tries(name)] * 6), name=name) for name in ("anna", "ben")}
    stop = threading.Event()
    threads = [threading.Thread(target=member.run, kwargs={"stop": stop}) for member in members.values()]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(tried) >= 6, what="six attempts")
    stop.set()
    for thread in threads:
        thread.join(timeout=NEVER_S)
        assert not thread.is_alive()
    assert {"anna", "ben"} == set(tried)
    assert all(one.why in ("sink away", "finished") for one in history(scene.store, SCOPE).terms)


@pytest.mark.parametrize("batch", [0, 3])
def test_the_storage_of_a_scope_that_ran_before_is_waited_for(scene: Scene, batch: int) -> None:
    """Batch 0 may have all that there is for hours, and the plan of it was written to the storage."""
    plan(scene, batch)
    driver = Scripted(fail(StorageError("s3://bucket: 503")), idle)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["storage away", "finished"]


def test_the_storage_of_a_scope_that_never_worked_is_an_error(scene: Scene) -> None:
    with pytest.raises(StorageError):
        scene.member(Scripted(fail(StorageError("s3://bucket: 503")))).run(stop=threading.Event())
    assert scene.words() == ["failed"]


def test_the_storage_of_a_query_that_never_worked_is_an_error_in_a_scope_that_did(scene: Scene) -> None:
    plan(scene, 3)
    error = StorageError("s3://bucket: 503").of_query("new", 0)
    with pytest.raises(StorageError):
        scene.member(Scripted(fail(error))).run(stop=threading.Event())


@pytest.mark.parametrize("error", [OwnerMismatch("another's"), CorruptRunDirectory("gone"), QueryFailed("no luck")])
def test_an_error_on_which_waiting_does_not_help_ends_the_member(scene: Scene, error: TenureError) -> None:
    plan(scene, 3)
    with pytest.raises(type(error)):
        scene.member(Scripted(fail(error))).run(stop=threading.Event())
    assert (scene.words(), take_snapshot(scene.store, SCOPE).failing) == (["failed"], None)


def test_what_is_away_for_longer_than_the_limit_ends_the_member(scene: Scene) -> None:
    error = SinkUnavailable("refused").of_query("raw", 9)
    driver = Scripted(*[fail(error)] * 99)
    with pytest.raises(SinkUnavailable, match="refused"):
        scene.member(driver, limits=Limits(away=timedelta(seconds=0.2))).run(stop=threading.Event())
    assert take_snapshot(scene.store, SCOPE).pause is None


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (SourceUnavailable("the static side is away"), "SourceAway"),
        (PipelineFileError("line 3: [PATH_NOT_FOUND] the static side is being rewritten"), "DriverEnded"),
        (QueryFailed("Spark did not start: the master is away"), "DriverEnded"),
        (UsageError("table raw lacks column 'delay' of the rows"), "DriverEnded"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_driver_that_cannot_be_prepared_anew_is_tried_again(scene: Scene, error: TenureError, kind: str) -> None:
    """A member that has led for weeks ended, with an exit code after which systemd does not start it again."""

    class Late(Scripted):
        def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
            if self.prepared == 1 and self.gone is not None:
                self.prepared += 1
                raise error
            return super().prepare(scope=scope, stop=stop, records=records)

    driver = Late(idle)

    def gone(term: Term) -> Ended:
        driver.gone = "it was killed"
        return Ended.RESTART

    driver.steps.insert(0, gone)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert kind in kinds(scene)


@pytest.mark.parametrize("error", [PipelineFileError("line 3"), QueryFailed("no master"), UsageError("no column")])
def test_a_driver_that_was_never_ready_tells_what_is_wrong(scene: Scene, error: TenureError) -> None:
    class Wrong(Scripted):
        def prepare(self, *, scope: str, stop: threading.Event, records: ReadRecords) -> bool:
            raise error

    with pytest.raises(type(error)):
        scene.member(Wrong(idle)).run(stop=threading.Event())


# --- a batch that fails ---------------------------------------------------------------------------------------


def test_a_batch_that_fails_is_tried_again(scene: Scene) -> None:
    driver = Scripted(*[fail(bad())] * 4, idle)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == [*["failed"] * 4, "finished"]
    assert [event.attempt for event in scene.told if hasattr(event, "attempt")] == [1, 2, 3, 4]
    assert "see spark.log" in next(event.error for event in scene.told if hasattr(event, "error"))


class Running:
    """A member on a thread."""

    def __init__(self, scene: Scene, driver: Scripted, *, name: str = "anna", **named: object) -> None:
        self.member = scene.member(driver, name=name, **named)  # type: ignore[arg-type] # passed on as they are
        self.stop = threading.Event()
        self.ended: Ended | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self.ended = self.member.run(stop=self.stop)

    @property
    def lives(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(timeout=NEVER_S)
        assert not self._thread.is_alive()


@pytest.fixture
def start(scene: Scene) -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def make(driver: Scripted, **named: object) -> Running:
        running.append(Running(scene, driver, **named))  # type: ignore[arg-type] # passed on as they are
        return running[-1]

    yield make
    for one in running:
        one.stop.set()
        one.join()


def test_after_the_last_attempt_the_scope_is_paused_and_its_members_live(
    scene: Scene, start: Callable[..., Running]
) -> None:
    anna = start(Scripted(*[fail(bad())] * 5, idle))
    ben = start(Scripted(*[fail(bad())] * 5, idle), name="ben")
    wait_until(lambda: take_snapshot(scene.store, SCOPE).paused, what="the pause")
    found = take_snapshot(scene.store, SCOPE)
    assert found.pause is not None
    assert found.pause.why == "batch 9 of raw fails: query 'raw' failed: ValueError: bad record; see spark.log"
    assert found.pause.by in ("anna", "ben")
    assert scene.words() == ["failed"] * 5, "five attempts of all members together"
    wait_until(lambda: len(take_snapshot(scene.store, SCOPE).members) == 2, what="both to stand by")
    assert anna.lives
    assert ben.lives
    wait_until(lambda: "ScopePaused" in kinds(scene), what="the line about the pause")
    assert kinds(scene).count("ScopePaused") == 1
    wait_until(lambda: "batch 9 of raw fails" in anna.member.condition.paused, what="the probes to say so")
    assert Orders(scene.store, SCOPE, clock=CLOCK).resume()
    wait_until(lambda: anna.ended is Ended.IDLE or ben.ended is Ended.IDLE or len(scene.words()) > 5, what="a term")


def test_a_pause_of_an_operator_is_not_replaced_and_counts_go_on(scene: Scene, start: Callable[..., Running]) -> None:
    def paused(term: Term) -> Ended:
        assert Orders(scene.store, SCOPE, clock=CLOCK).pause()
        raise bad()

    start(Scripted(paused, idle), limits=Limits(batch_attempts=1))
    wait_until(lambda: scene.words() == ["failed"], what="the only attempt")
    record = scene.store.read(SCOPE, PAUSED)
    assert record is not None
    found = take_snapshot(scene.store, SCOPE).pause
    assert found is not None
    assert found.why == ""


def test_a_pause_in_the_midst_of_the_resignation_is_seen(scene: Scene) -> None:
    """The commit names the record that it saw; an operator was faster, and the failure is counted all the same."""
    faulty = FaultyStore(scene.store)
    orders = Orders(scene.store, SCOPE, clock=CLOCK)
    faulty.script(lambda call, proceed: (orders.pause(), proceed())[1], when=writes_under("paused"), times=1)
    stop = threading.Event()

    def last(term: Term) -> Ended:
        stop.set()
        raise bad()

    member = scene.member(Scripted(last), store=faulty, limits=Limits(batch_attempts=1))
    assert member.run(stop=stop) is Ended.STOPPED
    found = take_snapshot(scene.store, SCOPE)
    assert (scene.words(), found.paused, found.failing is not None) == (["failed"], True, True)


def test_a_run_that_is_to_end_ends_after_the_last_attempt(scene: Scene) -> None:
    line = r"bad record; it was the last attempt, and the scope is paused; see spark\.log; mend"
    with pytest.raises(BatchFailed, match=line):
        scene.member(Scripted(*[fail(bad())] * 5), ends=True).run(stop=threading.Event())
    assert take_snapshot(scene.store, SCOPE).paused
    with pytest.raises(QueryFailed, match=r"scope 'rows' is paused: batch 9 of raw fails: .* \(paused by anna\); mend"):
        scene.member(Scripted(), ends=True).run(stop=threading.Event())
    assert scene.words() == ["failed"] * 5, "the next night's run tries nothing"


def test_a_failure_whose_record_cannot_be_written_is_tried_again_too(scene: Scene) -> None:
    faulty = FaultyStore(scene.store)
    faulty.script(denied, when=writes_under("failing"), times=1)
    driver = Scripted(fail(bad()), idle)
    assert scene.member(driver, store=faulty).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["session ended", "finished"]


def test_a_member_waits_and_an_operator_ends_the_wait(
    scene: Scene, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failing_module, "BATCH_RETRY", fixed_delay(delay=timedelta(hours=1)))
    driver = Scripted(fail(bad()), idle)
    anna = start(driver)
    wait_until(lambda: "AttemptFailed" in kinds(scene) and bool(take_snapshot(scene.store, SCOPE).members))
    wait_until(lambda: anna.member.condition.failing != "", what="the wait to begin")
    assert scene.words() == ["failed"]
    wait_until(lambda: any(one.ready for one in take_snapshot(scene.store, SCOPE).members))
    Orders(scene.store, SCOPE, clock=CLOCK).failover(to=None)
    anna.join()
    assert driver.epochs == [1, 2]


def test_the_record_goes_once_a_later_batch_is_planned(scene: Scene) -> None:
    def recovers(term: Term) -> Ended:
        assert scene.store.read(SCOPE, FAILING) is not None
        plan(scene, 9)
        plan(scene, 10)
        wait_until(lambda: scene.store.read(SCOPE, FAILING) is None, what="the record to go")
        return Ended.IDLE

    assert scene.member(Scripted(fail(bad()), recovers)).run(stop=threading.Event()) is Ended.IDLE
    assert take_snapshot(scene.store, SCOPE).failing is None


def test_the_record_of_a_failure_of_no_query_goes_once_a_batch_is_done(scene: Scene) -> None:
    """It names no batch that could be waited for. A leader that never led for ten minutes kept it for ever."""
    plan(scene, 3)
    later = count(5)

    def plans_one(term: Term) -> Ended:
        plan(scene, 4)
        raise StorageError("s3://bucket: 503")

    def does_a_batch(term: Term) -> Ended:
        assert scene.store.read(SCOPE, FAILING) is not None, "a batch that was planned is not done"

        def goes_on() -> bool:
            plan(scene, next(later))
            return scene.store.read(SCOPE, FAILING) is None

        wait_until(goes_on, what="the record to go")
        return Ended.IDLE

    driver = Scripted(fail(StorageError("s3://bucket: 503")), plans_one, does_a_batch)
    assert scene.member(driver).run(stop=threading.Event()) is Ended.IDLE
    assert scene.words() == ["storage away", "storage away", "finished"]
