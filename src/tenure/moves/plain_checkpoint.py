"""The checkpoint directory of a plain Spark query: read where a query moves in, written where it moves out.

Promise: `read_plain` writes nothing. A directory that Tenure cannot go on from is refused by a line that
says why. Not promised: that the state is whole; a seed reads each of its files, and refuses a file that is missing or
damaged.

`export` copies the newest checkpoint of a query into such a directory. The copy is whole, or Spark refuses it:
`metadata` is written last. A lock protects the checkpoint and its run directory meanwhile, and goes with the session of
the caller (FLINK-6612). Nothing else in store and storage changes. Not promised: that the pipeline does not go on
meanwhile. Members are to be stopped before the plain job starts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tenure.checkpoints.checkpoint import Checkpoint
from tenure.checkpoints.source import ANOTHER
from tenure.clock import Clock, timestamp
from tenure.coordination.records import SessionId
from tenure.errors import UsageError
from tenure.inputs.planned_inputs import kafka_partitions
from tenure.progress import Progress, Step, unseen
from tenure.rundirs.run_directory import (
    RunDirectory,
    check_new,
    has_commit,
    latest_commit,
    latest_planned,
    read_query_id,
)
from tenure.rundirs.seed_logs import decode_offsets, kind_of, log_offset
from tenure.rundirs.seeding import seed
from tenure.rundirs.state_copy import SeedPoint
from tenure.scope_context import ScopeContext
from tenure.storage.reach import reach

_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_PROVIDERS: Final = ("RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider")
_OF_SPARK: Final = "org.apache.spark.sql.execution.streaming.state."
_PARTITIONS: Final = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class PlainSource:
    """A source of the query. `offset` None: nothing was read yet."""

    folder: str
    kind: str
    """For people: `files`, `Kafka`, `Delta`, `rate`, `another`."""
    offset: str | None


@dataclass(frozen=True, slots=True)
class PlainCheckpoint:
    """The newest batch of a plain query."""

    url: str
    query_id: str
    """Spark's id of the query, which stays."""
    batch: int
    done: bool
    """Whether Spark has noted the batch as done. If not, it runs again, with the same offsets."""
    offsets: str
    sources: tuple[PlainSource, ...]
    operators: tuple[int, ...]
    """The numbers of the operators with state."""
    partitions: int | None
    """Of the state; None: the offsets do not say."""
    provider: str | None
    """The class that keeps the state, without its package; None: the offsets do not say."""
    files: int
    bytes: int

    @property
    def next_batch(self) -> int:
        """The batch that the next leader runs first."""
        return self.batch + self.done

    def checkpoint(self, query: str, *, run_directory: str, epoch: int, clock: Clock) -> Checkpoint:
        """The first checkpoint of a query that goes on from there in a run directory."""
        return Checkpoint(
            query,
            self.query_id,
            self.batch,
            self.offsets,
            run_directory,
            epoch=epoch,
            planned_at=timestamp(clock),
            closed=self.done,
        )


def read_plain(url: str) -> PlainCheckpoint:
    """Read a directory. Raises UsageError: Tenure cannot go on from it; CorruptRunDirectory, StorageError."""
    directory = RunDirectory(url)
    names = directory.list()
    if "metadata" not in names:
        seen = "there is nothing" if not names else "it has no file 'metadata'"
        raise UsageError(f"{url} is no checkpoint of a query: {seen}", fix="name the query's checkpointLocation")
    planned, committed = latest_planned(url), latest_commit(url)
    if planned is None:
        raise UsageError(f"{url} has no batch: the query never ran", fix="there is nothing to adopt; start tenure run")
    if planned - (-1 if committed is None else committed) not in (0, 1):
        newest = "no batch is done" if committed is None else f"the newest done batch is {committed}"
        raise UsageError(
            f"{url} is planned up to batch {planned}, and {newest}: Spark noted its progress late, or not at all",
            fix="run the query without asyncProgressTrackingEnabled until a batch ends, then stop it",
        )
    path = f"offsets/{planned}"
    text = directory.read_text(path)
    named = decode_offsets(text, where=directory.where(path))
    settings = _settings(text)
    provider = settings.get(_PROVIDER)
    if provider is not None and provider not in {f"{_OF_SPARK}{name}" for name in _PROVIDERS}:
        raise UsageError(
            f"{url} keeps its state by {provider}, whose files Tenure does not know",
            fix=f"Tenure goes on from state of {' and '.join(_PROVIDERS)}",
        )
    folders = directory.list("sources")
    sources = [_source(name, offset, directory.list(f"sources/{name}")) for name, offset in named.items()]
    _check_folders(url, sources, folders)
    files, size = _size(url)
    partitions = settings.get(_PARTITIONS, "")
    return PlainCheckpoint(
        url=directory.url,
        query_id=read_query_id(url),
        batch=planned,
        done=planned == committed,
        offsets=text,
        sources=tuple(sources),
        operators=tuple(sorted(int(name) for name in directory.list("state") if name.isdigit())),
        partitions=int(partitions) if partitions.isdigit() else None,
        provider=None if provider is None else provider.removeprefix(_OF_SPARK),
        files=files,
        bytes=size,
    )


