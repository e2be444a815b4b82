"""`tenure adopt` on checkpoints made by hand: what it says, what it refuses, what it leaves alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import pytest

from tenure.checkpoints.store import CheckpointStore
from tenure.clock import SystemClock
from tenure.errors import StorageError
from tenure.moves import adoption
from tenure.operate.orders import Orders
from tenure.rundirs import seeding
from tests.cli.moves import SCOPE, adopt, checkpoints, export, led, opened
from tests.cli.support import Place, tenure
from tests.unit.rundirs.made_by_hand import NEWEST, a_run_directory, content_of, put


def test_without_apply_nothing_is_written(place: Place, plain: Path, tmp_path: Path) -> None:
    before = content_of(str(tmp_path))
    told = adopt(place, plain, "-o", "json")
    assert told.code == 0, told.err
    assert content_of(str(tmp_path)) == before
    found = told.json
    assert (found["query id"], found["newest batch"], found["is done"]) == ("the-query", NEWEST, True)
    assert found["goes on with batch"] == NEWEST + 1
    assert [(one["source"], one["kind"]) for one in found["sources"]] == [("0", "files"), ("1", "rate")]
    assert "nothing was written; --apply adopts it" in told.err


def test_an_adopted_checkpoint_is_the_first_of_its_query(place: Place, plain: Path) -> None:
    before = content_of(str(plain))
    told = adopt(place, plain, "--apply")
    assert told.code == 0, told.err
    assert content_of(str(plain)) == before
    assert checkpoints(place) == [NEWEST]
    assert f"query copy of scope rows goes on with batch {NEWEST + 1}: start its members" in told.err


def test_a_batch_in_flight_runs_again(place: Place, plain: Path) -> None:
    (plain / "commits" / str(NEWEST)).unlink()
    told = adopt(place, plain, "--apply", "-o", "json")
    assert told.code == 0, told.err
    assert (told.json["is done"], told.json["goes on with batch"]) == (False, NEWEST)


@pytest.mark.parametrize("offset", ['{"shards":{"0":5}}', "7", '{"logOffset":3}'])
def test_a_source_without_a_folder_is_of_another_kind_whatever_its_offset_looks_like(
    place: Place, plain: Path, tmp_path: Path, offset: str
) -> None:
    _with_offset(plain, offset)
    shutil.rmtree(plain / "sources" / "1")
    told = adopt(place, plain, "--apply", "-o", "json")
    assert told.code == 0, told.err
    assert [one["kind"] for one in told.json["sources"]] == ["files", "another"]
    assert export(place, tmp_path / "out").code == 0
    assert {path.name for path in (tmp_path / "out" / "sources").iterdir()} == {"0"}


def test_state_of_spark_3_has_no_metadata_and_is_copied(place: Place, plain: Path, tmp_path: Path) -> None:
    shutil.rmtree(plain / "state" / "0" / "_metadata")
    assert adopt(place, plain, "--apply").code == 0
    assert export(place, tmp_path / "out").code == 0
    copied = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out" / "state").rglob("*.zip")}
    assert {path.split("/")[2] for path in copied} == {"0", "1"}
    assert not (tmp_path / "out" / "state" / "0" / "_metadata").exists()


def test_state_of_a_newer_spark_without_metadata_is_damaged(place: Place, plain: Path) -> None:
    shutil.rmtree(plain / "state" / "0" / "_metadata")
    path = plain / "offsets" / str(NEWEST)
    conf = '"conf":{"spark.sql.streaming.stateStore.encodingFormat":"unsaferow"}'
    path.write_text(path.read_text().replace('"conf":{}', conf))
    told = adopt(place, plain, "--apply")
    assert told.code == 5
    assert "state/0/_metadata/metadata is missing" in told.error


def _empty(plain: Path) -> None:
    for path in sorted(plain.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()


def _no_metadata(plain: Path) -> None:
    (plain / "metadata").unlink()


def _never_ran(plain: Path) -> None:
    for path in (plain / "offsets").iterdir():
        path.unlink()


def _late(plain: Path) -> None:
    for batch in (NEWEST, NEWEST - 1):
        (plain / "commits" / str(batch)).unlink()


def _other_state(plain: Path) -> None:
    conf = '{"spark.sql.streaming.stateStore.providerClass":"com.example.Store"}'
    text = (plain / "offsets" / str(NEWEST)).read_text()
    (plain / "offsets" / str(NEWEST)).write_text(text.replace('"conf":{}', f'"conf":{conf}'))


def _read_twice(plain: Path) -> None:
    put(f"{plain}/sources/2/0", "v1\n17")


def _read_twice_in_one_folder(plain: Path) -> None:
    _with_offset(plain, f'{{"logOffset":{NEWEST}}}')
    shutil.rmtree(plain / "sources" / "1")


def _with_offset(plain: Path, offset: str) -> None:
    """Let the second source have this offset."""
    for batch in (NEWEST - 1, NEWEST):
        path = plain / "offsets" / str(batch)
        path.write_text(f"{path.read_text().rpartition(chr(10))[0]}\n{offset}")


def _damaged_offsets(plain: Path) -> None:
    (plain / "offsets" / str(NEWEST)).write_text("v1\n{")


def _other_offsets(plain: Path) -> None:
    text = (plain / "offsets" / str(NEWEST)).read_text()
    (plain / "offsets" / str(NEWEST)).write_text(text.replace("v1", "v9", 1))


def _state_is_gone(plain: Path) -> None:
    for path in (plain / "state" / "0" / "1").glob(f"{NEWEST + 1}_*"):
        path.unlink()


def _no_query_id(plain: Path) -> None:
    (plain / "metadata").write_text("{}")


@pytest.mark.parametrize(
    ("harm", "code", "line"),
    [
        (_empty, 2, "is no checkpoint of a query: there is nothing; name the query's checkpointLocation"),
        (_no_metadata, 2, "is no checkpoint of a query: it has no file 'metadata'"),
        (_never_ran, 2, "has no batch: the query never ran"),
        (_late, 2, f"is planned up to batch {NEWEST}, and the newest done batch is {NEWEST - 2}: Spark noted"),
        (_other_state, 2, "keeps its state by com.example.Store, whose files Tenure does not know"),
        (_read_twice, 2, "the query reads a source twice"),
        (_read_twice_in_one_folder, 2, "the query reads a source twice"),
        (_damaged_offsets, 5, f"offsets/{NEWEST}"),
        (_other_offsets, 5, f"offsets/{NEWEST}"),
        (_state_is_gone, 5, "state/0/1"),
        (_no_query_id, 5, "metadata"),
    ],
)
def test_a_checkpoint_that_nobody_can_go_on_from_is_refused(
    place: Place, plain: Path, harm: Callable[[Path], None], code: int, line: str
) -> None:
    harm(plain)
    told = adopt(place, plain, "--apply")
    assert told.code == code, told.err
    assert line in told.error
    if place.store.exists():
        assert checkpoints(place) == []


def test_a_scope_with_live_members_is_refused(place: Place, plain: Path) -> None:
    with led(place):
        told = adopt(place, plain, "--apply")
    assert told.code == 2
    assert "scope 'rows' has live members: anna; stop them first" in told.error


def test_a_query_with_a_checkpoint_is_refused(place: Place, plain: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    for more in ((), ("--apply",)):
        told = adopt(place, plain, *more)
        assert told.code == 2
        assert f"query 'copy' of scope 'rows' has a checkpoint already, of batch {NEWEST}" in told.error
    assert adopt(place, plain, "--apply", query="other").code == 0


def test_a_run_directory_of_the_scope_is_refused(place: Place, plain: Path) -> None:
    own = f"{place.storage}/{SCOPE}/runs/copy/e00000001-anna-0123456789ab"
    a_run_directory(own)
    told = adopt(place, own)
    assert told.code == 2
    assert "is a run directory of the scope itself" in told.error


def test_a_storage_of_another_store_is_refused(place: Place, plain: Path, tmp_path: Path) -> None:
    assert adopt(place, plain, "--apply").code == 0
    told = tenure(
        *("adopt", str(plain), "--query", "copy", "--apply", "--scope", SCOPE),
        *("--store", f"sqlite://{tmp_path}/another.db", "--storage", f"file://{place.storage}"),
    )
    assert told.code == 11
    assert "is not that of scope 'rows' in this store" in told.error


def test_a_query_that_still_runs_is_refused(place: Place, plain: Path) -> None:
    seed = seeding.seed

    def meanwhile(*arguments: object, **named: object) -> object:
        done = seed(*arguments, **named)  # type: ignore[arg-type] # handed on
        put(f"{plain}/offsets/{NEWEST + 1}", (plain / "offsets" / str(NEWEST)).read_text())
        return done

    with patch.object(adoption, "seed", meanwhile):
        told = adopt(place, plain, "--apply")
    assert told.code == 2
    assert f"has gone on to batch {NEWEST + 1} meanwhile: the query still runs; stop its job first" in told.error
    assert checkpoints(place) == []


@pytest.mark.parametrize("query", ["a b", "", "a/b"])
def test_a_name_that_no_stream_has_is_refused(place: Place, plain: Path, query: str) -> None:
    told = adopt(place, plain, query=query)
    assert told.code == 2
    assert f"query {query!r} is not the name of a stream" in told.error


def test_a_paused_scope_is_refused(place: Place, plain: Path) -> None:
    with opened(place) as store:
        with led(place):
            pass
        Orders(store, SCOPE, clock=SystemClock()).pause()
    with patch("tenure.cli.moves._ELECTED", timedelta(seconds=0.2)):
        told = adopt(place, plain, "--apply")
    assert told.code == 2
    assert "nobody was elected in scope 'rows' within 0.2 s: it is paused" in told.error


def test_an_adoption_that_ends_before_its_record_has_adopted_nothing(place: Place, plain: Path) -> None:
    with patch.object(CheckpointStore, "adopt", side_effect=StorageError("the machine went")):
        assert adopt(place, plain, "--apply").code == 6
    assert checkpoints(place) == []
    assert adopt(place, plain, "--apply").code == 0
    assert checkpoints(place) == [NEWEST]


def test_a_store_that_does_not_answer_is_a_warning_of_the_dry_run(place: Place, plain: Path) -> None:
    told = adopt(place, plain, "-o", "json")
    assert told.code == 0
    assert json.loads(told.out)["newest batch"] == NEWEST
    assert "tenure: warning: nothing is known of scope 'rows': store" in told.err
    assert not place.store.exists()
