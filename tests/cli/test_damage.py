"""Damaged records, missing files, read-only and full disks: loud, one line, and right again once mended."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cli.support import COPY, COUNTS, Place, tenure

pytestmark = pytest.mark.spark

AS_ROOT = os.geteuid() == 0 and Path("/proc/self/mounts").exists()
FILL = """
import os
def fill(path):
    with open(path, "wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2
class Filling:
    def __init__(self, sink):
        self.sink = sink
    def check(self, *, output_mode):
        self.sink.check(output_mode=output_mode)
    def write(self, rows, batch, *, planned, events):
        written = self.sink.write(rows, batch, planned=planned, events=events)
        if batch.id == 1 and job.params["fill"]:
            fill(job.params["fill"])
        return written
job.stream("copy", source(job), sink=Filling(Delta(job.params["output"])))
"""


@pytest.mark.parametrize(
    ("key", "looks"),
    [
        ("checkpoints/copy/000000000001", {"status": 5, "history": 0}),
        ("checkpoints/copy/000000000000", {"status": 5, "history": 0}),
        ("epoch", {"status": 5, "history": 5}),
    ],
)
@pytest.mark.parametrize("value", [b"\x00", b"{}", b'{"v":99}'])
def test_a_damaged_record_is_named_and_nothing_older_is_taken(
    place: Place, spark: SparkSession, key: str, looks: dict[str, int], value: bytes
) -> None:
    place.feed(1)
    place.feed(2)
    file = place.pipeline(COPY)
    assert place.run(file, spark=spark).code == 0
    ((good,),) = place.sql("SELECT value FROM records WHERE key = ?", (key,))
    place.sql("UPDATE records SET value = ? WHERE key = ?", (value, key))
    place.feed(3)
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert repr(key) in told.error
    for command, code in looks.items():
        assert tenure(command, *place.flags()[:2], "--scope", "rows").code == code
    assert place.ids() == [1, 2]
    place.sql("UPDATE records SET value = ? WHERE key = ?", (good, key))
    assert place.run(file, spark=spark).code == 0
    assert place.ids() == [1, 2, 3]


def test_offsets_that_changed_in_the_store_are_not_taken(place: Place, spark: SparkSession) -> None:
    """They were taken for those that were planned."""
    place.feed(1)
    file = place.pipeline(COPY)
    assert place.run(file, spark=spark).code == 0
    key = "checkpoints/copy/000000000000"
    ((good,),) = place.sql("SELECT value FROM records WHERE key = ?", (key,))
    record = json.loads(good)
    payload = json.dumps(record["json"], separators=(",", ":"), sort_keys=True).encode()
    changed = good.replace(b'logOffset\\":0', b'logOffset\\":1')
    assert changed != good
    place.sql("UPDATE records SET value = ? WHERE key = ?", (changed, key))
    place.feed(2)
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert f"handle {key!r} does not decode: its payload of {len(payload)} bytes has a checksum" in told.error
    place.sql("UPDATE records SET value = ? WHERE key = ?", (good, key))
    assert place.run(file, spark=spark).code == 0
    assert place.ids() == [1, 2]


@pytest.mark.parametrize("needed", ["offsets/0", "commits/0", "metadata", "sources/0/1"])
def test_a_file_that_a_seed_needs_is_gone(place: Place, spark: SparkSession, needed: str) -> None:
    place.feed(1)
    place.feed(2)
    file = place.pipeline(COPY)
    assert place.run(file, spark=spark).code == 0
    directory = place.storage / "rows" / place.look("checkpoints", "show", "copy")["run_directory"]
    path = directory / needed
    if needed == "commits/0":
        (directory / "commits/1").unlink()  # so batch 1 is run again, on what batch 0 has left
    away = place.folder / "away"
    path.rename(away)
    place.feed(3)
    told = place.run(file, spark=spark)
    assert told.code == 5
    assert f"{path} is missing; restore it; no older checkpoint is taken in its place" in told.error
    away.rename(path)
    assert place.run(file, spark=spark).code == 0
    assert place.ids() == [1, 2, 3]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    if not AS_ROOT:
        pytest.skip("mounting needs root")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(mounted)], check=False)
    if done.returncode:
        pytest.skip("this machine does not let us mount")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)


def test_a_storage_that_is_read_only(tmp_path: Path, spark: SparkSession, small_disk: Path) -> None:
    place = Place(tmp_path, storage=small_disk)
    place.feed(1)
    file = place.pipeline(COPY)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    told = place.run(file, spark=spark)
    assert told.code == 6
    assert told.error == f"cannot write {small_disk}: Read-only file system; mount it writable"
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert place.run(file, spark=spark).code == 0
    assert place.ids() == [1]


@pytest.mark.parametrize("which", ["store", "storage"])
def test_a_disk_that_is_full_while_a_batch_is_planned(
    tmp_path: Path, spark: SparkSession, small_disk: Path, which: str
) -> None:
    store, storage = (small_disk / "store.db", None) if which == "store" else (None, small_disk)
    place = Place(tmp_path, store=store, storage=storage)
    for number in range(5):
        place.feed(number)
    file, ballast = place.pipeline(FILL), small_disk / "ballast"
    flags = ("--on-store-loss", "stop", "--away-limit", "1ms")
    told = place.run(file, "--param", f"fill={ballast}", *flags, spark=spark)
    assert told.code == {"store": 4, "storage": 6}[which]
    assert {"store": "disk is full", "storage": "No space left on device"}[which] in told.error
    assert place.ids() == [0, 1]
    full = place.run(file, "--param", "fill=", *flags, spark=spark)
    assert full.code == told.code
    assert full.error
    assert place.ids() == [0, 1]
    ballast.unlink()
    freed = place.run(file, "--param", "fill=", spark=spark)
    assert freed.code == 0, freed.err
    assert place.ids() == [0, 1, 2, 3, 4]
    assert place.look("history")[-1]["why"] == "finished"


def test_a_real_checkpoint_is_verified_and_pinned_by_the_checksums_of_spark_and_hadoop(
    place: Place, spark: SparkSession
) -> None:
    place.feed(1, 2)
    place.feed(3)
    assert place.run(place.pipeline(COUNTS), spark=spark).code == 0
    where = (*place.flags()[:4], "--scope", "rows")
    told = tenure("checkpoints", "verify", "--all", *where)
    assert told.code == 0, told.err
    assert tenure("checkpoints", "pin", "counts", *where).code == 0
    changed = [
        path
        for path in (place.storage / "rows" / "runs" / "counts").glob("e0*-[!p]*/state/0/*/*")
        if path.suffix in (".changelog", ".zip", ".delta") and not path.name.startswith(".")
    ]
    assert changed
    for path in changed:
        data = path.read_bytes()
        path.unlink()  # the copy of the pin has the same inode
        path.write_bytes(bytes([*data[:-1], data[-1] ^ 1]))
    told = tenure("checkpoints", "verify", *where)
    assert told.code == 5
    assert "checksum by" in told.error
