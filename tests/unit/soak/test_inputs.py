"""What becomes of the soak's input files: released whole, moved, put back, and known all the while."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kit.waiting import NEVER_S, wait_until
from tests.soak.inputs import Inputs, Routine, feed
from tests.soak.kinds import EVENTS_A_FILE
from tests.soak.plan import Query


def inputs(folder: Path, kind: str = "passed") -> Inputs:
    made = Inputs(folder, Query(kind, "ledger", "shown"))
    made.make()
    return made


def names(folder: Path, place: str, kind: str = "passed", source: str = "a") -> list[str]:
    return sorted(path.name for path in (folder / place / f"{kind}_ledger_shown" / source).glob("*"))


def test_files_hold_consecutive_events(tmp_path: Path) -> None:
    one = inputs(tmp_path)
    one.release("a")
    one.release("a")
    lines = [
        json.loads(line)
        for name in names(tmp_path, "input")
        for line in (tmp_path / "input" / "passed_ledger_shown" / "a" / name).read_text().splitlines()
    ]
    assert [line["id"] for line in lines] == list(range(2 * EVENTS_A_FILE))
    assert lines[7] == {"id": 7, "at": "2026-01-01T00:00:07+00:00", "key": 2}
    assert one.fed == {"a": 2 * EVENTS_A_FILE}


def test_what_shows_is_moved_away_and_can_be_put_back(tmp_path: Path) -> None:
    one = inputs(tmp_path)
    for _ in range(3):
        one.release("a")
    changed = (tmp_path / "input" / "passed_ledger_shown" / "a" / "000000.json").stat().st_mtime_ns
    assert one.move_away({"a": 2 * EVENTS_A_FILE + 3}) == 2
    assert names(tmp_path, "input") == ["000002.json"]
    assert names(tmp_path, "moved") == ["000000.json", "000001.json"]
    assert one.fed == {"a": 3 * EVENTS_A_FILE}, "what was fed stays fed"
    assert one.put_back() == 2
    assert names(tmp_path, "moved") == []
    assert (tmp_path / "input" / "passed_ledger_shown" / "a" / "000000.json").stat().st_mtime_ns == changed


def test_what_was_put_back_stays_until_it_is_let_go(tmp_path: Path) -> None:
    one = inputs(tmp_path)
    one.release("a")
    one.release("a")
    one.move_away({"a": EVENTS_A_FILE})
    one.put_back()
    assert one.move_away({"a": 2 * EVENTS_A_FILE}) == 1
    assert names(tmp_path, "input") == ["000000.json"]
    one.let_go()
    assert one.move_away({"a": 2 * EVENTS_A_FILE}) == 1


def test_each_source_has_files_of_its_own(tmp_path: Path) -> None:
    one = inputs(tmp_path, "joined")
    one.release("left")
    one.release("left")
    one.release("right")
    assert one.fed == {"left": 2 * EVENTS_A_FILE, "right": EVENTS_A_FILE}
    assert one.move_away({"left": EVENTS_A_FILE, "right": 0}) == 1
    assert names(tmp_path, "moved", "joined", "left") == ["000000.json"]


def test_of_the_folder_that_is_read_twice_every_third_file_is_left_out(tmp_path: Path) -> None:
    one = inputs(tmp_path, "twice")
    release = feed([one])
    for _ in range(6):
        release()
    assert one.fed == {"a": 4 * EVENTS_A_FILE, "b": 6 * EVENTS_A_FILE, "c": 6 * EVENTS_A_FILE}


def test_a_routine_does_nothing_while_it_is_paused() -> None:
    times = 0
    acted = threading.Event()

    def act() -> None:
        nonlocal times
        times += 1
        acted.set()

    routine = Routine("test", act, every_s=0.001)
    routine.start()
    try:
        assert acted.wait(NEVER_S)
        routine.pause()
        before = times
        acted.clear()
        assert not acted.wait(0.05)
        assert times == before
        routine.resume()
        assert acted.wait(NEVER_S)
    finally:
        routine.stop()


def test_what_ended_a_routine_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda args: None)

    def fail() -> None:
        raise OSError("no space")

    routine = Routine("test", fail, every_s=0.001)
    routine.start()
    wait_until(lambda: routine.failure is not None, timedelta(seconds=NEVER_S))
    routine.stop()
    assert str(routine.failure) == "no space"
