"""The scratch folder of a doctor: its end, also after Ctrl-C and after a kill."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tenure.doctor.scratch import SCRATCH, is_abandoned, name_of, scratch_folder
from tenure.storage.reach import reach
from tests.kit.clock import ManualClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("host", "runs", "age", "gone"),
    [
        ("here", True, timedelta(0), False),
        ("here", False, timedelta(0), True),
        ("elsewhere", False, timedelta(hours=23), False),
        ("elsewhere", True, timedelta(hours=25), True),
    ],
)
def test_the_doctor_of_a_folder_is_gone(host: str, runs: bool, age: timedelta, gone: bool) -> None:
    name = name_of(host, 7, NOW - age)
    assert is_abandoned(name, host="here", runs=lambda pid: runs, now=NOW) is gone


def test_a_folder_of_another_name_is_nobodys() -> None:
    assert not is_abandoned("rows", host="here", runs=lambda pid: False, now=NOW)


def test_a_host_with_dots_knows_its_own_folders() -> None:
    name = name_of("db.example.org", 7, NOW)
    assert is_abandoned(name, host="db.example.org", runs=lambda pid: False, now=NOW)


@pytest.mark.parametrize("ends", [None, KeyboardInterrupt, ValueError])
def test_nothing_stays(tmp_path: Path, ends: type[BaseException] | None) -> None:
    storage = reach(str(tmp_path / "storage"))

    def look() -> None:
        with scratch_folder(storage, host="here", clock=ManualClock()) as folder:
            storage.write(f"{folder}/first", b"one")
            if ends is not None:
                raise ends

    if ends is None:
        look()
    else:
        with pytest.raises(ends):
            look()
    assert list(tmp_path.iterdir()) == []


def test_the_next_doctor_removes_the_folder_of_a_killed_one_and_no_other(tmp_path: Path) -> None:
    storage = reach(str(tmp_path))
    killed, living = name_of("here", 2**22 + 1, NOW), name_of("here", os.getpid(), NOW - timedelta(seconds=9))
    for name in (killed, living):
        storage.write(f"{SCRATCH}/{name}/first", b"one")
    (tmp_path / "rows").mkdir()
    with scratch_folder(storage, host="here", clock=ManualClock()) as folder:
        storage.write(f"{folder}/first", b"one")
        assert {entry.name for entry in storage.entries(SCRATCH)} == {living, folder.rpartition("/")[2]}
    assert {path.name for path in tmp_path.iterdir()} == {SCRATCH, "rows"}
    assert [entry.name for entry in storage.entries(SCRATCH)] == [living]
