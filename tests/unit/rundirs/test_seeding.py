"""Seeding on run directories made by hand: what is copied, linked and refused, on local disks and elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.checkpoints.source import ANOTHER, FILES, RATE
from tenure.errors import CorruptCheckpoint, CorruptRunDirectory, StorageError
from tenure.progress import Step
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seeding import seed, seed_mirrored, seed_without_tables
from tenure.rundirs.state_copy import SeedPoint, copy_ahead
from tests.support.seeds import PARTS, announced
from tests.unit.rundirs.made_by_hand import (
    NEWEST,
    a_run_directory,
    a_zip,
    content_of,
    hard_links,
    offsets_of,
    put,
    state_id,
    state_names,
    table_of,
)


@pytest.fixture
def source(tmp_path: Path) -> str:
    a_run_directory(str(tmp_path / "source"))
    return str(tmp_path / "source")


ALWAYS = {"metadata", "sources/1/0", "state/0/_metadata/v2/0", "state/0/_stateSchema/d/0_x"}


def test_a_copy_tells_how_far_it_has_come(source: str, tmp_path: Path) -> None:
    told: list[Step] = []
    seed(source, str(tmp_path / "target"), SeedPoint(10, "v1\n{}\n" + '{"logOffset":10}\n110'), progress=told.append)
    last = max(told, key=lambda step: step.done)
    assert (last.done, last.bytes) == (last.of, last.of_bytes)
    assert last.bytes > 0
    assert all(step.done <= (step.of or 0) and step.bytes <= step.of_bytes for step in told)
    copied = {name for name in content_of(str(tmp_path / "target")) if name.startswith(("sources/", "state/0/"))}
    assert last.done >= len(copied - ALWAYS)


@pytest.mark.parametrize("committed", [False, True])
def test_exactly_what_is_needed(source: str, tmp_path: Path, committed: bool) -> None:
    target = str(tmp_path / "target")
    seeded = seed(source, target, SeedPoint(10, "v1\n{}\n" + '{"logOffset":10}\n110', committed=committed))
    content = content_of(target)
    logs = {
        "offsets/9",
        "offsets/10",
        "commits/10" if committed else "commits/9",
        "sources/0/9.compact",
        "sources/0/10",
    }
    assert set(content) == ALWAYS | logs | state_names(11 if committed else 10)
    assert seeded == len(content)
    assert hard_links(target) == state_names(11 if committed else 10)
    assert content["offsets/10"] == b'v1\n{}\n{"logOffset":10}\n110'
    before = content_of(source)
    changed = {name for name in content if content[name] != before[name]}
    assert changed == {"offsets/10", "state/0/_metadata/v2/0"}
    info = json.loads(content["state/0/_metadata/v2/0"].partition(b"\n")[2])["stateStoreInfo"][0]
    assert info["stateSchemaFilePaths"] == [f"file:{target}/state/0/_stateSchema/d/0_x"]


def in_one_partition(source: str, *, format_: str, name: str, schema: str) -> None:
    """Make the directory that of a total or a limit. Spark notes its setting as the number of partitions all the
    same."""
    shutil.rmtree(f"{source}/state/0/1")
    operator = {
        "operatorInfo": {"operatorName": name},
        "stateStoreInfo": [{"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": []}],
    }
    Path(source, "state/0/_metadata/v2/0").write_text("v2\n" + json.dumps(operator))
    put(f"{source}/state/0/0/_metadata/schema", schema)
    for batch in range(NEWEST + 1):
        ids = {"stateUniqueIds": {"0": [[state_id(batch + 1, 0)]]}} if format_ == "2" else {}
        Path(source, f"commits/{batch}").write_text("v2\n" + json.dumps(ids))
    if format_ == "1":
        for path in Path(source, "state/0/0").glob("[0-9]*_*"):
            version, _, rest = path.name.partition("_")
            path.rename(path.with_name(version + rest[len(state_id(1, 0)) :]))


WITHOUT_A_KEY = 'v1 {"type":"struct","fields":[]} {"type":"struct","fields":[{"name":"count"}]}'
WITH_A_KEY = 'v1 {"type":"struct","fields":[{"name":"k"}]} {"type":"struct","fields":[{"name":"count"}]}'


@pytest.mark.parametrize(
    ("format_", "name", "schema"),
    [
        ("2", "stateStoreSave", WITHOUT_A_KEY),
        ("2", "stateStoreSave", WITH_A_KEY),  # the ids say it
        ("1", "stateStoreSave", WITHOUT_A_KEY),
        ("1", "globalLimit", WITH_A_KEY),
    ],
)
def test_an_operator_whose_rows_have_one_key_has_one_partition(
    source: str, tmp_path: Path, format_: str, name: str, schema: str
) -> None:
    """A total could not be taken over at all: the second partition was missed, and each member ended."""
    in_one_partition(source, format_=format_, name=name, schema=schema)
    target = str(tmp_path / "target")
    seed(source, target, SeedPoint(10, offsets_of(10)))
    stem = f"state/0/0/10_{state_id(10, 0)}" if format_ == "2" else "state/0/0/10"
    assert f"{stem}.changelog" in content_of(target)


def test_a_lost_partition_is_none_that_never_was(source: str, tmp_path: Path) -> None:
    in_one_partition(source, format_="1", name="stateStoreSave", schema=WITH_A_KEY)
    with pytest.raises(CorruptRunDirectory, match="state/0/1/10 is missing"):
        seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))


def test_a_seed_without_tables_is_all_but_the_tables(source: str, tmp_path: Path) -> None:
    target, point = str(tmp_path / "target"), SeedPoint(10, offsets_of(10))
    tables = {table_of(8, 0): 5, table_of(8, 1): 5}
    assert seed_without_tables(source, target, point, query_id="its own") == tables
    seed(source, str(tmp_path / "whole"), point, query_id="its own")
    assert content_of(target).keys() == content_of(str(tmp_path / "whole")).keys() - tables.keys()


def test_tables_without_a_unique_name_are_copied(source: str, tmp_path: Path) -> None:
    """Another table may have the same name elsewhere."""
    for partition in range(2):
        folder = Path(source, f"state/0/{partition}")
        put(str(folder / "SSTs/8.sst"), "table")
        put(str(folder / f"8_{state_id(8, partition)}.zip"), a_zip("8.sst", 5))
    target = str(tmp_path / "target")
    assert seed_without_tables(source, target, SeedPoint(10, offsets_of(10)), query_id="its own") == {}
    assert {"state/0/0/SSTs/8.sst", "state/0/1/SSTs/8.sst"} <= content_of(target).keys()


def as_of_4_0(source: str) -> None:
    """Let the snapshots be as Spark 4.0 writes them."""
    for path in Path(source, "state/0").glob("*/*.zip"):
        with zipfile.ZipFile(path) as archive:
            metadata = archive.read("metadata")
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("CURRENT", b"MANIFEST")
            archive.writestr("metadata", b"v2" + metadata[2:])


@pytest.mark.parametrize("newer", [False, True])
def test_a_snapshot_of_spark_4_0_is_as_its_readers_want_it(source: str, tmp_path: Path, newer: bool) -> None:
    """Spark 4.1 and newer took no snapshot of 4.0, so each takeover with them failed."""
    as_of_4_0(source)
    before = content_of(source)
    seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10), newer=newer))
    for partition in range(2):
        path = f"state/0/{partition}/8_{state_id(8, partition)}.zip"
        with zipfile.ZipFile(tmp_path / "target" / path) as archive:
            assert archive.read("metadata")[:3] == (b"v1\n" if newer else b"v2\n")
            assert archive.read("CURRENT") == b"MANIFEST"
        assert table_of(8, partition) in content_of(str(tmp_path / "target"))
    assert content_of(source) == before, "a local file has one content under both names"


def test_a_snapshot_that_could_not_be_changed_is_taken_again(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_of_4_0(source)
    mirrored = Mirrored(RunDirectory(source), RunDirectory(str(tmp_path / "target")))
    point = SeedPoint(10, offsets_of(10), newer=True)

    def fails(path: str, data: bytes) -> None:
        raise StorageError("it is full")

    with monkeypatch.context() as patch:
        patch.setattr(mirrored.target, "write", fails)
        with pytest.raises(StorageError, match="it is full"):
            copy_ahead(mirrored, point, stop=lambda: False, on_missing=lambda change: None)
    seed_mirrored(mirrored, point)
    for path in (tmp_path / "target/state/0").glob("*/*.zip"):
        with zipfile.ZipFile(path) as archive:
            assert archive.read("metadata").startswith(b"v1\n")


def test_batch_0_needs_only_where_the_sources_began(source: str, tmp_path: Path) -> None:
    seed(source, str(tmp_path / "target"), SeedPoint(0, offsets_of(0)))
    assert set(content_of(str(tmp_path / "target"))) == {"metadata", "offsets/0", "sources/0/0", "sources/1/0"}


def test_the_same_on_every_kind_of_storage(source: str, tmp_path: Path) -> None:
    """Local to memory, within memory, and back: the same files, and the path in the operator's metadata follows."""
    there, moved, back = "memory://seeds/there", "memory://seeds/moved", (tmp_path / "back").as_uri()
    for origin, target in ((source, there), (there, moved), (moved, back)):
        seeded = seed(origin, target, SeedPoint(11, offsets_of(11)))
        assert seeded == len(content_of(target))
    assert not hard_links(str(tmp_path / "back"))
    local = str(tmp_path / "local")
    seed(source, local, SeedPoint(11, offsets_of(11)))
    pinned = "state/0/_metadata/v2/0"
    paths = {
        target: json.loads(content_of(target)[pinned].partition(b"\n")[2])["stateStoreInfo"][0]["stateSchemaFilePaths"][
            0
        ]
        for target in (there, moved, back)
    }
    assert paths == {
        there: "memory://seeds/there/state/0/_stateSchema/d/0_x",
        moved: "memory://seeds/moved/state/0/_stateSchema/d/0_x",
        back: f"file:{tmp_path}/back/state/0/_stateSchema/d/0_x",
    }
    expected = {name: data for name, data in content_of(local).items() if name != pinned}
    for target in (there, moved, back):
        assert {name: data for name, data in content_of(target).items() if name != pinned} == expected


