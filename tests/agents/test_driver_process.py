"""An agent and a driver as two processes: who may end whom, what is noticed, and what is left (nothing)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.coordination.candidates import Lag
from tenure.coordination.records import Key, Record, Version
from tenure.errors import DriverDied, PipelineFileError, QueryFailed, StoreUnavailable, UsageError
from tenure.events import BatchCommitted, CleanupEnded, MirrorFailed
from tenure.link.driver import Ended
from tests.agents.scene import CLOCK, Scene, all_gone, in_background
from tests.kit.waiting import NEVER_S, Deadline, wait_until


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    for driver in scene.drivers:
        driver.kill()
        driver.close()


# --- a leadership -----------------------------------------------------------------------------------------------


def test_it_leads_until_it_is_told_to_stop_and_tells_what_happens(scene: Scene) -> None:
    driver = scene.ready()
    scene.at_the_first_batch(scene.stop.set)
    assert driver.lead(scene.term(), stop=scene.stop, finish=scene.finish) is Ended.STOPPED
    assert scene.batches() == [1]
    assert driver.gone is None


def test_a_new_session_is_told_before_the_next_leadership(scene: Scene) -> None:
    """What a driver made ready in an earlier session, a leader may have removed: it must not be used any more."""
    driver = scene.ready(lead="sequence")
    scene.at_the_first_batch(scene.stop.set)
    driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    scene.stop.clear()
    assert not driver.prepare(scope="rows", stop=scene.stop)
    assert driver.lead(scene.term(), stop=scene.stop, finish=scene.finish) is Ended.IDLE
    told = [event for event in scene.told if isinstance(event, BatchCommitted | MirrorFailed)]
    assert told == [
        BatchCommitted("rows", 1, "rows", 1, False, 0.0),
        MirrorFailed("rows", query="rows", why="a new session after 1"),
        BatchCommitted("rows", 2, "rows", 2, False, 0.0),
    ]


def test_it_is_told_to_finish_and_waited_for_without_a_limit(scene: Scene) -> None:
    driver = scene.ready(patience=0.1)
    scene.at_the_first_batch(scene.finish.set)
    assert driver.lead(scene.term(), stop=scene.stop, finish=scene.finish) is Ended.STOPPED
    assert scene.batches() == [1, 2]


def test_one_driver_leads_again_and_again(scene: Scene) -> None:
    driver = scene.ready(lead="sequence")
    lost = scene.term()
    scene.at_the_first_batch(lambda: lost.liveness.end("refused"))
    assert driver.lead(lost, stop=scene.stop, finish=scene.finish) is Ended.LOST
    assert not driver.prepare(scope="rows", stop=scene.stop)
    assert driver.lead(scene.term(), stop=scene.stop, finish=scene.finish) is Ended.IDLE
    assert scene.batches() == [1, 2]


def test_it_believes_in_its_term_as_long_as_its_agent_does(scene: Scene) -> None:
    driver, term = scene.ready(), scene.term(seconds=1)

    def renew_for_a_while() -> None:
        for _ in range(10):
            CLOCK.sleep(0.2)
            term.liveness.extend(CLOCK.monotonic_s() + 1)
        scene.stop.set()

    in_background(renew_for_a_while)
    assert driver.lead(term, stop=scene.stop, finish=scene.finish) is Ended.STOPPED


def test_it_stops_believing_at_the_deadline_also_while_its_agent_says_nothing(scene: Scene, tmp_path: Path) -> None:
    driver = scene.ready()
    ended: list[Ended] = []
    thread = in_background(
        lambda: ended.append(driver.lead(scene.term(seconds=1), stop=scene.stop, finish=scene.finish))
    )
    thread.join(timeout=NEVER_S)
    assert ended == [Ended.LOST]


@pytest.mark.parametrize(("word", "kind"), [("fail", QueryFailed), ("store", StoreUnavailable)])
def test_what_the_work_fails_with_is_raised_here_and_the_driver_can_lead_again(
    scene: Scene, word: str, kind: type[Exception]
) -> None:
    driver = scene.ready(lead=word)
    for _ in range(2):
        with pytest.raises(kind):
            driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    assert driver.gone is None


# --- a driver that does not do what it should ---------------------------------------------------------------------


def test_a_driver_that_dies_is_noticed_and_what_it_left_is_killed(scene: Scene) -> None:
    driver = scene.ready(lead="die")
    processes = scene.processes()
    with pytest.raises(DriverDied, match="ended by itself: signal SIGKILL"):
        driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    wait_until(lambda: all_gone(processes), what="the end of the group")
    assert driver.prepare(scope="rows", stop=scene.stop)
    assert scene.processes()[0].pid != processes[0].pid


def test_what_its_mirrors_miss_is_known_here(scene: Scene) -> None:
    driver = scene.ready()
    assert wait_until(lambda: driver.lag) == Lag(2, 70)


def test_how_far_its_queries_are_behind_is_known_here(scene: Scene) -> None:
    driver = scene.ready(pulse="stuck")
    assert wait_until(lambda: driver.behind) == {"rows": 12}


def test_why_it_cannot_rehearse_and_which_file_it_runs_are_known_here(scene: Scene) -> None:
    driver = scene.driver(trouble="query 'rows' was not rehearsed: no luck")
    assert (driver.file, driver.spark, driver.trouble) == ("", "", "")
    assert driver.prepare(scope="rows", stop=scene.stop)
    assert (driver.file, driver.spark) == ("0123456789ab", "4.3.0")
    assert wait_until(lambda: driver.trouble) == "query 'rows' was not rehearsed: no luck"


def test_a_driver_that_dies_while_it_stands_by_is_gone(scene: Scene) -> None:
    driver = scene.ready()
    processes = scene.processes()
    assert driver.gone is None
    processes[0].kill()
    assert wait_until(lambda: driver.gone) == "the driver ended by itself: signal SIGKILL"
    wait_until(lambda: all_gone(processes))


@pytest.mark.parametrize("why", ["stop", "lost"])
def test_a_driver_that_does_not_stop_in_time_is_killed_with_all_that_it_started(scene: Scene, why: str) -> None:
    driver, term = scene.ready(lead="disobey", patience=0.5), scene.term()
    processes = scene.processes()
    if why == "stop":
        scene.stop.set()
    else:
        term.liveness.end("refused")
    with pytest.raises(DriverDied, match=r"queries did not stop in 0\.5 s; the driver was killed"):
        driver.lead(term, stop=scene.stop, finish=scene.finish)
    wait_until(lambda: all_gone(processes), what="the end of what was killed")


def test_a_driver_that_is_stopped_by_a_signal_is_silent_and_killed(scene: Scene) -> None:
    driver = scene.ready(silence=3)
    processes = scene.processes()
    processes[0].suspend()
    with pytest.raises(DriverDied, match="the driver has not answered for 3 s"):
        driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    wait_until(lambda: all_gone(processes), what="the end of what was killed")


def test_a_driver_that_is_silent_while_it_stands_by_is_replaced(scene: Scene) -> None:
    driver = scene.ready(silence=3, pulse="moving")
    processes = scene.processes()
    processes[0].suspend()
    assert wait_until(lambda: driver.gone) == "the driver has not answered for 3 s"
    scene.pids_file.unlink()
    assert driver.prepare(scope="rows", stop=scene.stop)
    wait_until(lambda: all_gone(processes), what="the end of what was killed")


def test_a_driver_whose_jvm_never_answers_is_killed(scene: Scene) -> None:
    driver = scene.ready(silence=3, pulse="never")
    with pytest.raises(DriverDied, match="the driver has not answered for 3 s"):
        driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)


def test_a_query_without_progress_is_hung_and_one_without_data_is_not(scene: Scene) -> None:
    with pytest.raises(DriverDied, match=r"query 'rows' has made no progress for 2\.5 s; the driver was killed"):
        scene.ready(pulse="stuck").lead(scene.term(), stop=scene.stop, finish=scene.finish)
    for fine in ("idle", "moving"):
        driver, term = scene.ready(pulse=fine), scene.term(seconds=5)
        assert driver.lead(term, stop=scene.stop, finish=scene.finish) is Ended.LOST


def test_what_a_query_was_at_when_its_term_ended_is_not_held_against_the_standby(scene: Scene) -> None:
    driver = scene.ready(pulse="stuck")
    assert driver.lead(scene.term(seconds=1.5), stop=scene.stop, finish=scene.finish) is Ended.LOST
    deadline = Deadline(timedelta(seconds=5))
    while not deadline.over:
        assert driver.gone is None
        deadline.pause(timedelta(milliseconds=50))


def test_code_that_holds_the_interpreter_costs_nothing(scene: Scene) -> None:
    """Its term is renewed meanwhile, past the deadline that it heard last."""
    driver, term = scene.ready(lead="hold"), scene.term(seconds=1)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(0.1):
            term.liveness.extend(CLOCK.monotonic_s() + 1)

    in_background(renew)
    try:
        assert driver.lead(term, stop=scene.stop, finish=scene.finish) is Ended.IDLE
    finally:
        done.set()
    assert not term.lost


# --- starting -----------------------------------------------------------------------------------------------------


def test_an_error_of_the_start_is_the_drivers_own(scene: Scene) -> None:
    driver = scene.driver(load="refuse")
    with pytest.raises(PipelineFileError, match=r"^pipeline file 'x\.py' is not there; give the path"):
        driver.load()


def test_a_driver_that_crashes_at_its_start_says_how(scene: Scene) -> None:
    with pytest.raises(DriverDied, match="the driver ended before it was ready: exit code 5"):
        scene.driver(prepare="die").prepare(scope="rows", stop=scene.stop)


def test_a_start_that_nobody_waits_for_any_more_is_killed(scene: Scene) -> None:
    driver = scene.driver()
    assert driver.load() == "rows"
    scene.stop.set()
    assert not driver.prepare(scope="rows", stop=scene.stop)
    assert driver.gone == "the driver was not started"


def test_a_load_that_nobody_waits_for_any_more_is_killed(scene: Scene) -> None:
    """A file that uses Spark at its top level takes Spark's seconds to load."""
    driver = scene.driver(load="never")
    scene.stop.set()
    assert not driver.prepare(scope="rows", stop=scene.stop)
    assert driver.gone == "the driver was not started"


