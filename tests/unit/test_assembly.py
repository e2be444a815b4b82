"""The check of the log files before a start: it makes no file, and changes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenure.assembly import check_log
from tenure.errors import UsageError


def test_a_check_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in (str(tmp_path / "log"), "log"):
        check_log(path, flag="--spark-log")
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_was_there_stays_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a line of before\n")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    for name in ("log", "link"):
        check_log(str(tmp_path / name), flag="--spark-log")
        assert (tmp_path / name).read_text() == "a line of before\n"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("path", ["", "no/such/log", "no-such/"])
def test_a_file_that_cannot_be_written(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match=r"^--event-log '.*' cannot be written: (Is a directory|No such file)"):
        check_log(f"{tmp_path}/{path}", flag="--event-log")


def test_a_log_without_a_name() -> None:
    with pytest.raises(UsageError, match=r"^--event-log '' cannot be written: No such file"):
        check_log("", flag="--event-log")
