"""Snapshots that a standby makes for its mirrors: of which store, when they go, and who never gets one."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from tenure.clock import SystemClock
from tenure.errors import StorageError
from tenure.rundirs.mirrored import Mirrored, Replay
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seeding import seed_mirrored
from tenure.rundirs.state_copy import SeedPoint, copy_ahead
from tenure.takeover import snapshots as module
from tenure.takeover.snapshots import Snapshots, due
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.rundirs.made_by_hand import a_run_directory, a_zip, content_of, offsets_of, put, state_id, table_of

FOLDERS = ("state/0/0", "state/0/1")
CHECKSUMS = ("{}.crc", ".{}.crc", ".{}.crc.crc")
"""Spark's, and Hadoop's hidden ones, as a real JVM leaves them."""
OURS = "000011-ffffffff-0000-4000-8000-{:012}.sst"


class Scene:
    """A mirror of a leader whose snapshots are of versions 4, 8 and 12."""

    def __init__(self, folder: Path, *, operator: str = "dedupe") -> None:
        self.source, self.target = str(folder / "source"), str(folder / "target")
        a_run_directory(self.source, operator=operator)
        self.mirrored = Mirrored(RunDirectory(self.source), RunDirectory(self.target))

    def copy_ahead(self, batch: int) -> None:
        copy_ahead(
            self.mirrored, SeedPoint(batch, offsets_of(batch)), stop=lambda: False, on_missing=lambda change: None
        )

    def zip_of(self, version: int, partition: int) -> str:
        return f"state/0/{partition}/{version}_{state_id(version, partition)}.zip"

    def make(self, version: int) -> None:
        """As a standby's JVM makes the snapshots of a version."""
        for partition, folder in enumerate(FOLDERS):
            table = OURS.format(partition)
            put(f"{self.target}/{folder}/SSTs/{table}", "ours")
            put(f"{self.target}/{self.zip_of(version, partition)}", a_zip(table, 4))
            for name in CHECKSUMS:
                put(f"{self.target}/{folder}/{name.format(f'{version}_{state_id(version, partition)}.zip')}", "of ours")
            self.mirrored.add_snapshot(folder, self.zip_of(version, partition))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def changes_of(*versions: int) -> int:
    return sum(len(f"changes {version}") for version in versions)


def test_the_changes_above_the_leaders_snapshot_are_what_a_load_replays(scene: Scene) -> None:
    scene.copy_ahead(8)
    assert scene.mirrored.replays == {}, "version 8 has a snapshot"
    scene.copy_ahead(11)
    assert scene.mirrored.replays == {
        folder: Replay(11, state_id(11, partition), changes_of(9, 10, 11), 5)
        for partition, folder in enumerate(FOLDERS)
    }


@pytest.mark.parametrize("operator", ["transformWithStateExec", "symmetricHashJoin", "", "a later one"])
def test_a_store_that_may_have_column_families_gets_none(tmp_path: Path, operator: str) -> None:
    scene = Scene(tmp_path, operator=operator)
    scene.copy_ahead(11)
    assert scene.mirrored.replays == {}


def test_a_snapshot_that_was_made_counts_until_the_leader_has_a_newer_one(scene: Scene) -> None:
    scene.copy_ahead(10)
    scene.make(10)
    assert scene.mirrored.replays == {}
    scene.copy_ahead(11)
    assert [replay.changes for replay in scene.mirrored.replays.values()] == [changes_of(11)] * 2
    assert [replay.tables for replay in scene.mirrored.replays.values()] == [4] * 2
    assert f"{FOLDERS[0]}/SSTs/{OURS.format(0)}" in scene.mirrored.table_sizes
    scene.copy_ahead(12)
    assert scene.mirrored.snapshots == {}
    assert scene.zip_of(10, 0) not in content_of(scene.target)
    assert sorted(scene.mirrored.table_sizes) == [table_of(12, 0), table_of(12, 1)]


def test_the_leaders_own_snapshot_of_the_same_version_is_taken(scene: Scene) -> None:
    """The leader uploads it when it pleases: after ours was made, under the same name, with other tables."""
    theirs = {partition: scene.zip_of(12, partition) for partition in range(2)}
    hidden = {path: Path(scene.source, path).read_bytes() for path in theirs.values()}
    for path in hidden:
        Path(scene.source, path).unlink()
    scene.copy_ahead(12)
    scene.make(12)
    for path, content in hidden.items():
        put(f"{scene.source}/{path}", content)
    scene.copy_ahead(13)
    found = content_of(scene.target)
    assert {path: found[path] for path in hidden} == hidden
    assert {table_of(12, 0), table_of(12, 1)} <= found.keys()
    assert b"of ours" not in found.values(), "a checksum of ours refuses theirs"
    assert scene.mirrored.snapshots == {}


