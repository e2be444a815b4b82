"""The event log has a limit. No line is lost or torn, whoever renames or cuts the file, and nobody waits for it."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from tenure.event_log import FILES, JsonLines
from tenure.events import TermWon
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S

LINE = len('{"event": "TermWon", "at": "2030-01-01T00:00:00+00:00", "scope": "p", "member": "anna", "epoch": 10}\n')


class Site:
    """A log of three lines a file, and its files."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events"
        self.log = self.writer()

    def writer(self, *, files: int = FILES) -> JsonLines:
        return JsonLines(str(self.path), clock=ManualClock(), most_bytes=3 * LINE, files=files)

    def write(self, first: int, count: int = 1) -> None:
        for epoch in range(first, first + count):
            self.log(TermWon("p", "anna", epoch))

    def read(self, name: str = "events") -> list[int]:
        lines = self.path.with_name(name).read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["epoch"] for line in lines]

    def names(self) -> list[str]:
        return sorted(path.name for path in self.path.parent.iterdir())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_a_full_file_is_renamed_and_the_oldest_goes(site: Site) -> None:
    site.write(10, 3)
    assert site.names() == ["events"]
    site.write(13, 10)
    assert site.names() == ["events", "events.1", "events.2", "events.3"]
    assert [site.read(name) for name in site.names()] == [[22], [19, 20, 21], [16, 17, 18], [13, 14, 15]]


def test_a_log_without_a_limit_grows(tmp_path: Path) -> None:
    log = JsonLines(str(tmp_path / "events"), clock=ManualClock())
    for epoch in range(100):
        log(TermWon("p", "anna", epoch))
    assert [path.name for path in tmp_path.iterdir()] == ["events"]


def test_a_line_that_is_longer_than_the_limit_is_written(site: Site) -> None:
    for epoch in (10, 11):
        site.log(TermWon("p" * 5 * LINE, "anna", epoch))
    assert [site.read(name) for name in site.names()] == [[11], [10]]


def test_writers_at_once_lose_and_tear_nothing(site: Site) -> None:
    """Agent and driver write to one log until it has been renamed ten times. While one renames, the others write on."""
    count, renames = 6, 10
    writers = [site.writer(files=renames + count + 1) for _ in range(3)]
    end = time.monotonic() + NEVER_S
    written: list[int] = []

    def write(number: int) -> None:
        for epoch in itertools.count(1000 + number, count):
            if len(site.names()) > renames or time.monotonic() > end:
                return
            writers[number % len(writers)](TermWon("p", "anna", epoch))
            written.append(epoch)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(NEVER_S)
    assert sorted(epoch for name in site.names() for epoch in site.read(name)) == sorted(written)
    assert len(site.names()) > renames


def test_nobody_waits_for_a_process_that_was_stopped_while_it_renamed(site: Site) -> None:
    site.write(10, 3)
    with open(site.path, "rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        site.write(13, 2)
        assert site.names() == ["events"]
        assert site.read() == [10, 11, 12, 13, 14]
    site.write(15)
    assert [site.read(name) for name in site.names()] == [[15], [10, 11, 12, 13, 14]]


def test_others_may_rename_cut_and_remove_the_file(site: Site) -> None:
    site.write(10, 2)
    site.path.rename(site.path.with_name("of-logrotate"))
    site.write(12)
    assert (site.read(), site.read("of-logrotate")) == ([12], [10, 11])
    shutil.copy(site.path, site.path.with_name("copied"))
    os.truncate(site.path, 0)
    site.write(13)
    assert (site.read(), site.read("copied")) == ([13], [12])
    site.path.unlink()
    site.write(14)
    assert site.read() == [14]


def test_a_folder_that_permits_no_rename(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, to: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    site.write(10, 5)
    assert site.read() == [10, 11, 12, 13, 14]


def test_a_link_stays_a_link_to_the_log(site: Site, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    site.path.symlink_to(tmp_path / "logs" / "real")
    site.write(10, 4)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["real", "real.1"]
    assert site.path.is_symlink()
    assert site.read() == [13]


def test_a_pipe_is_written_to(site: Site) -> None:
    os.mkfifo(site.path)
    reader = os.open(site.path, os.O_RDONLY | os.O_NONBLOCK)
    site.write(10, 5)
    assert [json.loads(line)["epoch"] for line in os.read(reader, 65536).splitlines()] == [10, 11, 12, 13, 14]
    os.close(reader)
    assert site.names() == ["events"]


def test_a_line_that_a_full_disk_cut_spoils_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = os.write, [20]

    def full(descriptor: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        taken = min(left[0], len(data))
        left[0] -= taken
        return write(descriptor, data[:taken])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space left"):
            site.write(10)
    site.write(11)
    torn, whole = site.path.read_text(encoding="utf-8").splitlines()
    assert len(torn) == 20
    assert json.loads(whole)["epoch"] == 11
