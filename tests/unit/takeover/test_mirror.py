"""The mirrors of a standby: which directory they fill, when it is handed over, and when it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.clock import SystemClock
from tenure.coordination.candidates import Lag
from tenure.errors import StorageError, StoreUnavailable
from tenure.events import Event, Events, MirrorFailed
from tenure.retry import fixed_delay
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.state_copy import copy_ahead
from tenure.takeover import mirror as mirror_module
from tenure.takeover import snapshots
from tenure.takeover.mirror import Mirrors
from tests.kit.waiting import NEVER_S, wait_until
from tests.unit.rundirs.made_by_hand import a_run_directory, content_of, offsets_of, state_id, state_names, table_of
from tests.unit.takeover.test_snapshots import FakeStates

OLD = "runs/rows/e00000003-anna-0123"
PLANNED = Checkpoint("rows", "id", 10, offsets_of(10), OLD, 3, "today")


class HeldTables:
    """The tables that a JVM keeps for a mirror, by their holder."""

    def __init__(self) -> None:
        self.held: dict[str, Mapping[str, int]] = {}

    def hold(self, holder: str, tables: Mapping[str, int], *, ahead: bool) -> None:
        assert ahead
        self.held[holder] = tables

    def release(self, holder: str) -> None:
        self.held.pop(holder, None)


class Scene:
    """One query whose leader is at batch 10 in epoch 3, unless a test says otherwise."""

    def __init__(self, folder: Path, *, states: FakeStates | None = None) -> None:
        self.storage = folder
        self.states = states
        self.newest: Checkpoint | None = PLANNED
        self.epoch = 3
        self.away = False
        self.ask: Callable[[], Checkpoint] | None = None  # None: it is answered
        self.rounds = 0
        self.told: list[Event] = []
        self.directory(OLD, done=9)
        self.tables = HeldTables()
        context = SimpleNamespace(
            scope="rows",
            checkpoints=lambda query: SimpleNamespace(glance=self._newest),
            epoch=lambda: self.epoch,
            storage=str(folder),
            clock=SystemClock(),
            events=Events(self.told.append),
        )
        self.mirrors = Mirrors(["rows"], cast(Any, context), member="ben", tables=cast(Any, self.tables), states=states)

    def directory(self, path: str, *, done: int) -> None:
        """A run directory in which batches up to one are done."""
        a_run_directory(f"{self.storage}/{path}", operator="dedupe")
        for commit in (self.storage / path / "commits").iterdir():
            if int(commit.name) > done:
                commit.rename(self.storage / path / f"later-{commit.name}")

    def do(self, batch: int) -> None:
        """The leader of epoch 3 notes a batch as done."""
        (self.storage / OLD / f"later-{batch}").rename(self.storage / OLD / "commits" / str(batch))

    def plan(self, batch: int) -> None:
        """The leader of epoch 3 does all before a batch, and plans it."""
        self.do(batch - 1)
        self.newest = replace(PLANNED, batch=batch, offsets=offsets_of(batch))

    def _newest(self) -> Checkpoint | None:
        if self.ask is not None:
            return self.ask()
        if self.away:
            raise StoreUnavailable("the store is away")
        self.rounds += 1
        return self.newest

    def folders(self) -> list[str]:
        """What lies beside the leader's run directory."""
        return [path.name for path in (self.storage / "runs" / "rows").iterdir() if path.name not in OLD]

    def wait(self, lag: Lag | None) -> None:
        wait_until(lambda: self.mirrors.lag == lag, what=f"{lag}, not {self.mirrors.lag}")

    def two_rounds(self) -> None:
        rounds = self.rounds
        wait_until(lambda: self.rounds >= rounds + 2)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(mirror_module, "ROUND_S", 0.01)
    monkeypatch.setattr(mirror_module, "OWN_S", 0.1)
    monkeypatch.setattr(mirror_module, "_AGAIN", fixed_delay(delay=timedelta(milliseconds=50)))
    scene = Scene(tmp_path)
    yield scene
    scene.mirrors.close(patience_s=NEVER_S)


