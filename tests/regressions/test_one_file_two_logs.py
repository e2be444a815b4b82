"""Two members of one SQLite store that led at once, because each had a log of its own.

SQLite names the log by the path of the database. So a second name has a second log; a removed log stays the log of the
members that have it open; and a process that opens and closes the database loses SQLite's locks, so another process
removes the log as "the last". Each `check` was good, for as long as anybody looked.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tenure.backends.sqlite import held_file as ranges
from tenure.backends.sqlite.held_file import Range
from tests.support.store_member import Member


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ha.db"


@pytest.fixture
def members() -> Iterator[tuple[Member, Member]]:
    with ExitStack() as stack:
        yield stack.enter_context(Member("anna")), stack.enter_context(Member("ben"))


def beside(path: Path, *endings: str) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in endings]


def leads_alone(members: tuple[Member, Member], *, wanted: int) -> bool:
    """At most one term stands, and it is that of the wanted member."""
    answers = [member.ask("check") for member in members]
    assert answers.count("stands") <= 1, answers
    return answers[wanted] == "stands"


def test_a_hard_link_is_refused_and_the_leader_goes_on(path: Path, members: tuple[Member, Member]) -> None:
    anna, ben = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    other = path.with_name("other.db")
    os.link(path, other)
    refused = ben.ask("open", other)
    ben.ask("lead")
    assert leads_alone(members, wanted=0)
    assert "has 2 names (hard links)" in refused
    other.unlink()
    assert ben.ask("open", path) == "open"
    assert ben.ask("lead") == "Wait"


def test_a_mount_of_the_file_is_refused_and_the_leader_goes_on(path: Path, members: tuple[Member, Member]) -> None:
    anna, ben = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    other = path.with_name("mounted.db")
    other.touch()
    if subprocess.run(["mount", "--bind", path, other], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount")
    try:
        refused = ben.ask("open", other)
        ben.ask("lead")
        assert leads_alone(members, wanted=0)
        assert "is mounted as a file" in refused
        assert f"mount the directory that holds the file, at {path.parent}" in refused
    finally:
        subprocess.run(["umount", "-l", other], check=True)


def test_a_symbolic_link_is_a_second_name_of_one_store(path: Path, members: tuple[Member, Member]) -> None:
    anna, ben = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    (path.parent / "elsewhere").mkdir()
    other = path.parent / "elsewhere" / "link.db"
    other.symlink_to(path)
    assert ben.ask("open", other) == "open"
    assert ben.ask("lead") == "Wait"
    assert [found.name for found in path.parent.rglob("*-sessions")] == ["ha.db-sessions"]
    anna.ask("close")
    assert ben.ask("lead") == "leads 2"


@pytest.mark.parametrize("endings", [("-wal", "-shm"), ("-wal",), ("-shm",), ("-wal", "-shm", "-sessions")])
def test_a_leader_whose_log_was_removed_leads_no_more_beside_a_newcomer(
    path: Path, members: tuple[Member, Member], endings: tuple[str, ...]
) -> None:
    anna, ben = members
    anna.ask("open", path)
    anna.ask("close")  # the log goes into the file: a newcomer without the log has the same database, in an older state
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    for file in beside(path, *endings):
        subprocess.run(["rm", "-r", file], check=True)
    assert "is open in another process by another name, or with a log that was removed" in ben.ask("open", path)
    assert "was removed or replaced" in anna.ask("check")
    assert ben.ask("open", path) == "open"
    kept = endings == ("-shm",)
    assert ben.ask("lead") == ("Wait" if kept else "leads 1")
    assert leads_alone(members, wanted=0 if kept else 1)
    assert anna.ask("check").split()[0] == ("stands" if kept else "GuardFailed")


def test_a_leader_that_reads_its_own_database_keeps_its_log(path: Path, members: tuple[Member, Member]) -> None:
    anna, _ = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    before = [file.stat().st_ino for file in beside(path, "-wal", "-shm")]
    anna.ask("read", path, *beside(path, "-wal", "-shm"))
    with path.with_name("ha.db-shm").open("rb") as index:
        assert ranges.is_locked_elsewhere(index.fileno(), Range(128)), "the next process would make the index anew"
    program = (
        "import sys; from tenure.backends.sqlite import SqliteStore\n"
        "store = SqliteStore(sys.argv[1]); print(store.scopes()); store.close()\n"
        "import sqlite3; other = sqlite3.connect(sys.argv[1])\n"
        "print(other.execute('select count(*) from scopes').fetchone()); other.close()"
    )
    others = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=True)
    assert others.stdout.splitlines() == ["['scene']", "(1,)"]
    assert [file.stat().st_ino for file in beside(path, "-wal", "-shm")] == before
    assert anna.ask("write") == "written"
    assert leads_alone(members, wanted=0)


def test_a_leader_without_locks_that_is_stopped_within_a_write_is_alone(
    path: Path, members: tuple[Member, Member]
) -> None:
    anna, ben = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    assert anna.ask("begin") == "begun"
    anna.ask("read", path, *beside(path, "-wal", "-shm"))
    refused = ben.ask("open", path)
    assert "is being written by another process for too long" in refused
    assert anna.ask("commit") == "committed"
    assert ben.ask("open", path) == "open"
    anna.ask("begin")
    anna.ask("read", path, *beside(path, "-wal", "-shm"))
    assert "is being written by another process for too long" in ben.ask("lead")
    assert anna.ask("commit") == "committed"
    assert ben.ask("lead") == "Wait"
    assert leads_alone(members, wanted=0)


def test_a_commit_to_a_log_that_was_removed_meanwhile_is_unknown(path: Path, members: tuple[Member, Member]) -> None:
    anna, ben = members
    anna.ask("open", path)
    assert anna.ask("lead") == "leads 1"
    anna.ask("begin")
    for file in beside(path, "-wal", "-shm"):
        file.unlink()
    assert "is being written by another process" in ben.ask("open", path)
    assert anna.ask("commit").startswith("OutcomeUnknown")
    assert "was removed or replaced" in anna.ask("check")
    assert ben.ask("open", path) == "open"
    assert ben.ask("lead") == "leads 1"
    assert leads_alone(members, wanted=1)


def test_the_last_of_all_processes_merges_the_log(path: Path, members: tuple[Member, Member]) -> None:
    for member in members:
        member.ask("open", path)
        member.ask("read", path, *beside(path, "-wal", "-shm"))
        member.ask("lead")
    for member in members:
        member.ask("close")
    assert sorted(file.name for file in path.parent.iterdir()) == ["ha.db", "ha.db-sessions"]
    assert members[1].ask("open", path) == "open"
    assert members[1].ask("lead") == "leads 2"
