"""The files that make up one version of one state store. Pure: names and bytes in, names out.

Promise: the chain is the files that Spark 4.3 reads to load a version: the newest full file at or below it, and the
change files above that file. The same walk serves RocksDB (`.zip`, `.changelog`), the HDFS-backed store (`.snapshot`,
`.delta`), and both checkpoint formats: format 1 names a file by its version, format 2 by its version and the id in the
commit log. Batch b reads version b and writes version b + 1; version 0 is empty and has no file.
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

from tenure.rundirs.seed_logs import MissingFile, corrupt, decode_json
from tenure.storage.names import checked

DEFAULT_STORE = "default"
_SIDES = ("left-", "right-")
"""How the folders of the stores of a join begin."""
_FULL = ("zip", "snapshot")
_CHANGES = ("changelog", "delta")
# The errors of `zipfile` at damaged bytes. RuntimeError, NotImplementedError: a flag or method that Spark never writes.
_UNREADABLE_ZIP = (zipfile.BadZipFile, zlib.error, KeyError, TypeError, ValueError, EOFError, RuntimeError, OSError)
_UNIQUE_TABLE = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.sst\Z")
_WITH_ID = re.compile(r"(\d+)_([^.]+)\.(?:zip|changelog)\Z")
_NOT_NULL = re.compile(rb'("(?:nullable|containsNull|valueContainsNull)"):false')
_WITHOUT_FAMILIES = frozenset(
    {
        "stateStoreSave",
        "sessionWindowStateStoreSaveExec",
        "dedupe",
        "dedupeWithinWatermark",
        "flatMapGroupsWithState",
        "applyInPandasWithState",
    }
)
_NO_KEY = b'{"type":"struct","fields":[]}'
_OF_A_VERSION = re.compile(rf"((\d+)(?:_[^.]+)?)\.(?:{'|'.join((*_FULL, *_CHANGES))})\Z")


@dataclass(frozen=True, slots=True)
class Store:
    """A kind of state store of an operator, with one store in each partition."""

    name: str
    partitions: int
    schemas: tuple[str, ...]
    """The files under `_stateSchema` that the operator's metadata names, as relative paths; empty in version 1."""

    def folder(self, partition: int) -> str:
        """The folder of a partition's store, below the operator's folder."""
        return str(partition) if self.name == DEFAULT_STORE else f"{partition}/{self.name}"


def without_nullability(schema: bytes) -> bytes:
    """The schema of a store, in which every column may be null.

    Spark 3.5 takes the nullability of the batch that wrote the schema, and a batch without data knows less of it. Spark
    refuses the schema if such a batch is the first after a restart; the rows of the state are the same. The texts of
    the schema stand behind their lengths, so the new words are as long as the old words.
    """
    return _NOT_NULL.sub(rb"\1: true", schema)


def is_without_key(schema: bytes) -> bool:
    """Whether the schema of a store has a key without columns: all rows have one key. Its values are never without."""
    return _NO_KEY in schema


def newest_metadata(names: Collection[str], *, version: int, where: str) -> str:
    """The name of the operator's metadata for state `version`: the newest that a batch below it wrote. Raises
    CorruptRunDirectory."""
    batches = [int(name) for name in names if name.isdigit() and int(name) < version]
    if not batches:
        raise corrupt(where, f"has no entry of a batch before {version}")
    return str(max(batches))


def decode_operator(text: str, *, where: str) -> tuple[Store, ...]:
    """The stores of an operator, in the order in which the commit log lists their ids. Raises CorruptRunDirectory."""
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


def operator_name(text: str, *, where: str) -> str:
    """The operator's name, from its metadata, such as `stateStoreSave`; empty: it has none. Raises
    CorruptRunDirectory."""
    info = decode_json(text.partition("\n")[2], where=where).get("operatorInfo")
    return str(info.get("operatorName", "")) if isinstance(info, dict) else ""


def stores_found(partitions: Collection[str], *, inside: Collection[str], where: str) -> tuple[Store, ...]:
    """The stores of an operator without metadata, as Spark before 4.0 left it. `partitions`: the names in its folder;
    `inside`: those in the folder of its partition 0. Raises CorruptRunDirectory."""
    numbers = sorted(int(name) for name in partitions if name.isdigit())
    if not numbers or numbers != list(range(len(numbers))):
        raise corrupt(where, f"lacks the state of a partition: there are {numbers}")
    names = sorted(name for name in inside if name.startswith(_SIDES)) or [DEFAULT_STORE]
    return tuple(Store(name, len(numbers), ()) for name in names)