def test_it_follows_its_leader_and_is_named_for_the_next_epoch(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    scene.plan(11)
    scene.two_rounds()
    (folder,) = scene.folders()
    assert folder.startswith("e00000004-ben-")
    taken = scene.mirrors.take("rows", source=OLD, epoch=4)
    assert taken is not None
    path, mirrored = taken
    assert path == f"runs/rows/{folder}"
    assert state_names(11) <= set(mirrored.files) == set(content_of(f"{scene.storage}/{path}"))
    assert scene.mirrors.lag is None
    scene.mirrors.close(patience_s=NEVER_S)
    assert scene.folders() == [folder], "what was taken is not its any more"


@pytest.mark.parametrize(("source", "epoch"), [(OLD, 5), ("runs/rows/e00000003-carl-4567", 4)])
def test_it_is_for_one_epoch_and_one_source(scene: Scene, source: str, epoch: int) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    assert scene.mirrors.take("rows", source=source, epoch=epoch) is None
    scene.mirrors.close(patience_s=NEVER_S)
    assert scene.folders() == []


def test_the_tables_of_its_newest_snapshots_are_held_until_a_batch_has_loaded_them(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    for batch in (11, 12):
        scene.plan(batch)
    scene.two_rounds()
    scene.wait(Lag(0, 0))
    (folder,) = scene.folders()
    ((_, held),) = scene.tables.held.items()
    root = f"{scene.storage}/runs/rows/{folder}"
    assert held == {f"{root}/{table_of(12, partition)}": 5 for partition in range(2)}
    assert scene.mirrors.take("rows", source=OLD, epoch=4) is not None
    scene.mirrors.close(patience_s=NEVER_S)
    assert list(scene.tables.held.values()) == [held], "the query may load its state later"
    scene.mirrors.let_tables_go("rows")
    assert scene.tables.held == {}


def test_the_tables_of_a_mirror_that_goes_go_too(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    assert scene.tables.held
    scene.mirrors.close(patience_s=NEVER_S)
    assert scene.tables.held == {}


@pytest.fixture
def replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """A scene whose JVM makes snapshots."""
    monkeypatch.setattr(mirror_module, "ROUND_S", 0.01)
    monkeypatch.setattr(snapshots, "LEAST_BYTES", 1)
    scene = Scene(tmp_path, states=FakeStates())
    yield scene
    scene.mirrors.close(patience_s=NEVER_S)


def test_a_snapshot_is_put_into_the_mirror_before_it_is_taken_and_never_after(replayed: Scene) -> None:
    states = replayed.states
    assert states is not None
    states.go.set()
    replayed.mirrors.start()
    wait_until(lambda: states.log.count("put") == 2, what="both snapshots")
    wait_until(lambda: len(replayed.tables.held["the mirror of rows"]) == 4, what="their tables, beside the leader's")
    states.go.clear()
    replayed.plan(11)
    wait_until(lambda: len(states.begun) == 3, what="the next")
    assert replayed.mirrors.take("rows", source=OLD, epoch=4) is not None, "nobody waits for the replay"
    states.go.set()
    wait_until(lambda: states.log.count("close") == 3, what="its end")
    assert states.log.count("put") == 2


def test_a_member_whose_own_term_began_a_moment_ago_still_has_its_mirror(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has the term before the driver learns of it."""
    monkeypatch.setattr(mirror_module, "OWN_S", NEVER_S)
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    scene.epoch = 4
    scene.two_rounds()
    assert scene.mirrors.take("rows", source=OLD, epoch=4) is not None


def test_another_epoch_is_another_mirror_once_its_leader_has_planned(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    (first,) = scene.folders()
    scene.epoch = 4
    # The newest checkpoint is of epoch 3: nobody knows where the new leader runs.
    wait_until(lambda: scene.folders() == [], what="the end of the first mirror")
    scene.wait(None)
    new = OLD.replace("3-anna", "4-carl")
    scene.directory(new, done=10)
    scene.newest = replace(PLANNED, batch=11, offsets=offsets_of(11), run_directory=new, epoch=4)
    scene.wait(Lag(0, 0))
    found = {name for name in scene.folders() if name not in new}
    assert all(name.startswith("e00000005-ben-") for name in found)
    assert first not in found


def test_of_a_leader_that_took_over_a_batch_that_is_done_and_idles_the_old_directory_is_mirrored(scene: Scene) -> None:
    """It has planned nothing yet, so a takeover would go on from there."""
    scene.do(10)
    scene.epoch = 4
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    taken = scene.mirrors.take("rows", source=OLD, epoch=5)
    assert taken is not None
    assert state_names(11) <= set(taken[1].files), "the state after the batch"


def test_before_the_first_batch_there_is_nothing_to_mirror(scene: Scene) -> None:
    scene.newest = None
    scene.mirrors.start()
    scene.two_rounds()
    assert scene.mirrors.lag is None
    assert scene.folders() == []


def test_what_goes_wrong_is_said_once_and_tried_again(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    lost = Path(scene.storage, OLD, f"state/0/1/11_{state_id(11, 1)}.changelog")
    away = lost.rename(f"{scene.storage}/away")
    scene.plan(11)
    wait_until(lambda: scene.told, what="the failure")
    scene.two_rounds()
    (told,) = scene.told
    assert isinstance(told, MirrorFailed)
    assert f"11_{state_id(11, 1)}" in told.why
    assert scene.mirrors.lag is None, "nothing of it can be used"
    wait_until(lambda: scene.folders() == [], what="the end of what was half brought")
    away.rename(lost)
    scene.wait(Lag(0, 0))
    assert len(scene.folders()) == 1


@pytest.mark.parametrize(("where", "name"), [(RunDirectory, "take"), (mirror_module, "has_commit")])
def test_an_error_of_the_storage_costs_nothing_that_was_copied(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    folders = scene.folders()
    whole, away = getattr(where, name), [True]

    def once_away(*given: Any, **named: Any) -> Any:
        if away:
            away.clear()
            raise StorageError("the storage is away")
        return whole(*given, **named)

    monkeypatch.setattr(where, name, once_away)
    scene.plan(11)
    wait_until(lambda: scene.told, what="the failure")
    scene.wait(Lag(0, 0))
    assert scene.folders() == folders
    assert len(scene.told) == 1


def test_a_store_that_is_away_is_waited_for(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    folders = scene.folders()
    scene.away = True
    wait_until(lambda: scene.told, what="the failure")
    scene.away = False
    scene.plan(11)
    scene.two_rounds()
    scene.wait(Lag(0, 0))
    assert len(scene.told) == 1
    assert scene.folders() == folders, "what it had got is as good as before"


def test_a_takeover_does_not_wait_for_a_store_that_is_away(scene: Scene) -> None:
    """It is asked again for some seconds, by the mirror's thread."""
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    asked, answered = threading.Event(), threading.Event()

    def asks() -> Checkpoint:
        asked.set()
        assert answered.wait(NEVER_S)
        raise StoreUnavailable("the store is away")

    scene.ask = asks
    assert asked.wait(NEVER_S)
    try:
        assert scene.mirrors.take("rows", source=OLD, epoch=4) is not None
    finally:
        answered.set()
    scene.mirrors._thread.join(NEVER_S)
    assert scene.told == [], "nobody mirrors any more"


def test_an_error_of_a_storages_client_is_an_error_like_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))

    def fail(*arguments: object, **named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(mirror_module, "copy_ahead", fail)
    scene.plan(11)
    wait_until(lambda: scene.told, what="the failure")
    monkeypatch.setattr(mirror_module, "copy_ahead", copy_ahead)
    scene.wait(Lag(0, 0))


def test_what_another_process_of_the_same_name_fills_or_runs_in_stays(scene: Scene) -> None:
    """It may lead by now: this one may have been stopped since it read the newest epoch. A leader's sweep tells."""
    folder = scene.storage / "runs" / "rows"
    others = [f"e0000000{epoch}-ben-0123456789ab" for epoch in (3, 4, 5)]
    for name in others:
        (folder / name / "state").mkdir(parents=True)
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    scene.mirrors.close(patience_s=NEVER_S)
    assert sorted(path.name for path in folder.iterdir() if path.name in others) == others


def test_a_takeover_does_not_wait_for_a_file_that_hangs(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    monkeypatch.setattr(mirror_module, "TAKE_S", 0.1)
    with scene.mirrors._lock:
        assert scene.mirrors.take("rows", source=OLD, epoch=4) is None


def test_when_the_pipeline_has_ended_nobody_will_run_there(scene: Scene) -> None:
    scene.mirrors.start()
    scene.wait(Lag(0, 0))
    scene.newest = None  # its checkpoints are cleaned up
    wait_until(lambda: scene.folders() == [], what="the end of the mirror")
    assert scene.mirrors.lag is None
