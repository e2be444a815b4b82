"""Members as processes: asked to stop, interrupted twice, killed. They leave no process, no file, a true history."""

from __future__ import annotations

import signal

import psutil
import pytest

from tests.cli.support import COPY, COUNTS, Place
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MemberProcess
from tests.kit.waiting import wait_until

pytestmark = pytest.mark.spark

STUCK = """
import time
def put(rows, batch):
    rows.write.mode("append").json(job.params["output"])
    open(job.params["output"] + "/started", "w").close()
    time.sleep(600)
job.stream("put", source(job), sink=ForeachBatch(put, idempotent=True))
"""


def member(place: Place, file: str, name: str = "anna", *more: str) -> MemberProcess:
    (place.folder / "tmp").mkdir(exist_ok=True)
    return MemberProcess(
        name,
        folder=place.folder,
        arguments=["run", file, *place.flags(), *more],
        environment={"TMPDIR": str(place.folder / "tmp")},
    )


def jvm_of(process: psutil.Process) -> psutil.Process:
    """The JVM of a member."""
    (found,) = [child for child in process.children(recursive=True) if child.name() == "java"]
    return found


def process_of(running: MemberProcess, place: Place) -> psutil.Process:
    """The member's process, as its store knows it."""
    (pid,) = [one["pid"] for one in place.look("status")["members"] if one["member"] == running.name]
    return psutil.Process(pid)