def needed_files() -> list[str]:
    logs = ["metadata", "offsets/9", "commits/9", "sources/0/9.compact", "sources/0/10", "sources/1/0"]
    schema = ["state/0/_metadata/v2/0", "state/0/_stateSchema/d/0_x"]
    return logs + schema + sorted(name for name in state_names(10) if not name.endswith(".crc"))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (name, damage)
        for name in needed_files()
        for damage in ("missing", "empty", "a folder")
        if not (name.endswith(".zip") and damage == "missing")  # an older full file stands in for it
    ],
)
def test_every_file_that_is_needed_is_asked_for(source: str, tmp_path: Path, name: str, damage: str) -> None:
    path = Path(source, name)
    path.unlink()
    if damage == "empty":
        path.touch()
    elif damage == "a folder":
        path.mkdir()
    with pytest.raises(CorruptRunDirectory) as refused:
        seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10), kinds={"0": FILES, "1": RATE}))
    named = name.removesuffix(".changelog").removesuffix(".compact").removesuffix("/0" if "v2/0" in name else "")
    assert f"{source}/{named}" in refused.value.what
    assert not (tmp_path / "target" / "metadata").exists()


@pytest.mark.parametrize("kind", [ANOTHER, None])
@pytest.mark.parametrize("batch", [0, 10])
def test_a_source_of_another_kind_is_copied_as_it_is_and_nothing_is_demanded_of_it(
    source: str, tmp_path: Path, batch: int, kind: str | None
) -> None:
    offsets = offsets_of(batch).rpartition("\n")[0] + '\n{"shards":{"0":5,"1":7}}'
    Path(source, "sources/1/0").unlink()
    kinds = {"0": FILES} if kind is None else {"0": FILES, "1": kind}
    seed(source, str(tmp_path / "none"), SeedPoint(batch, offsets, kinds=kinds))
    assert not (tmp_path / "none" / "sources" / "1").exists()
    Path(source, "sources/1/begun/log").mkdir(parents=True)  # Spark makes the folder of a log before its first entry
    files = {"sources/1/_log/a": b"", "sources/1/7": b"any", "sources/1/.hidden": b"too"}
    for path, content in {**files, "sources/1/.7.crc": b"crc"}.items():
        put(f"{source}/{path}", content)
    seed(source, str(tmp_path / "all"), SeedPoint(batch, offsets, kinds=kinds))
    found = {path: data for path, data in content_of(str(tmp_path / "all")).items() if path.startswith("sources/1")}
    assert found == files


