"""The part of `bench.sweep` that is about S3: objects on a real server (SeaweedFS), swept by Tenure and by delta-rs.

A million objects would take most of an hour to put. They are loaded as metadata instead, by the server's own
`fs.meta.load`, with their one byte inside of it, which is where the server keeps what is small if it is told to. How
such a file looks was read off one that `fs.meta.save` wrote: for each entry four bytes of length, and a message of
Protocol Buffers, of whose fields those are written that a file needs.

A server on the same machine answers at once; one that is not is imitated by a proxy that waits before it hands over
what it is asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from bench.sweep_trees import SHAPES, kept
from tenure.storage.location import reach
from tenure.testing.servers.seaweedfs import BUCKET, SeaweedFs, environment

_AT_ONCE = 16
_BYTE = b"x"
_ETAG = {1: b"Seaweed-X-Amz-ETag", 2: hashlib.md5(_BYTE).hexdigest().encode("ascii")}
_MODE = 0o660


def load_objects(server: SeaweedFs, folder: Path, prefix: str, shape: str, count: int) -> None:
    """Small objects below a prefix of the bucket."""
    now = int(time.time())
    attributes = _message({1: len(_BYTE), 2: now, 3: _MODE, 6: now})  # size, changed, mode, made
    entry = b""
    written = folder / "objects.meta"
    with written.open("wb") as file:
        for name in (*kept(), *SHAPES[shape](count)):
            parent, _, last = f"/buckets/{BUCKET}/{prefix}/{name}".rpartition("/")
            told = {1: last.encode("utf-8"), 4: attributes, 5: _message(_ETAG), 9: _BYTE}
            entry = _message({1: parent.encode("utf-8"), 2: _message(told)})
            file.write(len(entry).to_bytes(4, "big") + entry)
        # The shell ends before those that it has begun are written.
        file.write((len(entry).to_bytes(4, "big") + entry) * (2 * _AT_ONCE))
    server.shell(f"fs.meta.load -v=false -concurrency={_AT_ONCE} {written}")
    written.unlink()


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
    host, _, port = url.removeprefix("http://").partition(":")
    loop = asyncio.new_event_loop()

    async def hand_over(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float) -> None:
        with suppress(OSError):
            while some := await reader.read(1 << 20):
                await asyncio.sleep(wait_s)
                writer.write(some)
                await writer.drain()
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(port))
        await asyncio.gather(hand_over(reader, back, delay_s), hand_over(there, writer, 0))

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    loop.call_soon_threadsafe(server.close)  # connections that clients keep open end with the process


def run(
    server: SeaweedFs,
    folder: Path,
    shape: str,
    count: int,
    *,
    plan: Callable[[str], object],
    delete: Callable[[str], object],
    vacuum: Callable[..., int],
    seconds: Callable[[Callable[[], object]], float],
) -> dict[str, Any]:
    """All figures, in seconds. `plan` and `delete` sweep a storage by its URL, and delta-rs' `vacuum` a table. A folder
    of the local disk."""
    found: dict[str, Any] = {}
    storage, table = f"s3://{BUCKET}/{shape}/storage", f"s3://{BUCKET}/{shape}/table"
    load_objects(server, folder, f"{shape}/storage", shape, count)
    found["plan"] = seconds(lambda: plan(storage))
    found["delete"] = seconds(lambda: delete(storage))
    write_deltalake(table, pa.table({"n": [1]}))
    load_objects(server, folder, f"{shape}/table", shape, count)
    all_ = len([*kept()]) + count

    def by_delta_rs(*, dry_run: bool) -> None:
        assert vacuum(table, dry_run=dry_run) == all_

    found["delta_rs_plan"] = seconds(lambda: by_delta_rs(dry_run=True))
    found["delta_rs_delete"] = seconds(lambda: by_delta_rs(dry_run=False))
    place = reach(storage)
    assert len(place.fs.find(place.root)) == len([*kept()])
    return found
