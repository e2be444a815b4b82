"""A store and a storage that are not of one life of a pipeline: in a grant, in a sweep, and at the end of a life.

What went wrong: see `test_one_owner`. Whoever was let in, and finds it out later, ends as well, and removes nothing.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from tenure.agent.member import Member
from tenure.link.driver import Ended
from tests.cli.conftest import place, spark
from tests.cli.support import Place, tenure
from tests.kit.members import MemberProcess, pause_between_writes
from tests.kit.waiting import wait_until
from tests.regressions.owned import Scene, files
from tests.stores import ONE_SERVER, new_store

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark

FOREIGN = f"e00000001-{'f' * 32}-{'0' * 12}"
"""The mark of another store's first grant."""


@pytest.fixture(params=ONE_SERVER)
def scene(request: pytest.FixtureRequest, place: Place, spark: SparkSession) -> Scene:
    return Scene(place, new_store(request, request.param, place.folder), spark)


@pytest.fixture
def on_sqlite(request: pytest.FixtureRequest, place: Place, spark: SparkSession) -> Scene:
    return Scene(place, new_store(request, "sqlite", place.folder), spark)


# --- at a grant --------------------------------------------------------------------------------------------------


@contextmanager
def while_it_starts(do: Callable[[], object]) -> Iterator[None]:
    """Something happens after the member was let in, and before it contends."""
    run = Member.run

    def late(member: Member, **named: object) -> Ended:
        do()
        return run(member, **named)  # type: ignore[arg-type] # as it was called

    with patch.object(Member, "run", late):
        yield


def refused_at_the_grant(scene: Scene, why: str, do: Callable[[], object]) -> None:
    output = scene.place.ids()
    with while_it_starts(do):
        told = scene.run()
    assert told.code == 11, told.err
    assert f"is not that of scope 'rows' in this store: {why}" in told.error
    assert " leads, epoch " in told.err
    assert scene.place.ids() == output
    ended = tenure("history", "--store", scene.url, "--scope", "rows", "--output", "json").json[-1]
    assert ended["why"] == "failed", "it has resigned"


def test_at_a_grant_an_emptied_store_an_older_copy_and_another_store_are_refused(scene: Scene) -> None:
    scene.place.feed(1)
    scene.goes_on(1)
    older = scene.copy()
    scene.goes_on(1)
    scene.goes_on(1)
    newest = scene.copy()
    scene.place.feed(2)
    refused_at_the_grant(scene, "it belongs to owner", scene.empty)
    another = scene.copy()  # what began in the emptied store
    scene.bring_back(newest)
    older_still = "it is marked by epoch 3, and the store is in epoch 2, so the store is an older copy"
    refused_at_the_grant(scene, older_still, lambda: scene.bring_back(older))
    scene.bring_back(newest)
    refused_at_the_grant(scene, "it belongs to owner", lambda: scene.bring_back(another))
    scene.bring_back(newest)
    scene.goes_on(1, 2)


def test_at_a_grant_a_storage_that_was_copied_back_is_refused(on_sqlite: Scene) -> None:
    scene = on_sqlite
    storage, yesterday, today = (scene.place.folder / name for name in ("storage", "yesterday", "today"))
    scene.place.feed(1)
    scene.goes_on(1)
    shutil.copytree(storage, yesterday)
    scene.place.feed(2)
    scene.goes_on(1, 2)

    def copy_back() -> None:
        storage.rename(today)
        yesterday.rename(storage)

    refused_at_the_grant(scene, "it has no mark of epoch 2", copy_back)
    shutil.rmtree(storage)
    today.rename(storage)
    scene.place.feed(3)
    scene.goes_on(1, 2, 3)


# --- in a sweep --------------------------------------------------------------------------------------------------


def test_a_leader_whose_sweep_finds_another_owner_removes_nothing_and_ends(on_sqlite: Scene) -> None:
    """A storage that does not put if absent has let two of them in."""
    scene = on_sqlite
    once = scene.place.folder / "once"
    mark = scene.storage / "rows" / "owner" / FOREIGN
    orphan = scene.storage / "rows" / "blobs" / "e00000001" / "checkpoints" / "copy" / "000000000009-lost"
    body = f"""
import pathlib
def put(rows, batch):
    if pathlib.Path({str(once)!r}).exists():
        return
    pathlib.Path({str(once)!r}).touch()
    pathlib.Path({str(mark)!r}).touch()
    pathlib.Path({str(orphan.parent)!r}).mkdir(parents=True, exist_ok=True)
    pathlib.Path({str(orphan)!r}).touch()
job.stream("copy", source(job), sink=ForeachBatch(put, idempotent=True))
"""
    file = scene.place.pipeline(body)
    assert scene.run(file=file).code == 0, "there is nothing to take"
    scene.place.feed(1)
    told = scene.run(file=file)
    assert told.code == 11, told.err
    assert "have claimed it at once; stop the members of one of them, and remove its marks" in told.error
    assert orphan.exists()
    mark.unlink()
    assert scene.run(file=file).code == 0
    assert not orphan.exists()


