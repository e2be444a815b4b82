"""Run directories made by hand, on any storage, and what is in them."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import fsspec

from tenure.rundirs.checksums import crc32c

NEWEST = 13


def offsets_of(batch: int) -> str:
    return (
        f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{batch},"conf":{{}}}}\n{{"logOffset":{batch}}}\n{batch + 100}'
    )


def state_id(version: int, partition: int) -> str:
    return f"{version:08}-{partition}"


def table_of(version: int, partition: int) -> str:
    return f"state/0/{partition}/SSTs/{version:06}-00000000-0000-4000-8000-{partition:012}.sst"


def a_zip(table: str, size: int) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{"dfsSstFileName": table, "sizeBytes": size}]}))
    return data.getvalue()


def a_run_directory(root: str, *, operator: str = "") -> None:
    """14 batches of a query with a file source, a rate source and an operator of two partitions whose metadata has
    an absolute path; full state files at versions 4, 8 and 12. `operator`: its name; empty: its metadata has none."""
    files: dict[str, str | bytes] = {"metadata": '{"id":"the-query"}', ".metadata.crc": b"crc", "sources/1/0": "v1\n17"}
    info = {
        "storeName": "default",
        "numPartitions": 2,
        "stateSchemaFilePaths": ["file:/gone/state/0/_stateSchema/d/0_x"],
    }
    named = {"operatorInfo": {"operatorName": operator}} if operator else {}
    files["state/0/_metadata/v2/0"] = "v2\n" + json.dumps({**named, "stateStoreInfo": [info]})
    files["state/0/_metadata/v2/.0.crc"] = b"crc"
    files["state/0/_stateSchema/d/0_x"] = b"schema"
    for batch in range(NEWEST + 1):
        files[f"offsets/{batch}"] = offsets_of(batch)
        ids = [[state_id(batch + 1, partition)] for partition in range(2)]
        files[f"commits/{batch}"] = "v2\n" + json.dumps({"stateUniqueIds": {"0": ids}})
        files[f"sources/0/{batch}{'.compact' if batch == 9 else ''}"] = f'v1\n{{"path":"{batch}"}}'
        version = batch + 1
        for partition in range(2):
            stem = f"state/0/{partition}/{version}_{state_id(version, partition)}"
            files[f"{stem}.changelog"] = f"changes {version}"
            files[f"{stem}.changelog.crc"] = sparks_checksum(f"changes {version}".encode())
            if version % 4 == 0:
                table = table_of(version, partition)
                files[f"{stem}.zip"] = a_zip(table.rpartition("/")[2], 5)
                files[table] = b"table"
    for path, content in files.items():
        put(f"{root}/{path}", content)


def sparks_checksum(data: bytes) -> bytes:
    """The content of Spark's checksum file for these bytes."""
    value = crc32c(data)
    signed = value - (1 << 32) if value >> 31 else value
    return json.dumps({"algorithm": "CRC32C", "value": signed, "mainFileSize": len(data), "creator": {}}).encode()


def hadoops_checksum(data: bytes) -> bytes:
    """The content of Hadoop's checksum file for these bytes."""
    sums = [zlib.crc32(data[first : first + 512]) for first in range(0, len(data), 512)]
    return struct.pack(f">4sI{len(sums)}I", b"crc\0", 512, *sums)


def put(path: str, content: str | bytes) -> None:
    filesystem, plain = fsspec.core.url_to_fs(path)
    filesystem.makedirs(plain.rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(plain, content if isinstance(content, bytes) else content.encode())


def content_of(root: str) -> dict[str, bytes]:
    filesystem, plain = fsspec.core.url_to_fs(root)
    return {path.removeprefix(plain + "/"): filesystem.cat_file(path) for path in filesystem.find(plain)}


def hard_links(root: str) -> set[str]:
    """The files of a local folder that have a second name."""
    below = Path(root)
    return {str(path.relative_to(below)) for path in below.rglob("*") if path.is_file() and path.stat().st_nlink > 1}


def state_names(batch: int) -> set[str]:
    """The state files that make up `batch`, which is above 8 and below 12."""
    names = set()
    for partition in range(2):
        folder = f"state/0/{partition}"
        names |= {table_of(8, partition), f"{folder}/8_{state_id(8, partition)}.zip"}
        for version in range(9, batch + 1):
            stem = f"{folder}/{version}_{state_id(version, partition)}.changelog"
            names |= {stem, f"{stem}.crc"}
    return names