def with_schema_paths(text: str, *, operator_root: Callable[[str], str], where: str) -> str:
    """The operator's metadata with the paths of its schema files moved to another run directory.

    Spark stores absolute paths, so with an unchanged copy the query would read, and later name, the old directory.
    `operator_root`: old path -> the operator's new root, with the scheme that Spark uses for the storage. Raises
    CorruptRunDirectory.
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
    """`_stateSchema/...` of an absolute path, with any run directory, earlier takeover or scheme before it."""
    _, separator, below = path.rpartition("/_stateSchema/")
    if not separator:
        raise corrupt(where, f"does not decode: {path!r} is not a schema file of the operator")
    return f"_stateSchema/{below}"


def state_chain(
    names: Collection[str], version: int, *, id_of: Callable[[int], str | None], where: str
) -> tuple[str, ...]:
    """The files among `names` that make up `version` of a store, Spark's checksum files included.

    `id_of`: version -> its id; None: its file name has no id (format 1). `id_of` raises MissingFile when the commit log
    does not reach back to the version. Raises CorruptRunDirectory.
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
            chain.append(f"{step}.crc")  # Spark verifies a state file by its checksum file, where that exists
        if full is not None:
            break
    return tuple(chain)


def has_id(name: str) -> bool:
    """Whether the name of a state file carries the id of its writer, so that its content never changes."""
    return _WITH_ID.match(name.removesuffix(".crc")) is not None


def change_file(name: str) -> tuple[int, str] | None:
    """The version and the id of a changelog of RocksDB that has an id; None: the file is another."""
    match = _WITH_ID.match(name)
    return (int(match[1]), match[2]) if match is not None and name.endswith(".changelog") else None


def version_of(path: str) -> int:
    """The version of a state file, from its path."""
    match = _OF_A_VERSION.match(path.rpartition("/")[2])
    assert match is not None, path
    return int(match[2])


def checksums_of(path: str) -> tuple[str, ...]:
    """The checksum files that may stand beside a file: Spark's, which is copied with the file, and Hadoop's hidden
    checksums of both on a local disk. A file of the same name with other bytes is refused by them."""
    folder, _, name = path.rpartition("/")
    return (f"{path}.crc", f"{folder}/.{name}.crc", f"{folder}/.{name}.crc.crc")


def has_no_families(operator: str) -> bool:
    """Whether the stores of an operator have no column families of RocksDB, by the operator's name."""
    return operator in _WITHOUT_FAMILIES


def is_unique_table(path: str) -> bool:
    """Whether a file is a table of RocksDB whose name has the UUID of its upload, so that the name alone says which
    bytes it has."""
    return _UNIQUE_TABLE.search(path) is not None


def _stem(names: Collection[str], version: int, *, id_of: Callable[[int], str | None]) -> str:
    try:
        unique = id_of(version)
    except MissingFile:
        # With a small retention, or after a seed, there are no commits before the full file. A single candidate cannot
        # be wrong: Spark follows the ids inside the change files, and refuses a chain that does not fit. Without ids
        # (format 1) there is a single candidate anyway.
        candidates = {match[1] for name in names if (match := _OF_A_VERSION.match(name)) and int(match[2]) == version}
        if len(candidates) != 1:
            raise
        return candidates.pop()
    return str(version) if unique is None else f"{version}_{unique}"


def files_of_zip(data: bytes, *, where: str) -> dict[str, int]:
    """The files outside a RocksDB zip to which it refers: path below the store's folder -> size in bytes. Raises
    CorruptRunDirectory."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            text = archive.read("metadata").decode("utf-8")
        content = decode_json(text.partition("\n")[2], where=where)
        tables = [(f"SSTs/{file['dfsSstFileName']}", int(file["sizeBytes"])) for file in _entries(content, "sstFiles")]
        logs = [(f"logs/{file['dfsLogFileName']}", int(file["sizeBytes"])) for file in _entries(content, "logFiles")]
        return {checked(path): size for path, size in tables + logs}
    except _UNREADABLE_ZIP as error:
        raise corrupt(where, f"does not decode: {error!r}") from error


def with_metadata_of_today(data: bytes, *, where: str) -> bytes | None:
    """The RocksDB zip of Spark 4.0 as newer releases read it; None: it is so already. Spark 4.0 gave the metadata the
    number of the checkpoint format, and a newer release refuses any other than 1. Raises CorruptRunDirectory."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if not archive.read("metadata").startswith(b"v2\n"):
                return None
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as anew:
                for entry in archive.infolist():
                    content = archive.read(entry)
                    anew.writestr(entry, b"v1" + content[2:] if entry.filename == "metadata" else content)
            return made.getvalue()
    except _UNREADABLE_ZIP as error:
        raise corrupt(where, f"does not decode: {error!r}") from error


def _entries(content: dict[str, object], name: str) -> list[dict[str, str]]:
    entries = content.get(name) or []
    if not isinstance(entries, list):
        raise TypeError(f"{name} is not a list")
    return entries