def test_the_temporary_folder_of_a_driver_goes_with_it(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    driver = scene.ready(lead="die")
    (first,) = (tmp_path / "tmp").iterdir()
    assert (first / "unpacked.so").exists()
    with pytest.raises(DriverDied, match="signal SIGKILL"):
        driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    wait_until(lambda: not first.exists(), what="the removal, while no other driver is asked for")
    assert driver.prepare(scope="rows", stop=scene.stop)
    assert [path.name for path in (tmp_path / "tmp").glob("*/*.so")] == ["unpacked.so"]
    driver.close()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_driver_that_cannot_be_started_any_more_has_died(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The member tries again, as its temporary folder may have room later; at its first start it says so and ends."""
    driver = scene.ready(lead="die")
    with pytest.raises(DriverDied, match="signal SIGKILL"):
        driver.lead(scene.term(), stop=scene.stop, finish=scene.finish)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    with pytest.raises(DriverDied, match=r"no driver can be started: the temporary folder .*; make room in it"):
        driver.prepare(scope="rows", stop=scene.stop)
    with pytest.raises(UsageError, match=r"the temporary folder .*/none' cannot be used: No such file"):
        scene.ready()
    monkeypatch.delenv("TMPDIR")
    assert driver.prepare(scope="rows", stop=scene.stop)


def test_an_orderly_end_leaves_nothing(scene: Scene) -> None:
    driver = scene.ready()
    processes = scene.processes()
    driver.close()
    wait_until(lambda: all_gone(processes), what="the end of what was killed")


# --- a pipeline that has ended ------------------------------------------------------------------------------------


def cleanups(scene: Scene) -> list[int]:
    """The epochs of the cleanups that were told of."""
    return [event.removed for event in scene.told if isinstance(event, CleanupEnded)]


def test_it_cleans_up_and_ends(scene: Scene) -> None:
    driver = scene.ready()
    processes = scene.processes()
    assert driver.clean(scene.term(), stop=scene.stop) is Ended.CLEANED
    assert cleanups(scene) == [1]
    assert scene.batches() == []
    wait_until(lambda: all_gone(processes))
    assert driver.gone is not None
    assert driver.prepare(scope="rows", stop=scene.stop)


@pytest.mark.parametrize("ended", [Ended.STOPPED, Ended.LOST])
def test_a_cleanup_obeys(scene: Scene, ended: Ended) -> None:
    driver = scene.ready(lead="wait")
    term = scene.term()

    def act() -> None:
        wait_until(lambda: cleanups(scene))
        if ended is Ended.STOPPED:
            scene.stop.set()
        else:
            term.liveness.end("it was paused")

    in_background(act)
    assert driver.clean(term, stop=scene.stop) is ended
    assert driver.gone is not None


def test_a_driver_that_dies_in_a_cleanup_is_noticed(scene: Scene) -> None:
    driver = scene.ready(lead="die")
    processes = scene.processes()
    with pytest.raises(DriverDied, match="signal SIGKILL"):
        driver.clean(scene.term(), stop=scene.stop)
    wait_until(lambda: all_gone(processes))


def test_a_driver_asks_for_the_records_and_hears_of_later_records(scene: Scene) -> None:
    driver = scene.driver(asks="pulse")
    assert driver.prepare(scope="rows", stop=scene.stop, records=lambda: [record("epoch", b"fresh")])
    assert whys(scene)[0] == "fresh"
    driver.hear([record("epoch", b"later")])
    wait_until(lambda: whys(scene)[-1] == "last later")


def test_a_store_that_is_away_while_the_driver_asks_ends_the_driver(scene: Scene) -> None:
    """The next attempt starts another: this driver would wait for its answer."""

    def away() -> Sequence[Record]:
        raise StoreUnavailable("the store is away")

    driver = scene.driver(asks="once")
    with pytest.raises(StoreUnavailable):
        driver.prepare(scope="rows", stop=scene.stop, records=away)
    first = scene.pids_file.read_text()
    assert driver.prepare(scope="rows", stop=scene.stop, records=lambda: [record("epoch", b"back")])
    assert whys(scene) == ["back"]
    assert scene.pids_file.read_text() != first


def test_a_stopped_driver_does_not_stop_the_agent_that_hears_of_changes(scene: Scene) -> None:
    driver = scene.driver(asks="pulse", silence=1.5)
    assert driver.prepare(scope="rows", stop=scene.stop, records=lambda: [record("epoch", b"fresh")])
    stopped = scene.processes()[0]
    stopped.suspend()

    def hear() -> None:
        for number in range(300):  # a megabyte and more: far beyond what the socket takes
            driver.hear([record("declared", b"%d" % number * 2000)])
        driver.elected()

    hearing = in_background(hear)
    hearing.join(timeout=NEVER_S)
    assert not hearing.is_alive()
    wait_until(lambda: driver.gone is not None)
    assert "has not answered" in (driver.gone or "")
    driver.kill()


def record(key: str, value: bytes) -> Record:
    return Record(Key(key), value, Version("1"), None)


def whys(scene: Scene) -> list[str]:
    """What the driver has said: first in `prepare`, then with each pulse."""
    return [event.why for event in scene.told if isinstance(event, MirrorFailed)]
