"""The record of failures: what counts as the same failure, when it is tried again, and who waits."""

from __future__ import annotations

from datetime import timedelta
from itertools import accumulate

import pytest

from tenure.coordination.encoding import encode
from tenure.coordination.failing import (
    FAILED,
    FAILING,
    SINK_AWAY,
    Failing,
    Failure,
    HoldOff,
    after,
    decode_failing,
    failing_in,
)
from tenure.coordination.records import Record, Version
from tenure.errors import CorruptRecord
from tests.kit.clock import ManualClock

WHY = "query 'raw' failed: ValueError: bad record at offset 17 of part-0042"


def failed(batch: int = 9, *, why: str = WHY, query: str = "raw") -> Failure:
    return Failure(FAILED, why, query, batch)


def run(*failures: Failure, attempts: int = 5) -> list[tuple[Failing, bool]]:
    """The records after each of these failures, one after the other."""
    found: list[tuple[Failing, bool]] = []
    for number, failure in enumerate(failures):
        before = found[-1][0] if found else None
        member = ("anna", "ben")[number % 2]
        found.append(after(before, failure, member=member, at=f"t{number}", attempts=attempts))
    return found


def record(failing: Failing) -> Record:
    return Record(FAILING, failing.encode(uid="u"), Version("1"), None)


def test_the_same_batch_with_the_same_error_counts_over_the_members() -> None:
    found = run(*[failed()] * 5)
    assert [one.count for one, _ in found] == [1, 2, 3, 4, 0]
    assert [spent for _, spent in found] == [False, False, False, False, True]
    assert [(one.since, one.at, one.member) for one, _ in found][-1] == ("t0", "t4", "anna")


def test_the_log_of_each_member_makes_no_other_error() -> None:
    """Of two members, each had five attempts of its own: the line of the error ends with the log of its driver."""
    logs = [Failure(FAILED, WHY, "raw", 9, fix=f"see /var/tmp/{name}.log") for name in ("anna", "ben") * 2]
    assert run(*logs)[-1][0].count == 4


def test_numbers_and_ids_make_no_other_error() -> None:
    other = WHY.replace("17", "18").replace("0042", "0043")
    assert run(failed(), failed(why=other))[-1][0].count == 2
    assert run(failed(), failed(why="query 'raw' failed: KeyError: 'a'"))[-1][0].count == 1


def test_a_batch_that_fails_by_turns_in_two_ways_is_given_up_too() -> None:
    one, two = failed(), failed(why="query 'raw' failed: KeyError: 'a'")
    found = run(one, two, one, two, one, attempts=3)
    assert [spent for _, spent in found] == [False, False, False, False, True]


def test_many_errors_of_one_batch_do_not_grow_the_record() -> None:
    many = [failed(why=f"error {chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(200)]
    assert len(run(*many)[-1][0].encode(uid="u")) < 2000


def test_another_batch_and_another_query_have_counts_of_their_own() -> None:
    found = run(failed(8), failed(9), failed(3, query="hourly"), failed(9))
    assert [one.count for one, _ in found] == [1, 1, 1, 2]
    assert [one.tries for one, _ in found] == [1, 2, 3, 4]


def test_what_is_away_has_no_limit_and_leaves_the_counts() -> None:
    away = Failure(SINK_AWAY, "query 'raw': connection refused", "raw", 9)
    found = run(failed(), *[away] * 50, failed())
    assert not any(spent for _, spent in found)
    assert found[-1][0].count == 2
    assert max(one.again_s for one, _ in found) == 60


def test_five_attempts_outlast_five_minutes() -> None:
    waits = [one.again_s for one, _ in run(*[failed()] * 5)]
    assert waits == [10, 30, 90, 270, 0]
    assert list(accumulate(waits))[-1] > 300


def test_after_a_pause_the_count_begins_anew() -> None:
    paused = run(*[failed()] * 5)[-1][0]
    again, spent = after(paused, failed(), member="anna", at="t9", attempts=5)
    assert (again.count, spent) == (1, False)


def test_a_failure_is_over_when_its_query_has_planned_a_later_batch() -> None:
    failing = run(failed(9))[0][0]
    assert [failing.is_over(newest) for newest in ({}, {"raw": 9}, {"raw": 10}, {"hourly": 99})] == [
        False, False, True, False,
    ]  # fmt: skip


def test_the_record_reads_back() -> None:
    for failing, _ in run(failed(), Failure(SINK_AWAY, "away"), failed(7)):
        assert decode_failing(record(failing)) == failing


@pytest.mark.parametrize("value", [b"{}", b"\xff", encode({"last": {}}), encode({"member": "a", "since": "", "at": "",
    "tries": 1, "again_s": 1.0, "last": {"kind": "failed"}, "attempts": {"raw": 3}})])  # fmt: skip
def test_a_record_that_does_not_decode_holds_nobody(value: bytes) -> None:
    damaged = Record(FAILING, value, Version("1"), None)
    with pytest.raises(CorruptRecord):
        decode_failing(damaged)
    assert failing_in([damaged]) is None
    held = HoldOff(ManualClock())
    assert not held.holds([])
    assert not held.holds([damaged])


def test_a_member_waits_from_the_moment_at_which_it_saw_the_failure() -> None:
    clock, records = ManualClock(), [record(run(failed())[0][0])]
    held, late = HoldOff(clock), HoldOff(clock)
    assert not held.holds([])
    assert held.holds(records)
    clock.advance(timedelta(seconds=9.5))
    assert held.holds(records)
    assert not late.holds(records), "a member that starts later tries at once"
    clock.advance(timedelta(seconds=0.6))
    assert not held.holds(records)
    second = [record(run(failed(), failed())[-1][0])]
    assert held.holds(second), "each failure is waited for"
    assert not held.holds([]), "it is over"
