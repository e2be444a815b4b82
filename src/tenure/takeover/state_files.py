"""Which files make up one version of one state store. Pure: names and bytes in, names out.

Promise: the chain that Spark 4.3 reads to load a version: the newest full file at or below it, and the change files
above that. One walk serves RocksDB (`.zip`, `.changelog`) and the HDFS-backed store (`.snapshot`, `.delta`), and both
checkpoint formats: format 1 names a file by its version, format 2 by its version and the id in the commit log.
Batch b reads version b and writes version b + 1; version 0 is empty and has no file.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from tenure.takeover.seed_logs import MissingFile, corrupt, decode_json

DEFAULT_STORE = "default"
_FULL = ("zip", "snapshot")
_CHANGES = ("changelog", "delta")
# What `zipfile` raises at damaged bytes; RuntimeError and NotImplementedError: a flag or method that nobody wrote.
_UNREADABLE_ZIP = (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError, RuntimeError, OSError)
_WITH_ID = re.compile(r"(\d+)_([^.]+)\.(?:zip|changelog)\Z")
_OF_A_VERSION = re.compile(rf"((\d+)(?:_[^.]+)?)\.(?:{'|'.join((*_FULL, *_CHANGES))})\Z")


@dataclass(frozen=True, slots=True)
class Store:
    """One kind of state store of an operator, one of it in each partition."""

    name: str
    partitions: int
    schemas: tuple[str, ...]
    """The files under `_stateSchema` that the operator's metadata names (as relative paths); empty in version 1."""

    def folder(self, partition: int) -> str:
        """Where the store of a partition lies, below the operator's folder."""
        return str(partition) if self.name == DEFAULT_STORE else f"{partition}/{self.name}"


def newest_metadata(names: Collection[str], *, version: int, where: str) -> str:
    """The operator's metadata that describes state `version`: written by a batch below it, the newest of those."""
    batches = [int(name) for name in names if name.isdigit() and int(name) < version]
    if not batches:
        raise corrupt(where, f"has no entry of a batch before {version}")
    return str(max(batches))


def decode_operator(text: str, *, where: str) -> tuple[Store, ...]:
    """The stores of an operator, in the order in which the commit log lists their ids."""
    try:
        return tuple(
            Store(
                name=str(info["storeName"]),
                partitions=int(info["numPartitions"]),
                schemas=tuple(_below_operator(path, where=where) for path in info.get("stateSchemaFilePaths", [])),
            )
            for info in _store_infos(text, where=where)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(where, f"does not decode: {error!r}") from error


def with_schema_paths(text: str, *, operator_root: Callable[[str], str], where: str) -> str:
    """The operator's metadata with the paths of its schema files moved to another run directory.

    Spark keeps them absolute, so a copied file sends the query to read, and later to name, the old directory.
    `operator_root` tells the new root of the operator from the old path (which scheme Spark uses for the storage).
    """
    version, _, body = text.partition("\n")
    content = decode_json(body, where=where)
    for info in _store_infos(text, where=where, content=content):
        paths = info.get("stateSchemaFilePaths", [])
        info["stateSchemaFilePaths"] = [f"{operator_root(path)}/{_below_operator(path, where=where)}" for path in paths]
    return f"{version}\n{json.dumps(content, separators=(',', ':'), ensure_ascii=False)}"


def _store_infos(text: str, *, where: str, content: dict[str, object] | None = None) -> list[dict[str, Any]]:
    version, _, body = text.partition("\n")
    infos = (decode_json(body, where=where) if content is None else content).get("stateStoreInfo")
    if version not in ("v1", "v2") or not isinstance(infos, list) or not infos:
        raise corrupt(where, "does not decode: not an operator's metadata of version 1 or 2")
    return infos


def _below_operator(path: str, *, where: str) -> str:
    """`_stateSchema/...` of an absolute path, whatever run directory, earlier takeover or scheme stands before it."""
    _, found, below = path.rpartition("/_stateSchema/")
    if not found:
        raise corrupt(where, f"does not decode: {path!r} is not a schema file of the operator")
    return f"_stateSchema/{below}"


def state_chain(
    names: Collection[str], version: int, *, id_of: Callable[[int], str | None], where: str
) -> tuple[str, ...]:
    """The files of a store that make up `version`, of those in its folder, checksum files of Spark's included.

    `id_of` tells the id of a version, None: its file has none in its name (format 1). It raises MissingFile when
    the commit log does not reach back to it.
    """
    chain: list[str] = []
    for number in range(version, 0, -1):
        stem = _stem(names, number, id_of=id_of)
        full = next((f"{stem}.{kind}" for kind in _FULL if f"{stem}.{kind}" in names), None)
        changes = next((f"{stem}.{kind}" for kind in _CHANGES if f"{stem}.{kind}" in names), None)
        step = full or changes
        if step is None:
            raise corrupt(f"{where}/{stem}", "is missing: neither a full state file nor a change file of that version")
        chain.append(step)
        if f"{step}.crc" in names:
            chain.append(f"{step}.crc")  # Spark verifies a state file against it, and only if it is there
        if full is not None:
            break
    return tuple(chain)


def has_id(name: str) -> bool:
    """Whether the name of a state file carries the id of who wrote it, so that its content never changes."""
    return _WITH_ID.match(name.removesuffix(".crc")) is not None


def _stem(names: Collection[str], version: int, *, id_of: Callable[[int], str | None]) -> str:
    try:
        unique = id_of(version)
    except MissingFile:
        # A small retention, or a seed, has no commits before the full file that they lead to. One candidate cannot be
        # wrong: Spark itself follows the ids inside the change files, and refuses a chain that does not fit; without
        # ids (format 1) there is one anyway.
        found = {match[1] for name in names if (match := _OF_A_VERSION.match(name)) and int(match[2]) == version}
        if len(found) != 1:
            raise
        return found.pop()
    return str(version) if unique is None else f"{version}_{unique}"


def files_of_zip(data: bytes, *, where: str) -> dict[str, int]:
    """The files outside a RocksDB zip that it refers to: path below the store's folder -> size in bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            text = archive.read("metadata").decode("utf-8")
        content = decode_json(text.partition("\n")[2], where=where)
        tables = [(f"SSTs/{file['dfsSstFileName']}", int(file["sizeBytes"])) for file in _entries(content, "sstFiles")]
        logs = [(f"logs/{file['dfsLogFileName']}", int(file["sizeBytes"])) for file in _entries(content, "logFiles")]
    except _UNREADABLE_ZIP as error:
        raise corrupt(where, f"does not decode: {error!r}") from error
    return dict(tables + logs)


def _entries(content: dict[str, object], name: str) -> list[dict[str, str]]:
    entries = content.get(name) or []
    if not isinstance(entries, list):
        raise TypeError(f"{name} is not a list")
    return entries