def test_a_plan_of_a_sweep_is_not_applied_to_a_storage_that_was_copied_back(on_sqlite: Scene) -> None:
    scene = on_sqlite
    storage, yesterday, today = (scene.place.folder / name for name in ("storage", "yesterday", "today"))
    plan = str(scene.place.folder / "plan")
    scene.place.feed(1)
    scene.goes_on(1)
    lost = storage / "rows" / "blobs" / "e00000001" / "checkpoints" / "copy" / "000000000009-lost"
    lost.parent.mkdir(parents=True)
    shutil.copytree(storage, yesterday)
    scene.place.feed(2)
    scene.goes_on(1, 2)
    lost.parent.mkdir(parents=True, exist_ok=True)
    lost.touch()
    told = tenure("sweep", "plan", plan, *scene.where(), "--scope", "rows")
    assert told.code == 0, told.err
    storage.rename(today)
    yesterday.rename(storage)
    lost.touch()
    told = tenure("sweep", "apply", plan)
    assert told.code == 11, told.err
    assert "its newest mark is of epoch 1 now: it is an older copy; make a new plan" in told.error
    assert lost.exists()
    shutil.rmtree(storage)
    today.rename(storage)
    assert tenure("sweep", "apply", plan).code == 0
    assert not lost.exists()


# --- the end of a life -------------------------------------------------------------------------------------------


def test_whoever_ended_for_good_cleans_up_in_its_own_storage_only(on_sqlite: Scene) -> None:
    """It was killed in its cleanup; the next member is started with the storage of another store."""
    scene = on_sqlite
    scene.place.feed(1)
    rehearsals = scene.storage / "rows" / "rehearsals"
    rehearsals.parent.mkdir(parents=True)
    rehearsals.symlink_to(scene.place.folder)  # which is not followed, so it keeps the cleanup from ending
    with pytest.MonkeyPatch.context() as env:
        env.setenv("TENURE_CLEANUP_RETRY", "none")
        assert scene.run("--final").code == 10
    other = scene.place.folder / "other"
    (scene.place.folder / "store2").mkdir()
    url = f"sqlite://{scene.place.folder}/store2/store.db"
    assert scene.run(url=url, storage=other, output=scene.place.folder / "o2").code == 0
    before = files(other)
    told = scene.run(storage=other)
    assert told.code == 11, told.err
    assert files(other) == before
    rehearsals.unlink()
    assert scene.run().code == 0
    assert not (scene.storage / "rows").exists()
    told = scene.run(storage=other)
    assert told.code == 11, told.err
    assert "use another --scope, or tenure result forget and an empty storage, and another output" in told.error
    scene.begins_anew(1)
    assert tenure("result", "forget", *scene.where(), "--scope", "rows").code == 0
    assert scene.run(storage=scene.place.folder / "empty", output=scene.place.folder / "o3").code == 0


def test_what_a_woken_leader_leaves_when_all_is_cleaned_up_is_in_nobody_s_way(on_sqlite: Scene) -> None:
    """It was stopped while it filled its run directory, and woke up when the marks were gone."""
    scene = on_sqlite
    runs, plan = scene.storage / "rows" / "runs" / "copy", str(scene.place.folder / "plan")
    scene.place.feed(1)
    scene.goes_on(1)
    (name,) = [run.name for run in runs.iterdir()]

    def wakes_up() -> None:
        (runs / name / "commits").mkdir(parents=True)
        (runs / name / "commits" / "0").write_text("v1\n{}")

    assert scene.run("--final").code == 0
    wakes_up()
    told = scene.run()
    assert told.code == 0, told.err
    assert "has finished for good, epoch 2" in told.err
    assert tenure("result", "forget", *scene.where(), "--scope", "rows").code == 0
    scene.goes_on(1, 1)
    assert not (runs / name).exists(), "its leader has swept"
    wakes_up()
    assert tenure("sweep", "plan", plan, *scene.where(), "--scope", "rows").code == 0
    assert tenure("sweep", "apply", plan).code == 0
    assert not (runs / name / "commits").exists()
    scene.place.feed(2)
    scene.goes_on(1, 1, 2)


def test_a_standby_that_outlives_what_is_forgotten_stands_by_in_the_next_life(on_sqlite: Scene) -> None:
    """It is stopped while the pipeline ends, and while an operator has that forgotten."""
    scene = on_sqlite
    where = (*scene.where(), "--scope", "rows")
    scene.place.feed(1)
    scene.goes_on(1)
    assert tenure("pause", *where[:2], *where[4:]).code == 0
    arguments = ["run", scene.file, *scene.where(), *scene.place.flags(ttl="4s")[4:], "--until-idle"]
    with MemberProcess("ben", folder=scene.place.folder, arguments=arguments) as ben:
        ben.wait_for("MemberReady")
        wait_until(lambda: scene.place.look("list")[0]["state"] in ("ready", "warm"))
        pause_between_writes(ben, store=scene.url)
        assert tenure("resume", *where[:2], *where[4:]).code == 0
        assert scene.run("--final").code == 0
        assert tenure("result", "forget", *where).code == 0
        ben.wake()
        ben.wait()
        assert ben.exit_code == 0, ben.output()
        assert len(ben.events("TermWon")) == 1
    assert scene.place.ids() == [1, 1], "the next life reads from the beginning"


def test_what_was_forgotten_begins_with_marks_of_its_own(on_sqlite: Scene) -> None:
    scene = on_sqlite
    scene.place.feed(1)
    kept = scene.place.folder / "kept"
    scene.goes_on(1)
    shutil.copytree(scene.storage, kept)
    assert scene.run("--final").code == 0
    assert not (scene.storage / "rows").exists(), "the marks are gone, too"
    assert tenure("result", "forget", *scene.where(), "--scope", "rows").code == 0
    scene.storage.rmdir()
    kept.rename(scene.storage)
    told = scene.run()
    assert told.code == 11, told.err
    assert "it belongs to owner" in told.error
    shutil.rmtree(scene.storage)
    scene.goes_on(1, 1)
