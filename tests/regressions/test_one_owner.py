"""A store and a storage that are not of one life of a pipeline.

What went wrong: a store that was emptied gave epoch 1 once more, and everything was read again, without a word; of two
stores that shared a storage both led, and each removed the live run directories of the other; a store, or a storage,
that was restored from an older copy planned batches again, which the sink took for those that it had.
"""

from __future__ import annotations

import base64
import shutil
import sqlite3
from contextlib import closing

import pytest
from pyspark.sql import SparkSession

from tenure.coordination.identity import IDENTITY
from tenure.coordination.records import Delete
from tests.cli.conftest import place, spark
from tests.cli.support import Place, Told
from tests.draw import QUARTERS, only_if_drawn
from tests.kit.members import MemberProcess
from tests.lives import copy_of
from tests.regressions.owned import ROWS, Scene
from tests.stores import ONE_SERVER, long_on_servers, new_store

__all__ = ["place", "spark"]

pytestmark = pytest.mark.spark


@pytest.fixture(params=long_on_servers)
def scene(request: pytest.FixtureRequest, place: Place, spark: SparkSession) -> Scene:
    return Scene(place, new_store(request, request.param, place.folder), spark)


@pytest.fixture(params=ONE_SERVER)
def everywhere(request: pytest.FixtureRequest, place: Place, spark: SparkSession) -> Scene:
    return Scene(place, new_store(request, request.param, place.folder), spark)


@pytest.fixture
def on_sqlite(request: pytest.FixtureRequest, place: Place, spark: SparkSession) -> Scene:
    return Scene(place, new_store(request, "sqlite", place.folder), spark)


def test_a_store_that_was_emptied_is_refused_and_restored_it_goes_on(everywhere: Scene) -> None:
    scene = everywhere
    scene.place.feed(1)
    scene.goes_on(1)
    copy = scene.copy()
    scene.empty()
    scene.place.feed(2)
    scene.refused("it belongs to owner")
    scene.bring_back(copy)
    scene.goes_on(1, 2)


ANEW = "; to begin anew, use another --scope, and another output"


def test_with_an_emptied_store_one_begins_anew_under_another_scope(on_sqlite: Scene) -> None:
    scene = on_sqlite
    scene.place.feed(1)
    scene.goes_on(1)
    scene.empty()
    told = scene.run()
    assert told.error.endswith(f"restore the store{ANEW}")
    scene.begins_anew(1)
    scene.place.feed(2)
    scene.begins_anew(1, 2)


def test_an_older_copy_of_the_store_is_refused_and_the_newest_goes_on(scene: Scene) -> None:
    scene.place.feed(1)
    scene.goes_on(1)
    older = scene.copy()
    scene.place.feed(2)
    scene.goes_on(1, 2)
    newest = scene.copy()
    scene.place.feed(3)
    scene.bring_back(older)
    scene.refused("it is marked by epoch 2, and the store is in epoch 1, so the store is an older copy")
    scene.bring_back(newest)
    scene.goes_on(1, 2, 3)


def test_with_an_older_copy_of_the_store_one_begins_anew_under_another_scope(on_sqlite: Scene) -> None:
    scene = on_sqlite
    scene.place.feed(1)
    scene.goes_on(1)
    older = scene.copy()
    scene.goes_on(1)
    scene.bring_back(older)
    told = scene.run()
    assert told.error.endswith(f"restore the store{ANEW}")
    told = scene.run(storage=scene.place.folder / "anew")
    assert told.code == 11, "its checkpoints name what an empty storage has not"
    assert told.error.endswith(f"restore the storage{ANEW}")
    scene.begins_anew(1)


def test_with_checkpoints_of_an_older_version_one_begins_anew_under_another_scope(on_sqlite: Scene) -> None:
    """It wrote no identity, and no mark."""
    scene = on_sqlite
    scene.place.feed(1)
    scene.goes_on(1)
    with scene.store() as store:
        record = store.read(ROWS, IDENTITY)
        assert record is not None
        store.commit(ROWS, guards=(), writes=(Delete(IDENTITY, record.version),))
    shutil.rmtree(scene.storage / "rows" / "owner")
    told = scene.run()
    assert told.code == 11
    assert "no owner: its record 'identity' was removed, or an older version wrote them; " in told.error
    assert told.error.endswith(ANEW)
    scene.begins_anew(1)