def check_unchanged(plain: PlainCheckpoint) -> None:
    """Check, after its files were copied, that nobody ran the query meanwhile. Raises UsageError, StorageError,
    CorruptRunDirectory."""
    planned, committed = latest_planned(plain.url), latest_commit(plain.url)
    done = committed is not None and committed >= plain.batch
    if planned != plain.batch or done != plain.done:
        raise UsageError(
            f"{plain.url} has gone on to batch {planned} meanwhile: the query still runs", fix="stop its job first"
        )


def _settings(offsets: str) -> Mapping[str, str]:
    """The settings of Spark that an entry of the offset log keeps."""
    found = json.loads(offsets.split("\n")[1]).get("conf")
    return {name: str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _source(folder: str, offset: str | None, files: frozenset[str]) -> PlainSource:
    """`files`: in the folder of the source, which has to speak for the kind as well as the offset does."""
    kind = kind_of(None, offset, files)
    if kind == ANOTHER and offset is not None:
        value = json.loads(offset)
        if "0" in files and kafka_partitions(offset) is not None:
            kind = "Kafka"
        elif isinstance(value, dict) and "reservoirId" in value:
            kind = "Delta"
    return PlainSource(folder, kind, offset)


def _may_have_log(offset: str) -> bool:
    """Whether an offset may be one of files or of a rate source, which both have a folder."""
    return log_offset(offset) is not None or isinstance(json.loads(offset), int)


def _check_folders(url: str, sources: Sequence[PlainSource], folders: frozenset[str]) -> None:
    """A source that a query reads twice has two equal offsets and one folder, and the offsets do not say which. Sources
    of other kinds may have no folder at all."""
    known = {source.folder for source in sources}
    numbered = {folder for folder in folders if folder.isdigit()}
    logs = {one.folder: one.offset for one in sources if one.offset is not None and _may_have_log(one.offset)}
    if not numbered <= known or (len(set(logs.values())) < len(logs) and not logs.keys() <= numbered):
        raise UsageError(
            f"{url} has {len(sources)} offsets for the folders {sorted(folders)} of sources: the query reads a source "
            "twice",
            fix="Tenure cannot tell which offset belongs to which folder; such a query starts anew",
        )


def _size(url: str) -> tuple[int, int]:
    """The number of all files below a folder, and their bytes. Raises StorageError."""
    storage, ahead, files, size = reach(url), [""], 0, 0
    while ahead:
        folder = ahead.pop()
        for entry in storage.entries(folder, sizes=True):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.folder:
                ahead.append(path)
            else:
                files, size = files + 1, size + (entry.size or 0)
    return files, size


_LOOK_S = 0.2


def export(
    context: ScopeContext,
    directory: str,
    *,
    query: str,
    session: SessionId,
    patience: timedelta,
    progress: Progress = unseen,
) -> Checkpoint:
    """Fill the empty `directory` (a URL) so that plain Spark goes on after the newest batch; return its checkpoint.
    `patience`: for how long a batch in flight is waited for.

    Raises UsageError: there is no checkpoint, its batch is in flight, or the directory is not empty;
    CorruptRunDirectory, CorruptCheckpoint, StorageError, StoreUnavailable, SessionEnded.
    """
    check_new(directory)
    end_s = context.clock.monotonic_s() + patience.total_seconds()
    while True:
        with context.checkpoints(query).locked(session=session) as newest:
            if newest is None:
                raise UsageError(
                    f"query {query!r} has no checkpoint in scope {context.scope!r}", fix="see tenure checkpoints list"
                )
            source = f"{context.storage}/{newest.run_directory}"
            if has_commit(source, newest.batch):
                point = SeedPoint(newest.batch, newest.offsets, True, newest.folders, newest.kinds)
                seed(source, directory, point, progress=progress)
                return newest
        if context.clock.monotonic_s() >= end_s:
            raise UsageError(
                f"batch {newest.batch} of query {query!r} is planned, and not noted as done",
                fix="let a member end it: tenure pause, tenure restart of the leader, and export again",
            )
        waits_s = patience.total_seconds() - (end_s - context.clock.monotonic_s())
        progress(Step(f"batch {newest.batch} of {query} is in flight", waits_s, patience.total_seconds(), "s"))
        context.clock.sleep(_LOOK_S)