def test_a_table_of_another_size_is_named(source: str, tmp_path: Path) -> None:
    Path(source, table_of(8, 1)).write_bytes(b"tabl")
    with pytest.raises(CorruptRunDirectory, match=r"state/0/1/SSTs/000008-.*\.sst has 4 bytes instead of 5"):
        seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))


def test_a_commit_without_the_id_of_a_partition_is_named(source: str, tmp_path: Path) -> None:
    Path(source, "commits/9").write_text('v2\n{"stateUniqueIds":{"0":[["00000010-0"],[]]}}')
    with pytest.raises(CorruptRunDirectory, match="commits/9 has no id for state/0/1"):
        seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))


def test_a_plan_that_does_not_decode_is_the_checkpoints_fault(source: str, tmp_path: Path) -> None:
    with pytest.raises(CorruptCheckpoint, match="plan of batch 10 does not decode"):
        seed(source, str(tmp_path / "target"), SeedPoint(10, "v1\n{}"))
    assert not (tmp_path / "target").exists()


def test_what_is_newer_than_the_batch_is_not_looked_at(source: str, tmp_path: Path) -> None:
    """The former owner may be in the middle of anything there."""
    for pattern in ("*/1[123]", "sources/0/1[123]", "state/0/*/1[1234]_*", "state/0/*/SSTs/000012-*.sst"):
        for path in Path(source).glob(pattern):
            path.write_bytes(b"\0 torn")
    seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))
    assert set(content_of(str(tmp_path / "target"))) >= state_names(10)


