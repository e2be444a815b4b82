"""The checkpoints of one query: planned in order, each batch once, the oldest dropped in the same commit.

Promise (I1): a batch is planned at most once in the history of the scope. Its checkpoint is committed under the term,
and only while the checkpoint before it is the newest. A checkpoint that does not decode is an error; no start from an
older checkpoint hides it (FLINK-22502). Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tenure.checkpoints.batch_rules import falls_out
from tenure.checkpoints.checkpoint import Checkpoint, checkpoint_name, decode_checkpoint, encode_checkpoint
from tenure.coordination.records import Exact, Guard, Key, Record, SessionId
from tenure.coordination.term import Term
from tenure.errors import (
    CorruptBlob,
    CorruptCheckpoint,
    GuardFailed,
    HandleExists,
    HandleLocked,
    HandleNotFound,
    OutOfOrder,
)
from tenure.handles.areas import handles_in
from tenure.handles.handle import Handle, decode_handle
from tenure.handles.store import HandleStore

KEPT = 3
"""How many checkpoints are kept: a takeover needs the newest, the others are for people. Each lies in its store, and in
Kubernetes every commit writes them all."""

CHECKPOINTS = Key("checkpoints")
"""Under it one area of handles for each query."""


class CheckpointStore:
    """The checkpoints of `query`, in a handle store of their own."""

    def __init__(self, handles: HandleStore, *, query: str, keep: int = KEPT) -> None:
        self._handles = handles
        self._query = query
        self._keep = keep
        self._known: list[Handle] | None = None  # as last read or written, by batch; None: not read yet
        self._newest: Checkpoint | None = None  # None: not read yet, or there is none
        self._since: Guard | None = None  # holds until the first removal after `_known` was read; None: not read yet

    def newest(self, term: Term | None = None) -> Checkpoint | None:
        """The newest checkpoint, read afresh; None: nothing was ever planned. Waits for an unavailable store until the
        deadline of `term`, without a term for some seconds.

        Raises CorruptHandle, CorruptBlob, CorruptCheckpoint, StorageError, StoreUnavailable, TermLost.
        """
        while True:
            since = self._handles.no_removal_since(term)
            known = self._handles.list(term)
            try:
                newest = self._decode(known[-1]) if known else None
            except CorruptBlob:
                if self._handles.find(known[-1].name) == known[-1]:
                    raise
                continue  # dropped during the read, so there is a newer checkpoint
            self._since, self._known, self._newest = since, known, newest
            return newest

    def glance(self) -> Checkpoint | None:
        """The newest checkpoint as this client last heard of it, for a reader that follows the leader and decides
        nothing; None: it has heard of none. Raises like `newest`, without a term."""
        known = self._handles.glance()
        try:
            return self._decode(known[-1]) if known else None
        except CorruptBlob:
            return self.newest()  # the glance may be old, and the checkpoint dropped since

    def list(self) -> list[Checkpoint]:
        """All kept checkpoints, oldest first. Raises like `newest`."""
        payloads = self._handles.get_all()
        return [decode_checkpoint(data, query=self._query, name=name) for name, data in sorted(payloads.items())]

    def get(self, batch: int) -> Checkpoint:
        """The kept checkpoint of a batch. Raises HandleNotFound, and like `newest`."""
        name = checkpoint_name(batch)
        return decode_checkpoint(self._handles.get(name), query=self._query, name=name)

    def plan(self, term: Term, checkpoint: Checkpoint) -> None:
        """Commit the checkpoint, and drop the checkpoints that fall out of retention in the same commit.

        Nothing is committed when this term has planned or retaken the batch already, with the same offsets and run
        directory. Raises TermLost, OutOfOrder, CorruptCheckpoint (the batch is planned with other offsets),
        StorageError: this call did not plan the batch.
        """
        if self._known is None:
            self.newest(term)
        newest = self._newest
        if newest is not None and newest.batch == checkpoint.batch:
            if newest.offsets != checkpoint.offsets:
                raise CorruptCheckpoint(
                    f"batch {checkpoint.batch} of query {self._query!r} is planned with other offsets "
                    f"(by epoch {newest.epoch}); a batch is planned once"
                )
            if (newest.epoch, newest.run_directory) != (checkpoint.epoch, checkpoint.run_directory):
                raise OutOfOrder(
                    f"batch {checkpoint.batch} of query {self._query!r} is run again and was not retaken: epoch "
                    f"{newest.epoch} has it in {newest.run_directory}",
                    fix="nothing was written; another run may be writing this scope",
                )
            return
        expected = 0 if newest is None else newest.batch + 1
        if checkpoint.batch != expected:
            raise OutOfOrder(
                f"query {self._query!r} plans batch {checkpoint.batch}, the next batch is {expected}",
                fix="nothing was planned; another run may be writing this scope",
            )
        with self._in_order(f"batch {expected} was planned"):
            self._add(term, checkpoint)

    @contextmanager
    def locked(self, batch: int | None = None, *, session: SessionId) -> Iterator[Checkpoint | None]:
        """The checkpoint of a batch, or the newest, and a lock for as long as the block lasts and the session lives:
        its record is not dropped, and no sweep removes its run directory, also when the checkpoint is retaken
        meanwhile. None: there is no such checkpoint. Raises like `newest` without a term; SessionEnded,
        OutcomeUnknown."""
        while True:
            newest = self.newest() if batch is None else None
            wanted = batch if newest is None else newest.batch
            if wanted is None:
                yield None
                return
            try:
                lock = self._handles.lock(
                    checkpoint_name(wanted),
                    session=session,
                    protects=lambda handle: self._decode(handle).run_directory,
                )
            except HandleNotFound:
                if batch is not None:
                    yield None
                    return
                continue  # dropped since the read, so there is a newer checkpoint
            try:
                yield self._decode(lock.handle)
            finally:
                self._handles.release(lock)
            return

    def adopt(self, term: Term, checkpoint: Checkpoint) -> None:
        """Commit a first checkpoint, of any batch. Raises OutOfOrder: there is one; TermLost, StorageError."""
        if self.newest(term) is not None:
            raise OutOfOrder(f"query {self._query!r} has a checkpoint already", fix="nothing was adopted")
        with self._in_order(f"batch {checkpoint.batch} was adopted"):
            self._add(term, checkpoint)

    def retake(
        self, term: Term, *, run_directory: str, paths: Mapping[str, str] | None = None, closed: bool = False
    ) -> Checkpoint:
        """Put this term and its run directory into the newest checkpoint, before its batch is run again. `paths`: of
        the sources of files in that run directory; None: they stay. `closed`: the batch is done, and the run directory
        goes on after the batch.

        Raises TermLost, StorageError, StoreUnavailable: the checkpoint stays as it was. OutOfOrder: the checkpoint is
        not the newest any more.
        """
        if self._known is None:
            self.newest(term)
        if self._newest is None or not self._known:
            raise OutOfOrder(f"query {self._query!r} has no checkpoint to take over")
        newest = self._newest
        paths = newest.paths if paths is None else paths
        retaken = replace(newest, run_directory=run_directory, epoch=term.epoch, paths=paths, closed=closed)
        with self._in_order(f"batch {retaken.batch} was retaken"):
            handle = self._handles.replace(term, self._known[-1], encode_checkpoint(retaken))
        self._known, self._newest = [*self._known[:-1], handle], retaken
        return retaken

    @contextmanager
    def _in_order(self, what: str) -> Iterator[None]:
        """Make a refusal in the block OutOfOrder: the checkpoints are not as they were read."""
        try:
            yield
        except (GuardFailed, HandleExists, HandleNotFound) as moved:
            self._known = None
            raise OutOfOrder(f"the checkpoints of query {self._query!r} moved while {what}") from moved

    def _add(self, term: Term, checkpoint: Checkpoint) -> None:
        assert self._known is not None
        locked: set[int] = set()
        while True:
            by_batch = {int(handle.name): handle for handle in self._known}
            surplus = falls_out(list(by_batch), adding=checkpoint.batch, keep=self._keep, locked=locked)
            out = surplus[: self._handles.most_removed_by_add]
            remove = [by_batch[batch] for batch in out]
            newest: list[Guard] = [Exact(h.key, h.version) for h in self._known[-1:] if h not in remove]
            if not self._known:
                assert self._since is not None
                newest = [self._since]  # no checkpoint, and no removal since: the first batch is planned once, too
            try:
                added = self._handles.add(
                    term, checkpoint_name(checkpoint.batch), encode_checkpoint(checkpoint), guards=newest, remove=remove
                )
            except HandleLocked as held:
                locked.update(batch for batch in out if held.key == by_batch[batch].key)
                continue
            self._known = [*(handle for handle in self._known if handle not in remove), added]
            self._newest = checkpoint
            return

    def _decode(self, handle: Handle) -> Checkpoint:
        return decode_checkpoint(self._handles.payload(handle), query=self._query, name=handle.name)


def newest_in(records: Iterable[Record]) -> Mapping[str, Record]:
    """Query -> the handle of its newest checkpoint, among the records of a scope."""
    handles = [record for record in handles_in(records, CHECKPOINTS) if record.key.name.isdecimal()]
    return {handle.key.split("/")[1]: handle for handle in sorted(handles, key=lambda one: int(one.key.name))}


def planned_last(records: Iterable[Record], epoch: int | None = None) -> str:
    """When the newest batch of a scope was planned (ISO 8601, UTC), or the newest of an epoch; empty: none is planned,
    or the checkpoint's payload, which has the time, is a blob. Raises CorruptHandle, CorruptCheckpoint."""
    times = [""]
    for query, record in newest_in(records).items():
        handle = decode_handle(record)
        if handle.inline is not None and epoch in (None, handle.epoch):
            times.append(decode_checkpoint(handle.inline, query=query, name=record.key.name).planned_at)
    return max(times)


def newest_batches(records: Iterable[Record]) -> Mapping[str, int]:
    """Query -> its newest planned batch, among the records of a scope."""
    return {query: int(handle.key.name) for query, handle in newest_in(records).items()}


def queries_in(records: Iterable[Record]) -> frozenset[str]:
    """The queries with any record below `CHECKPOINTS`: a handle, a reader's lock, an anchor."""
    return frozenset(record.key.split("/")[1] for record in records if record.key.is_under(CHECKPOINTS))
