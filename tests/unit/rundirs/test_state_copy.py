"""Bringing a seed's files ahead of time: the same directory comes of it as of a seed at once, with less to do."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenure.errors import CorruptRunDirectory, StorageError
from tenure.rundirs.mirrored import Mirrored
from tenure.rundirs.run_directory import RunDirectory
from tenure.rundirs.seeding import seed, seed_mirrored
from tenure.rundirs.state_copy import SeedPoint, Stopped, copy_ahead
from tests.properties import examples
from tests.unit.rundirs.made_by_hand import (
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


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("bringing") / "source")
    a_run_directory(path)
    return path


class Mirror:
    """A mirror of `source`, and what it told to be missing."""

    def __init__(self, source: str, target: str) -> None:
        self.target = target
        self.mirrored = Mirrored(RunDirectory(source), RunDirectory(target))
        self.missing, self.found, self.files = 0, 0, 0
        self.stop_after: int | None = None

    def copy_ahead(self, batch: int, *, committed: bool = False) -> None:
        def missing(change: int) -> None:
            self.missing += change
            self.found += max(change, 0)

        def stop() -> bool:
            self.files += 1
            return self.stop_after is not None and self.files > self.stop_after

        copy_ahead(self.mirrored, SeedPoint(batch, offsets_of(batch), committed), stop=stop, on_missing=missing)

    def seed(self, batch: int, *, committed: bool = False) -> int:
        return seed_mirrored(self.mirrored, SeedPoint(batch, offsets_of(batch), committed))


def without_paths(content: dict[str, bytes], root: str) -> dict[str, bytes]:
    return {name: data.replace(root.encode(), b"ROOT") for name, data in content.items()}


batches = st.lists(st.tuples(st.integers(1, 13), st.booleans()), max_size=5).map(sorted)


@settings(max_examples=examples(60))
@given(rounds=batches, last=st.tuples(st.integers(1, 13), st.booleans()), storage=st.sampled_from(["disk", "memory"]))
def test_whatever_it_followed_a_mirror_becomes_what_a_seed_would_be(
    source: str,
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[tuple[int, bool]],
    last: tuple[int, bool],
    storage: str,
) -> None:
    folder = tmp_path_factory.mktemp("mirror")
    root = str(folder) if storage == "disk" else f"memory://bringing/{folder.name}"
    mirror = Mirror(source, f"{root}/mirror")
    for batch, committed in rounds:
        mirror.copy_ahead(batch, committed=committed)
        assert mirror.missing == 0
    mirror.seed(last[0], committed=last[1])
    seed(source, f"{root}/seed", SeedPoint(last[0], offsets_of(last[0]), committed=last[1]))
    mirrored, seeded = content_of(f"{root}/mirror"), content_of(f"{root}/seed")
    needed = set(seeded)
    assert set(mirrored) >= needed
    mirrored = {name: data for name, data in mirrored.items() if name in needed}  # the rest is what Spark ignores
    if storage == "disk":
        mirrored, seeded = (without_paths(mirrored, f"{root}/mirror"), without_paths(seeded, f"{root}/seed"))
    else:
        mirrored = without_paths(mirrored, f"bringing/{folder.name}/mirror")
        seeded = without_paths(seeded, f"bringing/{folder.name}/seed")
    assert mirrored == seeded


def test_a_takeover_brings_only_what_is_new(source: str, tmp_path: Path) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(10)
    content = content_of(mirror.target)
    logs = {"sources/0/9.compact", "sources/0/10"}
    assert set(content) == state_names(10) | logs, "neither metadata nor offsets: Spark does not start on it"
    assert mirror.found == sum(len(content[name]) for name in state_names(10))
    seeded = mirror.seed(11)
    # metadata, offsets twice, a commit, the operator's metadata and schema, two sources' entries; then the state
    assert seeded == 8 + len(state_names(11) - state_names(10))
    assert hard_links(mirror.target) == state_names(11)


def test_a_schema_that_a_query_may_write_again_is_left_to_the_takeover(tmp_path: Path) -> None:
    source, schema = str(tmp_path / "source"), "state/0/1/_metadata/schema"
    a_run_directory(source)
    put(f"{source}/{schema}", "before")
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(10)
    assert schema not in content_of(mirror.target)
    put(f"{source}/{schema}", "after")
    mirror.seed(10)
    assert content_of(mirror.target)[schema] == b"after"


@pytest.mark.parametrize("of_spark_3", [True, False], ids=["of Spark 3", "of Spark 4"])
def test_a_batch_without_data_may_be_the_first_of_a_takeover(tmp_path: Path, of_spark_3: bool) -> None:
    """Spark 3.5 knows then of no column that it is never null, and refuses a schema that says so of one."""
    source, schema = str(tmp_path / "source"), "state/0/1/_metadata/schema"
    a_run_directory(source)
    put(f"{source}/{schema}", '{"name":"id","nullable":false}')
    conf = "{}" if of_spark_3 else '{"spark.sql.streaming.stateStore.encodingFormat":"unsaferow"}'
    offsets = offsets_of(10).replace('"conf":{}', f'"conf":{conf}')
    seed(source, str(tmp_path / "seed"), SeedPoint(10, offsets))
    found = content_of(str(tmp_path / "seed"))[schema]
    assert found == (b'{"name":"id","nullable": true}' if of_spark_3 else b'{"name":"id","nullable":false}')


def test_what_is_needed_no_more_goes(source: str, tmp_path: Path) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(7)
    mirror.copy_ahead(10)
    assert {name for name in content_of(mirror.target) if name.startswith("state/")} == state_names(10)
    assert set(mirror.mirrored.files) == set(content_of(mirror.target))


def test_nothing_is_read_twice(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(10)
    read: list[str] = []
    real = RunDirectory.read

    def note(directory: RunDirectory, path: str) -> bytes:
        read.append(path)
        return real(directory, path)

    monkeypatch.setattr(RunDirectory, "read", note)
    mirror.copy_ahead(10)
    assert read == ["state/0/_metadata/v2/0"], "the commits, the zips and the sources' entries are known"


@pytest.mark.parametrize("files", range(9))
def test_one_that_was_stopped_goes_on(source: str, tmp_path: Path, files: int) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.stop_after = files
    with pytest.raises(Stopped):
        mirror.copy_ahead(10)
    mirror.seed(11)
    seed(source, str(tmp_path / "seed"), SeedPoint(11, offsets_of(11)))
    assert set(content_of(mirror.target)) >= set(content_of(str(tmp_path / "seed")))


@pytest.mark.parametrize("arrived", [True, False], ids=["it arrived", "it did not"])
@settings(max_examples=examples(10))
@given(fails=st.integers(1, 40))
def test_one_that_met_an_error_of_the_storage_goes_on(
    source: str, tmp_path_factory: pytest.TempPathFactory, arrived: bool, fails: int
) -> None:
    """Whether or not the file arrived of which the storage said that it did not: nothing else is copied again."""
    folder = tmp_path_factory.mktemp("failing")
    mirror, calls, copied = Mirror(source, str(folder / "mirror")), count(1), count()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("take", "write"):
            whole = getattr(RunDirectory, name)

            def failing(self: RunDirectory, *given: object, whole: Any = whole, **named: object) -> None:
                is_bad = next(calls) == fails  # one step, also for several threads
                if not is_bad or arrived:
                    whole(self, *given, **named)
                    next(copied)
                if is_bad:
                    raise StorageError("the storage is away")

            patch.setattr(RunDirectory, name, failing)
        if fails <= len(state_names(10)) + 2:
            with pytest.raises(StorageError):
                mirror.copy_ahead(10)
        mirror.copy_ahead(10)
        assert next(copied) <= len(state_names(10)) + 2 + arrived
    mirror.seed(11)
    seed(source, str(folder / "whole"), SeedPoint(11, offsets_of(11)))
    found, wanted = content_of(mirror.target), content_of(str(folder / "whole"))
    assert without_paths(found, mirror.target) == without_paths(wanted, str(folder / "whole"))


def test_a_snapshot_that_was_dropped_in_part_is_dropped_again(source: str, tmp_path: Path) -> None:
    """Checksums of ours beside the leader's file of the same name: Hadoop would refuse its file."""
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(10)
    path = "state/0/1/10_made.zip"
    beside = [f"{path}.crc", "state/0/1/.10_made.zip.crc"]
    put(f"{mirror.target}/{path}", a_zip("t.sst", 1))
    for file in beside:
        put(f"{mirror.target}/{file}", "checksum")
    mirror.mirrored.add_snapshot("state/0/1", path)
    whole = RunDirectory.drop
    with pytest.MonkeyPatch.context() as patch:

        def drop(self: RunDirectory, file: str) -> None:
            if file in beside:
                raise StorageError("the storage is away")
            whole(self, file)

        patch.setattr(RunDirectory, "drop", drop)
        with pytest.raises(StorageError):
            mirror.mirrored.drop_snapshot("state/0/1")
    mirror.mirrored.drop_snapshot("state/0/1")
    assert not {path, *beside} & set(content_of(mirror.target))
    assert mirror.mirrored.snapshots == {}