def test_a_takeover_takes_the_leaders_snapshot_that_came_after_the_last_copy(scene: Scene) -> None:
    path = scene.zip_of(12, 0)
    theirs = Path(scene.source, path).read_bytes()
    for partition in range(2):
        Path(scene.source, scene.zip_of(12, partition)).unlink()
    scene.copy_ahead(12)
    scene.make(12)
    put(f"{scene.source}/{path}", theirs)
    seed_mirrored(scene.mirrored, SeedPoint(12, offsets_of(12)))
    found = content_of(scene.target)
    assert found[path] == theirs
    assert table_of(12, 0) in found
    assert OURS.format(1).encode() in found[scene.zip_of(12, 1)], "ours, with a table that is there"


@pytest.mark.parametrize(
    ("changes", "tables", "worth"), [(99, 0, False), (100, 0, True), (100, 800, False), (200, 800, True)]
)
def test_a_snapshot_is_made_once_it_saves_something(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, changes: int, tables: int, worth: bool
) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 100)
    scene.mirrored.replays = {"a": Replay(3, "x", changes, tables), "b": Replay(3, "y", changes + 1, 10**9)}
    assert (due(scene.mirrored) == "a") is worth


# --- the thread that replays ------------------------------------------------------------------------------------------


class FakeStates:
    """Replays when the test says so."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.log: list[str] = []
        self.failures: list[Exception] = []

    def replay(self, folder: str, *, version: int, unique: str) -> FakeStates:
        self.begun.append(folder)
        self._name = f"{folder}/{version}_{unique}.zip"
        assert self.go.wait(NEVER_S)
        if self.failures:
            raise self.failures.pop()
        return self

    def put(self) -> None:
        self.log.append("put")
        put(self._name, a_zip(OURS.format(0), 4))

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def states(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> FakeStates:
    monkeypatch.setattr(module, "LEAST_BYTES", 1)
    scene.copy_ahead(11)
    return FakeStates()


def test_the_mirror_goes_on_while_a_state_is_replayed_and_one_is_at_a_time(scene: Scene, states: FakeStates) -> None:
    made = Snapshots(states, clock=SystemClock())
    for _ in range(3):
        assert made.step(scene.mirrored) is None
    wait_until(lambda: states.begun)
    assert (len(states.begun), states.log) == (1, [])
    states.go.set()
    wait_until(lambda: (made.step(scene.mirrored), len(scene.mirrored.snapshots) == 2)[1])
    assert states.log == ["put", "close"] * 2


def test_a_mirror_that_was_taken_or_that_went_gets_no_snapshot(scene: Scene, states: FakeStates) -> None:
    made = Snapshots(states, clock=SystemClock())
    made.step(scene.mirrored)
    made.abandon(Mirrored(RunDirectory(scene.source), RunDirectory(scene.target)))  # another one
    made.abandon(scene.mirrored)
    states.go.set()
    wait_until(lambda: states.log, what="its end")
    assert states.log == ["close"]
    made.abandon()
    assert states.log == ["close"]


def test_a_replay_that_is_over_is_released_when_its_mirror_goes(scene: Scene, states: FakeStates) -> None:
    made = Snapshots(states, clock=SystemClock())
    states.go.set()
    made.step(scene.mirrored)
    wait_until(lambda: made._task is not None and made._task.over)
    made.abandon()
    wait_until(lambda: states.log, what="its end")
    assert states.log == ["close"]


def test_a_failure_is_told_once_and_the_next_try_waits(scene: Scene, states: FakeStates) -> None:
    clock = ManualClock()
    made = Snapshots(states, clock=clock)
    states.failures.append(StorageError("the disk is full"))
    states.go.set()
    made.step(scene.mirrored)
    wait_until(lambda: made._task is not None and made._task.over)
    assert str(made.step(scene.mirrored)) == "the disk is full"
    assert made.step(scene.mirrored) is None
    assert len(states.begun) == 1
    clock.advance(timedelta(seconds=60))
    made.step(scene.mirrored)
    wait_until(lambda: len(states.begun) == 2)
