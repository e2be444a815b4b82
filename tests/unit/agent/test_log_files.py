"""Log files: a check leaves none, and an empty file that the run has made goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.agent.log_files import LogFile
from tenure.errors import UsageError


def checked(path: Path) -> LogFile:
    log = LogFile(str(path), flag="--spark-log")
    log.check()
    return log


def test_a_check_leaves_no_file(tmp_path: Path) -> None:
    checked(tmp_path / "log").remove_if_empty()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("written", "stays"), [("", False), ("a line\n", True)])
def test_a_file_that_the_run_has_made_stays_with_its_content_only(tmp_path: Path, written: str, stays: bool) -> None:
    log = checked(tmp_path / "log")
    (tmp_path / "log").write_text(written)
    log.remove_if_empty()
    assert (tmp_path / "log").exists() is stays


@pytest.mark.parametrize("content", ["", "a line of before\n"])
def test_a_file_that_was_there_stays_as_it_was(tmp_path: Path, content: str) -> None:
    (tmp_path / "log").write_text(content)
    checked(tmp_path / "log").remove_if_empty()
    assert (tmp_path / "log").read_text() == content


def test_a_link_to_a_file_that_is_not_there_yet_stays(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    checked(tmp_path / "log").remove_if_empty()
    assert (tmp_path / "log").is_symlink()


def test_what_was_not_checked_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "log").touch()
    LogFile(str(tmp_path / "log"), flag="--spark-log").remove_if_empty()
    assert (tmp_path / "log").exists()


@pytest.mark.parametrize("path", ["", "no/such/log"])
def test_a_file_that_cannot_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match=r"^--event-log '.*' cannot be written: (Is a directory|No such file)"):
        LogFile(str(tmp_path / path), flag="--event-log").check()
