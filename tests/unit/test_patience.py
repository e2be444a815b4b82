"""A call gets its answer, its error, or an end of the waiting; a late call disturbs no other."""

from __future__ import annotations

import os
import threading

import pytest

from tenure.patience import Unanswered, answered
from tests.kit.waiting import NEVER_S


def test_the_answer_is_returned() -> None:
    assert answered(lambda: 7, within_s=NEVER_S) == 7


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("of its own"), KeyboardInterrupt()])
def test_the_error_is_raised(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as failed:
        answered(fail, within_s=NEVER_S)
    assert failed.value is error


def test_a_call_without_an_answer_is_given_up_and_its_late_answer_is_nobodys() -> None:
    go = threading.Event()
    try:
        with pytest.raises(Unanswered, match=r"^no answer for 0\.05 s$"):
            answered(lambda: go.wait() and "late", within_s=0.05)
        assert answered(lambda: "next", within_s=NEVER_S) == "next"
    finally:
        go.set()
    assert [answered(lambda n=n: n, within_s=NEVER_S) for n in range(3)] == [0, 1, 2]  # type: ignore[misc] # mypy does not know the type of a default


def test_calls_of_several_threads_go_on_beside_one_another() -> None:
    together = threading.Barrier(3)
    seen: list[int] = []
    threads = [
        threading.Thread(target=lambda: seen.append(answered(lambda: together.wait(NEVER_S), within_s=NEVER_S)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    assert sorted(seen) == [0, 1, 2]


def test_a_forked_child_has_threads_of_its_own() -> None:
    assert answered(os.getpid, within_s=NEVER_S) == os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if answered(os.getpid, within_s=5) == os.getpid() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
