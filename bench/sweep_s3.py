"""The part of `bench.sweep` that is about S3: objects on a real server (SeaweedFS), swept by Tenure and by delta-rs.

To put a million objects takes most of an hour. So the bench writes a file of metadata with each object's one byte in
it, and the server's own `fs.meta.load` reads the file. Each entry of the file is four bytes of length and a message of
Protocol Buffers with the fields that an object needs, as `fs.meta.save` writes them. The last entry is a folder,
because `fs.meta.load` waits for the objects before a folder and for no others: a shell that ends while the server
still makes an object crashes the server.

A server on the same machine answers at once. A proxy imitates a distant one: it holds each request back for a while.
The proxy is a process of its own, so it takes no time from the interpreter that is measured.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from bench.sweep_trees import SHAPES, kept, seconds
from tenure.storage.s3 import S3
from tests.kit.servers.seaweedfs import BUCKET, SeaweedFs, environment

_AT_ONCE = 16
_BYTE = b"x"
_ETAG = {1: b"Seaweed-X-Amz-ETag", 2: hashlib.md5(_BYTE).hexdigest().encode("ascii")}
_MODE = 0o660
_FOLDER_MODE = 1 << 31 | 0o770


def load_objects(server: SeaweedFs, folder: Path, prefix: str, shape: str, count: int) -> None:
    """Small objects below a prefix of the bucket."""
    now = int(time.time())
    attributes = _message({1: len(_BYTE), 2: now, 3: _MODE, 6: now})  # size, changed, mode, made
    last: Mapping[int, int | bytes] = {1: b"loaded", 2: 1, 4: _message({2: now, 3: _FOLDER_MODE, 6: now})}
    written = folder / "objects.meta"
    with written.open("wb") as file:
        for path in chain(kept(), SHAPES[shape](count)):
            parent, _, name = f"/buckets/{BUCKET}/{prefix}/{path}".rpartition("/")
            file.write(_entry(parent, {1: name.encode("utf-8"), 4: attributes, 5: _message(_ETAG), 9: _BYTE}))
        file.write(_entry("/", last))
    server.shell(f"fs.meta.load -v=false -concurrency={_AT_ONCE} {written}")
    written.unlink()


def _entry(parent: str, fields: Mapping[int, int | bytes]) -> bytes:
    """An object or a folder, with its length."""
    entry = _message({1: parent.encode("utf-8"), 2: _message(fields)})
    return len(entry).to_bytes(4, "big") + entry


def _message(fields: Mapping[int, int | bytes]) -> bytes:
    """Protocol Buffers: each field by its number."""
    encoded = bytearray()
    for number, value in fields.items():
        if isinstance(value, int):
            encoded += _varint(number << 3) + _varint(value)
        else:
            encoded += _varint(number << 3 | 2) + _varint(len(value)) + value
    return bytes(encoded)


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


@contextmanager
def started(folder: Path, *, delay_s: float = 0) -> Iterator[SeaweedFs]:
    """A server for the block, which everything that is started in it reaches by its environment. `delay_s`: each
    request comes so much later to it."""
    with SeaweedFs(folder) as server, ExitStack() as stack:
        url = stack.enter_context(_delayed(server.url, delay_s)) if delay_s else server.url
        os.environ.update({**environment(url), "AWS_ALLOW_HTTP": "true"})
        yield server


@contextmanager
def _delayed(url: str, delay_s: float) -> Iterator[str]:
    """The URL of a proxy, for the block."""
    command = [sys.executable, "-m", "bench.sweep_s3", url, str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def _hold_back(url: str, delay_s: float) -> None:
    """Be the proxy: print its URL, and serve. A request is held back once, however many parts it has: a part that
    follows an answer is the first one of the next request. The end of one connection ends the other one."""
    host, _, port = url.removeprefix("http://").partition(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered = True

        async def ask(some: bytes) -> None:
            nonlocal answered
            if answered:
                answered = False
                await asyncio.sleep(delay_s)
            back.write(some)
            await back.drain()

        async def answer(some: bytes) -> None:
            nonlocal answered
            answered = True
            writer.write(some)
            await writer.drain()

        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        both = [asyncio.create_task(_hand_over(*one)) for one in ((reader, ask), (there, answer))]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        back.close()
        writer.close()
        await asyncio.wait(both)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


async def _hand_over(reader: asyncio.StreamReader, send: Callable[[bytes], Awaitable[None]]) -> None:
    with suppress(OSError):
        while some := await reader.read(1 << 20):
            await send(some)


@dataclass(frozen=True)
class Contenders:
    """What sweeps: Tenure plans and deletes in a storage by its URL, delta-rs in a table."""

    plan: Callable[[str], object]
    delete: Callable[[str], object]
    vacuum: Callable[..., int]


def run(server: SeaweedFs, folder: Path, shape: str, count: int, contenders: Contenders) -> dict[str, Any]:
    """All figures, in seconds. A folder of the local disk."""
    found: dict[str, Any] = {}
    storage, table = f"s3://{BUCKET}/{shape}/storage", f"s3://{BUCKET}/{shape}/table"
    load_objects(server, folder, f"{shape}/storage", shape, count)
    found["plan"] = seconds(lambda: contenders.plan(storage))
    found["delete"] = seconds(lambda: contenders.delete(storage))
    write_deltalake(table, pa.table({"n": [1]}))
    load_objects(server, folder, f"{shape}/table", shape, count)
    all_ = len([*kept()]) + count

    def by_delta_rs(*, dry_run: bool) -> None:
        assert contenders.vacuum(table, dry_run=dry_run) == all_

    found["delta_rs_plan"] = seconds(lambda: by_delta_rs(dry_run=True))
    found["delta_rs_delete"] = seconds(lambda: by_delta_rs(dry_run=False))
    place = S3(storage)
    assert len(place.fs.find(place.root)) == len([*kept()])
    return found


def run_plans(
    server: SeaweedFs, folder: Path, shape: str, count: int, contenders: Contenders, *, rounds: int
) -> dict[str, Any]:
    """The median seconds of the plans, by turns on the same objects, which stay."""
    table = f"s3://{BUCKET}/{shape}/both"
    write_deltalake(table, pa.table({"n": [1]}))
    load_objects(server, folder, f"{shape}/both", shape, count)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds(lambda: contenders.plan(table)))
        theirs.append(seconds(lambda: contenders.vacuum(table, dry_run=True)))
        print(f"{shape}, {count:,} objects: plan {ours[-1]} s, delta-rs {theirs[-1]} s", flush=True)
    return {"plan": statistics.median(ours), "delta_rs_plan": statistics.median(theirs)}


if __name__ == "__main__":
    asyncio.run(_hold_back(sys.argv[1], float(sys.argv[2])))
