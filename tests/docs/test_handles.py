"""The page *Handles*, done as a reader does it: its service twice, the leader paused past its ttl, and its reader.

Promise: nothing is put in the place of the page's own words but its folders.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tenure
from tenure.storage.blobs import FileBlobs
from tests.docs.blocks import HANDLES, text_of
from tests.kit.process import GroupProcess
from tests.kit.waiting import NEVER_S, wait_until

AREA = "daily"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for role in ("service", "reader"):
        text = text_of(HANDLES, f"python {role}").replace("/var/lib/tenure", str(tmp_path))
        (tmp_path / f"{role}.py").write_text(text.replace("/srv/tenure", str(tmp_path / "storage")))
    return tmp_path


@contextlib.contextmanager
def service(folder: Path, member: str) -> Iterator[GroupProcess]:
    """A process of the page's service, which has begun to lead or to wait."""
    process = GroupProcess([sys.executable, str(folder / "service.py"), member], log=folder / f"{member}.log")
    process.start()
    try:
        yield process
    finally:
        process.kill()


def store(folder: Path) -> contextlib.AbstractContextManager[tenure.Reader]:
    return tenure.read("reports", store=f"sqlite://{folder}/ha.db", storage=f"file://{folder}/storage")


def days(reader: tenure.Reader, *, epoch: int) -> list[str]:
    """The reports that the leader of an epoch has added."""
    return [handle.name for handle in reader.handles(AREA).list() if handle.epoch == epoch]


def paused_before_an_add(folder: Path, leader: GroupProcess, reader: tenure.Reader) -> bool:
    """Pause the leader; wake it again where its next write is none of `add`, or where it holds the lock of the file."""
    leader.pause()
    with contextlib.closing(sqlite3.connect(folder / "ha.db", timeout=0)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            held = True
        else:
            held = False
            file.execute("ROLLBACK")
    newest = reader.record("newest")
    if not held and newest is not None and days(reader, epoch=1)[-1:] == [newest.decode()]:
        return True
    leader.wake()
    return False


def test_a_late_report_is_refused_and_its_bytes_are_gone(folder: Path) -> None:
    with service(folder, "anna") as anna:
        wait_until(lambda: "anna leads, epoch 1" in anna.output())
        with service(folder, "ben") as ben, store(folder) as reader:
            wait_until(lambda: days(reader, epoch=1))
            wait_until(lambda: paused_before_an_add(folder, anna, reader))
            of_anna = days(reader, epoch=1)
            blobs = folder / "storage" / "reports" / "blobs"
            changed = (blobs / "e00000001" / "handles" / AREA).stat().st_mtime_ns
            wait_until(lambda: "ben leads, epoch 2" in ben.output())
            wait_until(lambda: days(reader, epoch=2))
            anna.wake()
            wait_until(lambda: "anna: term 1 of scope 'reports' is over; nothing was written" in anna.output())
            assert days(reader, epoch=1) == of_anna
            assert (blobs / "e00000001" / "handles" / AREA).stat().st_mtime_ns > changed, "its bytes came, and went"
            named = {handle.blob.address for handle in reader.handles(AREA).list() if handle.blob is not None}
            assert set(FileBlobs(str(blobs)).list("e00000001")) <= named
            assert all(reader.handles(AREA).get(day) for day in of_anna)
            ben.kill()
            wait_until(lambda: "anna leads, epoch 3" in anna.output())  # and the next report follows the last
            wait_until(lambda: days(reader, epoch=3))
        anna.kill()
    with store(folder) as reader:
        names = [handle.name for handle in reader.handles(AREA).list()]
        assert names == [f"{day:06d}" for day in range(1, len(names) + 1)]
    told = subprocess.run(
        [sys.executable, str(folder / "reader.py")], capture_output=True, text=True, timeout=NEVER_S, check=True
    )
    newest, size, _ = told.stdout.split()
    assert newest in names[-2:], "a service that is killed between the two leaves the record one behind"
    assert int(size) == len(f"the report of day {int(newest)}\n") * 1000