def gone(processes: list[psutil.Process]) -> bool:
    """Whether all have ended; a JVM that nobody waited for is left as a zombie, and has ended too."""
    return not [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize(
    ("number", "to_group", "code"),
    [(signal.SIGINT, True, 130), (signal.SIGTERM, False, 0), (signal.SIGHUP, True, 0)],
)
def test_a_member_that_is_asked_to_stop_resigns_first(place: Place, number: int, to_group: bool, code: int) -> None:
    place.feed(1)
    # A ttl that a machine which stalls for some seconds does not use up: if it does so while the member stops, a
    # session of 2 s ends, and with it the term, before it is resigned.
    with member(place, place.pipeline(COPY), "anna", "--ttl", "30s") as running:
        running.wait_for("BatchCommitted")
        process = process_of(running, place)
        processes = [process, *process.children(recursive=True)]
        assert jvm_of(process) in processes
        if to_group:
            running.signal(number)
        else:
            running.terminate()
        assert running.wait() == code, running.output()
        wait_until(lambda: gone(processes), what="the end of its processes")
    assert running.output().splitlines()[-1].endswith("rows: term 1 is over: stopped")
    assert [term["why"] for term in place.look("history")] == ["stopped"]
    assert list((place.folder / "tmp").iterdir()) == []
    assert place.look("status")["members"] == []


@only_if_drawn(QUARTERS[0])
def test_a_second_interrupt_does_not_wait_for_the_batch(place: Place) -> None:
    place.feed(1)
    started = place.output / "started"
    with member(place, place.pipeline(STUCK)) as running:
        wait_until(started.exists, what="the batch that hangs")
        process = process_of(running, place)
        processes = [process, *process.children(recursive=True)]
        running.signal(signal.SIGINT)
        wait_until(lambda: "interrupt again to end at once" in running.output())
        running.signal(signal.SIGINT)
        assert running.wait() == 130, running.output()
        wait_until(lambda: gone(processes), what="the end of its processes")
    assert "Traceback" not in running.output()


@only_if_drawn(QUARTERS[1])
def test_a_jvm_that_dies_costs_the_term_and_the_member_leads_again(place: Place) -> None:
    place.feed(1)
    # A ttl that a disk that stalls for seconds does not use up: no session is to end here.
    with member(place, place.pipeline(COPY), "anna", "--ttl", "30s") as running:
        running.wait_for("BatchCommitted")
        driver = psutil.Process(running.driver())
        processes = [driver, *driver.children(recursive=True)]
        jvm_of(driver).kill()
        ended = running.wait_for("DriverEnded")
        assert ended["why"] == f"Spark's JVM ended with exit code -9; see {place.folder / 'anna.spark.log'}"
        place.feed(2)
        running.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
        assert gone(processes)
        running.terminate()
        assert running.wait() == 0
    assert "Traceback" not in running.output()
    assert [(term["why"], term["detail"]) for term in place.look("history")] == [
        ("driver died", "Spark's JVM ended with exit code -9"),
        ("stopped", None),
    ]
    assert place.ids() == [1, 2]


@only_if_drawn(QUARTERS[1])
def test_a_standby_goes_on_when_the_leader_is_killed(place: Place) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    with member(place, file) as anna:
        anna.wait_for("BatchCommitted")
        with member(place, file, "ben") as ben:
            ben.wait_for("MemberReady")
            wait_until(lambda: len(place.look("status")["members"]) == 2, what="two members")
            status = place.look("status")
            assert (status["leader"], status["epoch"]) == ("anna", 1)
            assert {one["member"] for one in status["members"]} == {"anna", "ben"}
            assert [one["state"] for one in status["members"]] == ["leading", "ready"]
            place.feed(2)
            anna.kill()
            ben.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
            assert [(term["holder"], term["why"]) for term in place.look("history")] == [
                ("anna", "session ended"),
                ("ben", None),
            ]
            ben.terminate()
            assert ben.wait() == 0, ben.output()
    assert place.ids() == [1, 2]
    assert [term["why"] for term in place.look("history")] == ["session ended", "stopped"]


def end(leader: MemberProcess) -> str:
    """End a leader as a pod is ended, and return its last line without the time of day."""
    leader.terminate()
    assert leader.wait() == 0, leader.output()
    return leader.output().splitlines()[-1].split(" rows: ")[1]


@only_if_drawn(QUARTERS[2])
def test_a_leader_that_gets_sigterm_hands_over_to_the_warm_standby(place: Place) -> None:
    place.feed(1)
    file = place.pipeline(COPY)
    with member(place, file, "anna", "--ttl", "10s") as anna:
        anna.wait_for("BatchCommitted")
        with member(place, file, "ben", "--ttl", "10s") as ben:
            ben.wait_for("StandbyWarm")
            place.feed(2)
            anna.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
            assert end(anna) == "term 1 is over: stopped", anna.output()
            place.feed(3)
            ben.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 2)
            assert end(ben) == "term 2 is over: stopped", ben.output()
    assert place.ids() == [1, 2, 3]
    assert [(term["holder"], term["why"]) for term in place.look("history")] == [
        ("anna", "stopped"),
        ("ben", "stopped"),
    ]


@only_if_drawn(QUARTERS[3])
@pytest.mark.long
def test_a_drain_of_both_members_one_after_the_other_ends_nothing(place: Place) -> None:
    """The first member that is drained is replaced before the second is drained, as a disruption budget asks."""
    place.feed(1)
    file = place.pipeline(COUNTS)
    with member(place, file, "anna", "--ttl", "10s") as anna, member(place, file, "ben", "--ttl", "10s") as ben:
        (leader,) = wait_until(lambda: [one for one in (anna, ben) if one.events("BatchCommitted")])
        standby = ben if leader is anna else anna
        standby.wait_for("StandbyWarm")
        place.feed(2, 3)
        leader.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
        assert end(leader) == "term 1 is over: stopped", leader.output()
        with member(place, file, "carl", "--ttl", "10s") as carl:
            place.feed(4)
            standby.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 2)
            carl.wait_for("StandbyWarm")
            place.feed(5, 6, 7)
            assert end(standby) == "term 2 is over: stopped", standby.output()
            place.feed(8)
            carl.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 4)
            assert end(carl) == "term 3 is over: stopped", carl.output()
    assert {row["k"]: row["count"] for row in place.rows()} == {"a": 4, "b": 4}
    assert [term["why"] for term in place.look("history")] == ["stopped"] * 3
