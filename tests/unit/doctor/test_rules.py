"""From figures to remarks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tenure.backends.shared.answering import about_servers
from tenure.coordination.candidates import Candidate
from tenure.coordination.examination import Grade, Remark
from tenure.doctor import rules
from tenure.storage.disk import FreeSpace

S = timedelta(seconds=1)
GIB = 1 << 30


def test_times_that_fit() -> None:
    assert rules.about_times(ttl=10 * S, stop_patience=20 * S) == [Remark(Grade.OK, "ttl 10 s, stop_patience 20 s")]


def test_a_ttl_that_a_pause_outlasts() -> None:
    (short,) = rules.about_times(ttl=S, stop_patience=20 * S)
    assert short == Remark(
        Grade.WARN,
        "ttl 1 s",
        "a pause of garbage collection, or a slow disk, ends the term",
        "give a ttl of 5s or more",
    )


def test_a_patience_that_no_orchestrator_has_by_itself() -> None:
    (long,) = rules.about_times(ttl=10 * S, stop_patience=60 * S)
    assert long.grade is Grade.NOTE
    assert long.mend == "set terminationGracePeriodSeconds (Kubernetes) or TimeoutStopSec (systemd) to 70 s"


@pytest.mark.parametrize(
    ("slowest_s", "grade", "mend"),
    [
        (2.0, Grade.OK, ""),
        (2.1, Grade.WARN, "make the store faster, or set ttl to 11s or more"),
        (5.0, Grade.WARN, "make the store faster, or set ttl to 26s or more"),
        (5.1, Grade.BAD, "make the store faster, or set ttl to 26s or more"),
    ],
)
def test_the_slowest_request_against_the_ttl(slowest_s: float, grade: Grade, mend: str) -> None:
    found = rules.about_latency([0.002, 0.003, slowest_s], ttl=10 * S, what="commits")
    assert (found.grade, found.mend) == (grade, mend)
    assert found.seen == f"3 commits: median 3.0 ms, slowest {slowest_s:.1f} s, ttl 10 s"


@pytest.mark.parametrize(
    ("free", "grade"),
    [
        (FreeSpace(5 * GIB, 9 * GIB, 100_000, 200_000), Grade.OK),
        (FreeSpace(5 * GIB, 9 * GIB, None, None), Grade.OK),
        (FreeSpace(GIB - 1, 9 * GIB, None, None), Grade.WARN),
        (FreeSpace(5 * GIB, 9 * GIB, 19_999, 200_000), Grade.WARN),
        (FreeSpace((64 << 20) - 1, 9 * GIB, 100_000, 200_000), Grade.BAD),
        (FreeSpace(5 * GIB, 9 * GIB, 0, 200_000), Grade.BAD),
    ],
)
def test_the_room_of_a_disk(free: FreeSpace, grade: Grade) -> None:
    assert rules.about_space("the storage /x", free).grade is grade


@pytest.mark.parametrize(("free", "grade"), [(4 * GIB, Grade.OK), (2 * GIB, Grade.WARN)])
def test_the_memory_for_one_more_driver(free: int, grade: Grade) -> None:
    found = rules.about_memory(free, heap=2 * GIB)
    assert found.grade is grade
    assert found.seen == f"{free / GIB:.1f} GiB of memory free; a driver with a heap of 2.0 GiB needs about 2.7 GiB"


def test_a_full_disk_is_named() -> None:
    assert rules.about_space("the storage /x", FreeSpace(4096, 9 * GIB, 7, 200_000)) == Remark(
        Grade.BAD,
        "the storage /x: 4.0 KiB of 9.0 GiB free, 7 of 200,000 files free: it is full",
        "no batch can be written",
        "free space on that disk, or name another",
    )


@pytest.mark.parametrize(
    ("ahead_s", "within_s", "seen"),
    [
        (1.9, 0.0, "the clock of the store agrees with this host's to 2 s"),
        (-2.4, 0.5, "the clock of the store agrees with this host's to 2 s"),
        (7.0, 0.5, "the clock of this host is 7 s behind that of the store"),
        (-3600.0, 0.0, "the clock of this host is 3600 s ahead of that of the store"),
    ],
)
def test_clocks_that_differ(ahead_s: float, within_s: float, seen: str) -> None:
    found = rules.about_clock("the store", ahead_s, within_s=within_s)
    assert found.seen == seen
    assert found.grade is (Grade.OK if "agrees" in seen else Grade.WARN)


def member(name: str, *, host: str, file: str = "aa", nofailover: bool = False, trouble: str = "") -> Candidate:
    return Candidate(name, host, 7, "2026-01-02", file=file, nofailover=nofailover, trouble=trouble)


def test_members_that_can_take_over() -> None:
    found = rules.about_members([member("anna", host="a"), member("ben", host="b")], leader="anna")
    assert found == [Remark(Grade.OK, "2 live: anna on a, ben on b; anna leads")]


@pytest.mark.parametrize(
    ("others", "seen"),
    [
        ((), "1 member may lead"),
        ((member("ben", host="b", nofailover=True),), "1 member may lead"),
        ((member("ben", host="a"),), "all members are on host a"),
        ((member("ben", host="b", file="bb"),), "the members have 2 pipeline files: anna has aa, ben has bb"),
        ((member("ben", host="b", trouble="no such table"),), "ben fails: no such table"),
    ],
)
def test_members_that_cannot(others: tuple[Candidate, ...], seen: str) -> None:
    _, found = rules.about_members([member("anna", host="a"), *others], leader=None)
    assert (found.grade, found.seen) == (Grade.WARN, seen)


def test_no_member_is_right_before_the_first_start() -> None:
    assert [one.grade for one in rules.about_members([], leader=None)] == [Grade.NOTE]


def test_another_file_than_that_of_the_members() -> None:
    members = [member("anna", host="a"), member("ben", host="b", file="bb")]
    (found,) = rules.about_file(members, file="bb")
    assert found.seen == "the pipeline file here is bb, and anna has aa"
    assert rules.about_file(members[1:], file="bb") == []


def test_targets() -> None:
    assert rules.about_targets({"a": "", "b": ""}) == [Remark(Grade.OK, "the targets of a, b answer")]
    (found,) = rules.about_targets({"a": "", "b": "password authentication failed"})
    assert found.grade is Grade.BAD
    assert found.seen == "the target of query 'b' does not answer: password authentication failed"


@pytest.mark.parametrize(
    ("answers", "grade", "seen"),
    [
        ({"a:1": "x"}, Grade.NOTE, "the store URL names one server of etcd, a:1, which answers"),
        ({"a:1": "x", "b:1": "x"}, Grade.OK, "all 2 servers of etcd answer"),
        ({"a:1": "x", "b:1": None}, Grade.WARN, "1 of 2 servers of etcd answer; silent: b:1"),
        (
            {"a:1": "x", "b:1": "y"},
            Grade.BAD,
            "the servers of the store URL belong to 2 clusters of etcd: a:1, b:1",
        ),
    ],
)
def test_the_servers_of_a_store(answers: dict[str, str | None], grade: Grade, seen: str) -> None:
    found = about_servers("etcd", answers)
    assert (found.grade, found.seen) == (grade, seen)


@pytest.mark.parametrize(
    ("ago_s", "up_s", "grade", "words"),
    [
        (12.0, 9000.0, Grade.OK, "12 s ago"),
        (None, 20.0, Grade.NOTE, "not asked for /metrics yet"),
        (None, 9000.0, Grade.NOTE, "since it started"),
        (1800.0, 9000.0, Grade.WARN, "30 min ago, and not since"),
    ],
)
def test_scrapes(ago_s: float | None, up_s: float, grade: Grade, words: str) -> None:
    remark = rules.about_scrape("anna", ago_s, up_s=up_s)
    assert (remark.grade, words in remark.seen) == (grade, True)


def test_a_sweep_that_left_nothing() -> None:
    swept = {"at": "noon", "removed": 3, "left": 0, "first": ""}
    assert rules.about_orphans(swept) == Remark(Grade.OK, "the last sweep, noon, removed 3 orphans, and left none")