def test_a_store_whose_file_was_copied_within_an_epoch_is_refused_by_a_batch_that_is_done(on_sqlite: Scene) -> None:
    """The epoch is the same; a batch that it does not know was planned and done."""
    scene = on_sqlite
    older = scene.place.folder / "older.db"
    body = f"""
import contextlib, sqlite3
def put(rows, batch):
    if batch.id == 1:
        with contextlib.closing(sqlite3.connect({str(scene.place.store)!r})) as store:
            with contextlib.closing(sqlite3.connect({str(older)!r})) as copy:
                store.backup(copy)
job.stream("copy", source(job), sink=ForeachBatch(put, idempotent=True))
"""
    file = scene.place.pipeline(body)
    for number in range(4):
        scene.place.feed(number)
    assert scene.run(file=file).code == 0
    newest = scene.copy()
    with scene.store(f"sqlite://{older}") as store:
        scene.bring_back(copy_of(store, ROWS))
    told = scene.run(file=file)
    assert told.code == 11
    assert "/commits/3, and the newest checkpoint of query 'copy' is 1, so the store is an older copy" in told.error
    scene.bring_back(newest)
    assert scene.run(file=file).code == 0


def test_of_two_stores_with_one_storage_the_second_is_refused_and_its_own_storage_is_not(
    scene: Scene, request: pytest.FixtureRequest
) -> None:
    scene.place.feed(1)
    scene.goes_on(1)
    (scene.place.folder / "other").mkdir()
    kind = scene.url.split(":", 1)[0]
    other = new_store(request, kind, scene.place.folder / "other")
    scene.refused("it belongs to owner", url=other)
    told = scene.run(url=other, storage=scene.place.folder / "own", output=scene.place.folder / "own-output")
    assert told.code == 0, told.err
    scene.refused("it belongs to owner", url=other)
    scene.place.feed(2)
    scene.goes_on(1, 2)


def test_a_storage_that_was_copied_back_is_refused_and_the_newest_goes_on(scene: Scene) -> None:
    storage, yesterday, today = (scene.place.folder / name for name in ("storage", "yesterday", "today"))
    scene.place.feed(1)
    scene.goes_on(1)
    shutil.copytree(storage, yesterday)
    scene.place.feed(2)
    scene.goes_on(1, 2)
    storage.rename(today)
    yesterday.rename(storage)
    scene.place.feed(3)
    scene.refused("it has no mark of epoch 2, in which batch 1 of query 'copy' was planned, so it is an older copy")
    shutil.rmtree(storage)
    today.rename(storage)
    scene.goes_on(1, 2, 3)


# --- a member that runs ------------------------------------------------------------------------------------------


def wipe(request: pytest.FixtureRequest, url: str) -> None:
    """Remove the scope as an operator does: its rows, its subtree, its prefix."""
    kind, _, rest = url.partition("://")
    if kind == "sqlite":
        with closing(sqlite3.connect(rest)) as connection, connection:
            connection.execute("DELETE FROM records WHERE scope = ?", (ROWS,))
        return
    place = f"/{rest.partition('/')[2]}/{ROWS}"
    servers = request.getfixturevalue(kind)
    if kind == "zookeeper":
        servers.remove(place)
        return
    start, end = (base64.b64encode(f"{place}{sign}".encode()).decode() for sign in "/0")
    if kind == "kubernetes":
        namespace = rest.partition("/")[0]
        servers.ask("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/tenure.rows")
        return
    servers.ask(0, "kv/deleterange", {"key": start, "range_end": end})


@only_if_drawn(QUARTERS[2])
@pytest.mark.parametrize("how", ["emptied", pytest.param("an older copy", marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", long_on_servers)
def test_a_running_member_whose_store_is_taken_away_ends_with_one_line(
    request: pytest.FixtureRequest, place: Place, spark: SparkSession, kind: str, how: str
) -> None:
    scene = Scene(place, new_store(request, kind, place.folder), spark)
    sink = 'sink=Delta(job.params["output"]), trigger="200 milliseconds"'
    scene.file = place.pipeline(f'job.stream("copy", source(job), {sink})')
    place.feed(1)
    scene.goes_on(1)
    older = scene.copy()
    place.feed(2)
    arguments = ["run", scene.file, *scene.where(), *place.flags(ttl="4s")[4:]]
    with MemberProcess("anna", folder=place.folder, arguments=arguments) as member:
        member.wait_for("BatchCommitted", such_that=lambda event: event["batch"] == 1)
        newest = scene.copy()
        if how == "emptied":
            wipe(request, scene.url)
        else:
            scene.bring_back(older)
        place.feed(3)
        member.wait()
        told = Told(member.exit_code, "", member.output())
    assert told.code == 11, told.err
    # The member remembers the store. If a sweep of the member looks first, the sweep compares the storage.
    by_sweep = "the store knows nothing of that" if how == "emptied" else "the store is in epoch 1"
    assert "scope 'rows' in the store was in epoch 2, and has" in told.error or by_sweep in told.error, told.error
    assert told.error.endswith(f"restore the store{ANEW}")
    assert len(member.events("TermWon")) == 1, "it has not led a second time"
    assert place.ids() == [1, 2]
    scene.begins_anew(1, 2, 3)
    scene.refused("it belongs to owner" if how == "emptied" else "it is marked by epoch 2, and the store is in epoch 1")
    scene.bring_back(newest)
    scene.goes_on(1, 2, 3)
