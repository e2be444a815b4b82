"""An operator takes bad input files out of the planned batch of a query, so that the batch can run without them.

The batch keeps its offsets. Spark reads a planned file that is not there as nothing, with a state and without; so the
files are moved aside, and a record in the store (`left_out`) lets them be missing, for this batch alone.

1. One commit, while nobody leads: an epoch of its own, which ends in the same moment and has the reason for the
   history; the record; and a pause, unless there is one. The guards: nobody leads, the epoch and the checkpoint are as
   they were seen. So no leader of an earlier epoch can plan or retake any more, and nobody leads before step 3.
2. The files are copied to the operator's folder, then removed.
3. The pause ends, unless an operator had made it.

Promise: after a death at any step, the same command again completes it, and until then nobody leads. Every other
planned file must be there, as before (`InputsGone`). A query with state whose sink has the batch already does not run
without the files: its state would lack rows that its output has (`batch_rules.short_state`).
Not promised: that the sink of a query without state has nothing of the files: an earlier attempt may have written all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tenure.checkpoints.checkpoint import checkpoint_name
from tenure.checkpoints.left_out import QUARANTINED, LeftOut, left_out_in
from tenure.checkpoints.store import CHECKPOINTS, newest_batches
from tenure.clock import timestamp
from tenure.coordination.candidates import PAUSED, Pause, pause_in
from tenure.coordination.election import seen_in
from tenure.coordination.election_rules import Office, decode_office, encode_office, told
from tenure.coordination.encoding import encode, new_uid
from tenure.coordination.failing import FAILING
from tenure.coordination.records import Absent, Delete, Exact, Guard, Key, Put, Record, Version, Write
from tenure.coordination.settle import commit_settled
from tenure.coordination.term import EPOCH, LEADER
from tenure.coordination.terms import QUARANTINE, End, TermRecord
from tenure.errors import GuardFailed, OutcomeUnknown, StorageError, UsageError
from tenure.inputs.planned_inputs import planned_inputs
from tenure.operate.scopes import known_records
from tenure.rundirs.run_directory import RunDirectory, has_commit
from tenure.scope_context import ScopeContext
from tenure.storage.reach import reach
from tenure.storage.storage import Storage

_MOST: Final = 200
"""How many files one record names: the records of a store are small."""

_SETTLE_S: Final = 10.0

_LED: Final = "wait until nobody leads (tenure list); or tenure pause, then tenure restart the leader"


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """The newest planned batch of a query, which is not done, and its planned files."""

    query: str
    batch: int
    files: tuple[str, ...]
    left_out: LeftOut | None
    """The files that an operator took out of this batch before; None: there are none."""


def open_batch(context: ScopeContext, query: str) -> OpenBatch:
    """The batch of a query that runs next. Nothing is written.

    Raises UsageError: there is no such query, its batch is done, or it reads no files; Corrupt, StorageError,
    StoreUnavailable.
    """
    records = known_records(context.store, context.scope)
    known = sorted(newest_batches(records))
    if query not in known:
        raise UsageError(f"query {query!r} has no checkpoint in scope {context.scope!r}", fix=f"known: {known}")
    batch, is_done = _batch_of(context, records, query)
    if is_done:
        raise UsageError(
            f"batch {batch.batch} of query {query!r} is done, and no later batch is planned",
            fix="a bad file that no batch has yet can simply be moved away",
        )
    if not batch.files:
        raise UsageError(
            f"batch {batch.batch} of query {query!r} has no files: its source is no folder of files",
            fix="let the query put bad records aside, deploy that, and tenure resume",
        )
    return batch


def _batch_of(context: ScopeContext, records: Sequence[Record], query: str) -> tuple[OpenBatch, bool]:
    """The newest planned batch of a query with a checkpoint, and whether it is done."""
    checkpoint = context.checkpoints(query).newest()
    assert checkpoint is not None
    directory = RunDirectory(f"{context.storage}/{checkpoint.run_directory}")
    known = left_out_in(records, query)
    known = known if known is not None and known.batch == checkpoint.batch else None
    if has_commit(directory.url, checkpoint.batch):
        return OpenBatch(query, checkpoint.batch, (), known), True
    files = planned_inputs(
        directory,
        checkpoint.batch,
        offsets=checkpoint.offsets,
        folders=checkpoint.folders,
        kinds=checkpoint.kinds,
        moves={},
    )
    return OpenBatch(query, checkpoint.batch, files, known), False


def chosen(batch: OpenBatch, wanted: Sequence[str]) -> tuple[str, ...]:
    """The planned files that an operator names, whole or by the end of their path. Raises UsageError."""
    found: list[str] = []
    for name in wanted:
        matching = [file for file in batch.files if file == name or file.endswith("/" + name.lstrip("/"))]
        if len(matching) != 1:
            what = "is no planned file" if not matching else f"is the name of {len(matching)} planned files"
            raise UsageError(
                f"{name!r} {what} of batch {batch.batch} of query {batch.query!r}",
                fix="give a name that the command prints without --apply",
            )
        found += matching
    if len(found) > _MOST:
        raise UsageError(f"{len(found)} files are named, and the most is {_MOST}", fix="name the bad files")
    return tuple(dict.fromkeys(found))


def quarantine(
    context: ScopeContext, batch: OpenBatch, files: Sequence[str], *, to: str, by: str
) -> tuple[Sequence[LeftOut], bool]:
    """Take the files out of the batch, and out of the planned batches of the other queries that read them. Return the
    records, and whether the pipeline goes on: False: an operator has paused it.

    Raises UsageError: a member leads, the scope has changed, or the folder cannot be used; StorageError: a file cannot
    be moved, and the scope stays paused; StoreUnavailable, OutcomeUnknown.
    """
    before = batch.left_out
    files = tuple(dict.fromkeys((*(before.files if before is not None else ()), *files)))
    _check_target(files, to, moved_before=() if before is None or before.to != to else before.files)
    records, pause = _commit(context, files, to=to, by=by)
    for file in files:
        _move(file, to)
    if pause.why:
        _go_on(context)
    return records, bool(pause.why)


def _commit(context: ScopeContext, files: tuple[str, ...], *, to: str, by: str) -> tuple[Sequence[LeftOut], Pause]:
    """The first step; return the records, and the pause that stands then."""
    store, scope, clock = context.store, context.scope, context.clock
    records = known_records(store, scope)
    by_key = {record.key: record for record in records}
    seen, now = seen_in(tuple(records)), timestamp(clock)
    if seen.leader is not None or seen.epoch is None:
        leader = None if seen.epoch is None else decode_office(seen.epoch).holder
        raise UsageError(f"scope {scope!r} is led by {leader}", fix=_LED)
    pause = pause_in(records)
    made = LeftOut("", -1, files, to, by, now, "" if pause is None else pause.why)
    left_out = _left_out(context, records, made)
    first = left_out[0]
    names = ", ".join(_name(file) for file in first.files)
    because = End(QUARANTINE, f"batch {first.batch} of {first.query} without {names}", by)
    office, uid = decode_office(seen.epoch), new_uid()
    ended = Office(office.epoch + 1, by, now, until=now, why=QUARANTINE, past=office.grants)
    term = TermRecord(ended.epoch, by, now).ended(because, at=now)
    writes: list[Write] = [Put(EPOCH, encode_office(ended, uid=uid), replaces=seen.epoch.version)]
    writes += told(term, office, seen, uid=uid)
    guards: list[Guard] = [Absent(LEADER)]
    for one in left_out:
        kept, checkpoint = QUARANTINED.child(one.query), _checkpoint_key(one)
        writes.append(Put(kept, one.encode(uid=new_uid()), replaces=_version(by_key, kept)))
        version = _version(by_key, checkpoint)
        guards.append(Absent(checkpoint) if version is None else Exact(checkpoint, version))
    if pause is None:
        pause = Pause(now, f"the quarantine of files of batch {first.batch} of {first.query} is not complete", by)
        writes.append(Put(PAUSED, encode({"at": now, "why": pause.why, "by": by, "uid": new_uid()}), replaces=None))
    end_s = clock.monotonic_s() + _SETTLE_S
    try:
        commit_settled(
            store, scope, guards=guards, writes=writes, go_on=lambda: clock.monotonic_s() < end_s, clock=clock
        )
    except GuardFailed as changed:
        if changed.earlier_request_may_apply:
            raise OutcomeUnknown(f"scope {scope!r} changed meanwhile, perhaps by this command", fix=_LED) from changed
        raise UsageError(f"scope {scope!r} changed meanwhile; nothing was written", fix=_LED) from changed
    return left_out, pause


def _left_out(context: ScopeContext, records: Sequence[Record], made: LeftOut) -> list[LeftOut]:
    """The records for all queries whose planned batch has some of the files of `made`."""
    found = []
    for query in sorted(newest_batches(records)):
        batch, _ = _batch_of(context, records, query)
        before = () if batch.left_out is None else batch.left_out.files
        mine = tuple(file for file in batch.files if file in made.files or file in before)
        if any(file in made.files for file in mine):
            found.append(replace(made, query=query, batch=batch.batch, files=mine))
    if not found:
        raise UsageError(f"scope {context.scope!r} changed meanwhile; nothing was written", fix=_LED)
    return found


def _checkpoint_key(one: LeftOut) -> Key:
    return CHECKPOINTS.child(one.query).child(checkpoint_name(one.batch))


def _go_on(context: ScopeContext) -> None:
    """The last step: end the pause that a failure, or the first step, has made."""
    store, scope = context.store, context.scope
    records = known_records(store, scope)
    pause = pause_in(records)
    end_s = context.clock.monotonic_s() + _SETTLE_S
    keys = {FAILING} if pause is None or not pause.why else {FAILING, PAUSED}
    writes = [Delete(record.key, record.version) for record in records if record.key in keys]
    try:
        commit_settled(
            store, scope, guards=(), writes=writes, go_on=lambda: context.clock.monotonic_s() < end_s,
            clock=context.clock,
        )  # fmt: skip
    except GuardFailed as changed:
        raise UsageError(
            f"the files are moved, and the pause of {scope!r} has changed", fix="tenure resume"
        ) from changed


def _check_target(files: Sequence[str], to: str, *, moved_before: Collection[str]) -> None:
    """Refuse a folder in which the source would find the files again, and names that are there."""
    names = [_name(file) for file in files]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise UsageError(f"two of the files are named {double!r}", fix="quarantine one after the other, to two folders")
    target = reach(to, what="folder of the quarantine")
    there = {entry.name for entry in target.entries()}
    for file in files:
        folder = _folder(file)
        if _name(file) in there and file not in moved_before:
            raise UsageError(f"{target.where(_name(file))} exists already", fix="give another --to")
        if f"{target.url}/".startswith(f"{folder.url}/"):
            raise UsageError(
                f"--to {to!r} lies in the folder of the input, where the source would find the files again",
                fix="give a folder beside it",
            )


def _move(file: str, to: str) -> None:
    """Copy the file, then remove it. A file that was moved before stays where it is."""
    source, target, name = _folder(file), reach(to, what="folder of the quarantine"), _name(file)
    try:
        source.open(name).close()
    except FileNotFoundError:
        return  # moved by an earlier attempt, or gone: the batch does without it
    except source.errors as error:
        raise StorageError(f"cannot read {source.where(name)}: {error}", fix="give the same command again") from error
    target.delete(name)  # the copy of an earlier attempt, perhaps half of it
    target.take(source, name)
    target.sync()
    source.delete(name)


def _folder(file: str) -> Storage:
    return reach(file.rpartition("/")[0], what="folder of the input")


def _name(file: str) -> str:
    return file.rpartition("/")[2]


def _version(by_key: dict[Key, Record], key: Key) -> Version | None:
    record = by_key.get(key)
    return None if record is None else record.version