def test_the_former_owner_replaces_and_deletes_while_we_copy(source: str, tmp_path: Path) -> None:
    """It renames new files over old ones, of newer batches and full files, as its maintenance does."""
    stop = threading.Event()

    def write_on() -> None:
        number = NEWEST
        while not stop.is_set():
            number += 1
            for path in (f"offsets/{number}", f"sources/0/{number}", f"state/0/0/{number}.changelog", "offsets/13"):
                temporary = Path(source, f".{number}.tmp")
                temporary.write_bytes(b"new")
                temporary.rename(Path(source, path))

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for attempt in range(20):
            target = str(tmp_path / f"target{attempt}")
            seed(source, target, SeedPoint(10, offsets_of(10)))
            assert set(content_of(target)) >= state_names(10)
    finally:
        stop.set()
        writer.join()


def test_a_target_with_anything_in_it_is_refused(source: str, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "x").touch()
    with pytest.raises(StorageError, match="target is not empty"):
        seed(source, str(tmp_path / "target"), SeedPoint(10, offsets_of(10)))
    assert os.listdir(tmp_path / "target") == ["x"]


class Killed(Exception):
    """The process ended here."""


@pytest.mark.parametrize("step", [f"{when} {part}" for part in PARTS for when in ("before", "after")])
def test_metadata_comes_last_and_the_plan_before_it(source: str, tmp_path: Path, step: str) -> None:
    """Spark refuses a directory that has offsets but no metadata, so only a whole seed can start."""

    def kill(part: str) -> None:
        if part == step:
            raise Killed

    target = tmp_path / "target"
    with pytest.raises(Killed), announced(kill):
        seed(source, str(target), SeedPoint(10, offsets_of(10)))
    assert (target / "metadata").exists() == (step == "after metadata")
    assert (target / "offsets/10").exists() == (step in ("after plan", "before metadata", "after metadata"))
    assert (target / "offsets/9").exists() == (step != "before offsets")


def test_all_is_on_the_disk_before_the_metadata(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file that was written is synced, and so is every folder between the file and the target's parent."""
    synced: list[str] = []
    real: Callable[[int], None] = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    target = tmp_path / "runs" / "target"
    seed(source, str(target), SeedPoint(10, offsets_of(10)))
    written = {str(target / name) for name in content_of(str(target)) if name not in state_names(10)}
    folders = {str(path) for path in (tmp_path, target.parent, target, *target.rglob("*")) if path.is_dir()}
    assert set(synced) == written | folders
    assert synced.index(str(target / "offsets/10")) > synced.index(str(target / "state/0/1/SSTs"))
    assert synced[-2:] == [str(target / "metadata"), str(target)]
