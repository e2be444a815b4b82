"""The inspection of a run directory made by hand: whole, and with each kind of damage."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import FILES, RATE
from tenure.errors import CorruptCheckpoint
from tenure.rundirs.inspecting import damages_of
from tests.unit.rundirs.made_by_hand import (
    NEWEST,
    a_run_directory,
    a_zip,
    content_of,
    hadoops_checksum,
    offsets_of,
    state_id,
    table_of,
)

KINDS = {"0": FILES, "1": RATE}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    a_run_directory(str(tmp_path / "run"))
    return tmp_path / "run"


def at(batch: int) -> Checkpoint:
    return Checkpoint("copy", "the-query", batch, offsets_of(batch), "run", 1, "monday", kinds=KINDS)


def damage(root: Path, batch: int = NEWEST) -> list[str]:
    return [line.replace(f"{root}/", "") for line in damages_of(f"file://{root}", at(batch))]


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("batch", [NEWEST, NEWEST - 2, 0])
def test_a_whole_directory_is_read_and_stays_as_it_is(root: Path, batch: int, done: bool) -> None:
    if not done:
        (root / "commits" / str(batch)).unlink()
    before = content_of(str(root))
    assert damage(root, batch) == []
    assert content_of(str(root)) == before


STATE = f"state/0/1/{NEWEST + 1}_{state_id(NEWEST + 1, 1)}.changelog"
ZIP = f"state/0/1/12_{state_id(12, 1)}.zip"
TABLE = table_of(12, 1)
GONE = [
    ("metadata", "metadata is missing"),
    (f"offsets/{NEWEST - 1}", f"offsets/{NEWEST - 1} is missing"),
    ("sources/0/9.compact", "sources/0/9 is missing"),
    (f"sources/0/{NEWEST}", f"sources/0/{NEWEST} is missing"),
    ("sources/1/0", "sources/1/0 is missing"),
    ("state/0/_metadata/v2/0", "state/0/_metadata/v2 has no entry of a batch before 14"),
    ("state/0/_stateSchema/d/0_x", "state/0/_stateSchema/d/0_x is missing"),
    (STATE, f"{STATE.removesuffix('.changelog')} is missing: neither a full state file nor a change file of that"),
    (TABLE, f"{TABLE} is missing"),
]


@pytest.mark.parametrize(("path", "says"), GONE)
def test_a_missing_file_is_named(root: Path, path: str, says: str) -> None:
    (root / path).unlink()
    found = damage(root)
    assert len(found) == 1, found
    assert found[0].startswith(says)


def flip(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1, *data[1:]]))


CHANGED: list[tuple[str, Callable[[Path], object], str]] = [
    ("metadata", lambda path: path.write_text("{"), "metadata does not decode"),
    (f"offsets/{NEWEST}", lambda path: path.write_text(offsets_of(99)), f"offsets/{NEWEST} has other offsets than"),
    (f"offsets/{NEWEST - 1}", lambda path: path.write_text("v7"), f"offsets/{NEWEST - 1} does not decode"),
    ("sources/1/0", lambda path: path.write_bytes(b""), "sources/1/0 is empty"),
    (f"sources/0/{NEWEST}", lambda path: path.write_text('v1\n{"path"'), f"sources/0/{NEWEST} does not decode"),
    (STATE, flip, f"{STATE} has other bytes than its checksum by Spark"),
    (STATE, lambda path: os.truncate(path, 3), f"{STATE} has 3 bytes instead of 10"),
    (f"{STATE}.crc", lambda path: path.write_text("{"), f"{STATE} has a checksum file of Spark that does not decode"),
    (TABLE, lambda path: os.truncate(path, 0), f"{TABLE} has 0 bytes instead of 5"),
    (TABLE, lambda path: os.truncate(path, 4), f"{TABLE} has 4 bytes instead of 5"),
    (ZIP, lambda path: os.truncate(path, 40), f"{ZIP} does not decode"),
    (ZIP, lambda path: path.write_bytes(a_zip("gone.sst", 7)), "state/0/1/SSTs/gone.sst is missing"),
]


@pytest.mark.parametrize(("path", "change", "says"), CHANGED)
def test_a_damaged_file_is_named(root: Path, path: str, change: Callable[[Path], object], says: str) -> None:
    change(root / path)
    found = damage(root)
    assert len(found) == 1, found
    assert found[0].startswith(says)


def test_bytes_that_only_a_checksum_of_hadoop_knows(root: Path) -> None:
    table = root / TABLE
    beside = table.parent / f".{table.name}.crc"
    beside.write_bytes(hadoops_checksum(table.read_bytes()))
    assert damage(root) == []
    flip(table)
    assert damage(root) == [f"{TABLE} has other bytes than its checksum by Hadoop"]


def test_all_damage_is_told(root: Path) -> None:
    other = f"state/0/0/{NEWEST + 1}_{state_id(NEWEST + 1, 0)}.changelog"
    for path in (STATE, other, TABLE):
        flip(root / path) if path != TABLE else (root / path).unlink()
    (root / "metadata").unlink()
    assert {line.split(" ")[0] for line in damage(root)} == {STATE, other, TABLE, "metadata"}


def test_all_damage_of_logs_is_told(root: Path) -> None:
    for path in ("sources/0/9.compact", "sources/0/11"):
        (root / path).write_text("v1\n{")
    assert [line.split(" ")[0] for line in damage(root)] == ["sources/0/11", "sources/0/9.compact"]


def test_another_query_id(root: Path) -> None:
    (root / "metadata").write_text('{"id":"another"}')
    assert damage(root) == ["metadata is of the query id another, and the checkpoint of the-query"]


def test_a_commit_that_names_the_state_is_told_once(root: Path) -> None:
    (root / "commits" / str(NEWEST)).unlink()
    assert damage(root) == [], "the batch runs again"
    (root / "commits" / str(NEWEST - 1)).unlink()
    assert damage(root) == [f"commits/{NEWEST - 1} is missing"]


def test_a_closed_checkpoint_needs_its_commit(root: Path) -> None:
    (root / "commits" / str(NEWEST)).write_text("")
    closed = replace(at(NEWEST), closed=True)
    assert damages_of(f"file://{root}", closed) == [
        f"{root}/commits/{NEWEST} does not decode: not a commit log entry of version 1 or 2"
    ]


def test_a_directory_that_is_gone(tmp_path: Path) -> None:
    assert damages_of(f"file://{tmp_path}/none", at(NEWEST)) == [f"{tmp_path}/none is missing, or empty"]


def test_offsets_of_the_checkpoint_that_do_not_decode(root: Path) -> None:
    with pytest.raises(CorruptCheckpoint, match="not an offset log entry"):
        damages_of(f"file://{root}", replace(at(NEWEST), offsets="v9"))


def test_a_schema_of_an_absolute_path_is_read_below_the_directory(root: Path) -> None:
    info = json.loads((root / "state/0/_metadata/v2/0").read_text().partition("\n")[2])
    assert info["stateStoreInfo"][0]["stateSchemaFilePaths"] == ["file:/gone/state/0/_stateSchema/d/0_x"]
    assert damage(root) == []
