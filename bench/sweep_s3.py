"""The part of `bench.sweep` that is about S3: objects on a real server (SeaweedFS), swept by Tenure and by delta-rs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from fsspec.asyn import sync

from bench.sweep_trees import SHAPES, kept
from tenure.blobs.place import reach
from tenure.testing.servers.seaweedfs import BUCKET, SeaweedFs, environment

_AT_ONCE = 200


def put_objects(url: str, shape: str, count: int) -> None:
    """Small objects below a URL."""
    place = reach(url)
    names = [*kept(), *SHAPES[shape](count)]

    async def some(names: list[str]) -> None:
        await asyncio.gather(*(place.fs._pipe_file(f"{place.root}/{name}", b"x") for name in names))

    for first in range(0, len(names), _AT_ONCE):
        sync(place.fs.loop, some, names[first : first + _AT_ONCE])


@contextmanager
def started(folder: Path) -> Iterator[None]:
    """A server for the block, which everything that is started in it reaches by its environment."""
    with SeaweedFs(folder) as server:
        os.environ.update({**environment(server.url), "AWS_ALLOW_HTTP": "true"})
        yield


def run(
    shape: str,
    count: int,
    *,
    plan: Callable[[str], object],
    delete: Callable[[str], object],
    seconds: Callable[[Callable[[], object]], float],
) -> dict[str, Any]:
    """All figures, in seconds. `plan` and `delete` sweep a storage by its URL."""
    found: dict[str, Any] = {}
    storage, table = f"s3://{BUCKET}/{shape}/storage", f"s3://{BUCKET}/{shape}/table"
    put_objects(storage, shape, count)
    found["plan"] = seconds(lambda: plan(storage))
    found["delete"] = seconds(lambda: delete(storage))
    write_deltalake(table, pa.table({"n": [1]}))
    put_objects(table, shape, count)

    def vacuum(*, dry_run: bool) -> None:
        DeltaTable(table).vacuum(retention_hours=0, dry_run=dry_run, enforce_retention_duration=False, full=True)

    found["delta_rs_plan"] = seconds(lambda: vacuum(dry_run=True))
    found["delta_rs_delete"] = seconds(lambda: vacuum(dry_run=False))
    return found