def test_one_can_be_stopped_while_it_removes(source: str, tmp_path: Path) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))
    mirror.copy_ahead(7)
    mirror.files, mirror.stop_after = 0, 10**6
    Mirror(source, str(tmp_path / "other")).copy_ahead(10)
    real = mirror.mirrored.target.drop

    def drop(path: str) -> None:
        mirror.stop_after = 0
        real(path)

    mirror.mirrored.target.drop = drop  # type: ignore[method-assign] # a fault
    with pytest.raises(Stopped):
        mirror.copy_ahead(10)
    assert set(mirror.mirrored.files) == set(content_of(mirror.target)), "what it says it has, it has"
    mirror.seed(10)


def test_an_error_is_not_hidden_by_a_stop(source: str, tmp_path: Path) -> None:
    mirror = Mirror(source, str(tmp_path / "mirror"))

    def take(*arguments: object, **named: object) -> None:
        mirror.stop_after = 0
        raise StorageError("the disk is full")

    mirror.mirrored.target.take = take  # type: ignore[method-assign] # a fault
    with pytest.raises(StorageError):
        mirror.copy_ahead(10)


def test_files_that_are_named_by_their_version_alone_are_left_to_the_takeover(source: str, tmp_path: Path) -> None:
    """Format 1: a task that runs again replaces a file that was brought already."""
    old = tmp_path / "format 1"
    shutil.copytree(source, old)
    for path in list(old.glob("state/0/*/*_*")):
        version, _, rest = path.name.partition("_")
        path.rename(path.with_name(version + rest[rest.index(".") :]))
    for path in (old / "commits").iterdir():
        path.write_text("v1\n{}")
    mirror = Mirror(str(old), str(tmp_path / "mirror"))
    mirror.copy_ahead(10)
    state = {name for name in content_of(mirror.target) if name.startswith("state/")}
    assert state == {table_of(8, 0), table_of(8, 1)}
    changed = old / "state" / "0" / "1" / "10.changelog"
    changed.unlink()
    changed.write_text("written again")
    mirror.seed(10)
    assert content_of(mirror.target)["state/0/1/10.changelog"] == b"written again"


def test_what_is_missing_in_the_source_is_named(tmp_path: Path) -> None:
    source = str(tmp_path / "source")
    a_run_directory(source)
    Path(source, f"state/0/1/10_{state_id(10, 1)}.changelog").unlink()
    with pytest.raises(CorruptRunDirectory, match=f"10_{state_id(10, 1)}"):
        Mirror(source, str(tmp_path / "mirror")).copy_ahead(10)
