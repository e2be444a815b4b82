"""Compares a store with a storage, and marks the storage as that of a term's store.

Promise (I10): `check` only reads. `own` marks the storage if nothing speaks against that, and returns when the mark of
the term's epoch is durable and no other store has marked the storage. Of two terms that mark a storage at once, at
least the later is refused, and removes its mark, under which nothing was planned. Both raise OwnerMismatch. Not
promised: that a storage which another store marks later is noticed before the next check.

`newest_done` has the newest batch of each query that Spark has noted as done in the given run directories, as it was at
some moment of the call. Links are followed. A server that hangs does not keep the process from ending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tenure.checkpoints.run_name import RunName, newest_logged, run_queries, runs_of
from tenure.checkpoints.store import newest_in
from tenure.clock import Clock
from tenure.coordination.election import holds_office
from tenure.coordination.election_rules import Grant, Office, office_in
from tenure.coordination.encoding import decode, new_uid
from tenure.coordination.identity import IDENTITY, Birth, birth_in, put_identity
from tenure.coordination.reading import read_under
from tenure.coordination.records import Record, Scope
from tenure.coordination.store import CoordinationStore
from tenure.coordination.term import Term, commit_under
from tenure.errors import CorruptRecord, OwnerMismatch, StorageError, TermLost
from tenure.ownership.marks import Marks
from tenure.ownership.rules import (
    Done,
    InStorage,
    InStore,
    Mark,
    Newest,
    Refusal,
    changed_since,
    claimed_by_another,
    grant_name,
    marked_by_another,
    not_needed,
    refusal,
)
from tenure.results.result import Stage
from tenure.results.store import result_in


class Owner:
    """The owner of a scope's part of the storage. Thread-safe. No I/O in the constructor."""

    def __init__(self, store: CoordinationStore, scope: Scope, *, storage: str, clock: Clock) -> None:
        """`storage`: URL of the scope's part of the storage."""
        self._store = store
        self._scope = scope
        self._storage = storage
        self._clock = clock
        self._marks = Marks(storage)

    def check(self) -> Mark | None:
        """Check that the storage is that of the store; return its newest mark; None: it has none.

        Raises OwnerMismatch, StoreUnavailable, StorageError, Corrupt.
        """
        found, _ = self._compare(None)
        return found.newest

    def check_marks(self) -> None:
        """Check that no other owner has marked the storage, by its marks alone. Raises OwnerMismatch,
        StoreUnavailable, StorageError, Corrupt."""
        found = self._marks.look()
        self._refuse(marked_by_another(found, in_store(self._read(None))))

    def own(self, term: Term) -> None:
        """Check, and put the mark of the term's epoch, before anything is read or planned under the term.

        Raises OwnerMismatch, TermLost, StoreUnavailable, StorageError, Corrupt.
        """
        found, records = self._compare(term)
        mark, office = self._granted(term, records)
        store = in_store(records)
        if mark not in found.marks:
            self._put(mark, office, found, store)
            try:
                found = self._look_again(term)
            except (OwnerMismatch, TermLost):
                self._withdraw(mark, found)
                raise
        with suppress(StorageError):  # the next grant tries it again
            for one in not_needed(found, store):
                self._marks.drop(one)

    def replace(self, term: Term) -> None:
        """Put the mark of the term's epoch in the place of all marks: the store of their owner was lost. A leader of
        that owner is refused by its next check. Raises TermLost, StoreUnavailable, StorageError, Corrupt."""
        mark, office = self._granted(term, self._read(term))
        self._marks.put(mark, holder=office.holder, since=office.since)
        for other in self._marks.look().marks:
            if other.identity != mark.identity:
                self._marks.drop(other)
        self._marks.disclaim()
        self._marks.claim(mark.identity)

    def _granted(self, term: Term, records: Sequence[Record]) -> tuple[Mark, Office]:
        """The mark of the term's epoch. Raises TermLost."""
        office, store = office_in(records), in_store(records)
        if office is None or store.identity is None or not holds_office(term, records):
            raise TermLost(scope=self._scope, epoch=term.epoch)
        return Mark(term.epoch, store.identity, store.grants[term.epoch]), office

    def _put(self, mark: Mark, office: Office, found: InStorage, store: InStore) -> None:
        if not found.marks:
            self._refuse(claimed_by_another(InStorage(self._marks.claim(mark.identity)), store))
        self._marks.put(mark, holder=office.holder, since=office.since)

    def _look_again(self, term: Term) -> InStorage:
        """A store that marked the storage at the same time has its mark there by now, or sees the mark of this term."""
        found = self._marks.look()
        records = self._read(term)
        if not holds_office(term, records):
            raise TermLost(scope=self._scope, epoch=term.epoch)
        self._refuse(marked_by_another(found, in_store(records)))
        return found

    def _withdraw(self, mark: Mark, found: InStorage) -> None:
        """Remove the marks of this term, which would be in the way of the owner. `found`: the marks before."""
        with suppress(StorageError):  # the mark stays, and a later check refuses it
            self._marks.drop(mark)
            if not found.marks:
                self._marks.disclaim()

    def _compare(self, term: Term | None) -> tuple[InStorage, Sequence[Record]]:
        before = in_store(self._read(term))

        def since(query: str) -> int:
            """Later batches were planned and run in this epoch or a later epoch, in its run directories."""
            newest = before.newest.get(query)
            return max(before.begins, 0 if newest is None or newest.epoch is None else newest.epoch)

        earlier = self._marks.look().identities  # read first: a cleanup removes run directories before marks
        done = newest_done(self._storage, since=since)
        found = replace(self._marks.look(), done=done, earlier=earlier)
        records = self._read(term)
        after = in_store(records)
        if before.identity in after.former:
            return self._compare(term)  # the life that `before` shows was forgotten meanwhile
        self._refuse(refusal(before, found, after))
        return found, records

    def _read(self, term: Term | None) -> Sequence[Record]:
        return read_under(term, lambda: self._store.list(self._scope, ""), clock=self._clock).records

    def _refuse(self, found: Refusal | None) -> None:
        if found is not None:
            raise OwnerMismatch(
                f"storage {self._storage} is not that of scope {self._scope!r} in this store: {found.found}",
                fix=found.fix,
            )


def check_noted(storage: str, noted: str) -> None:
    """Check that a scope's part of a storage has gone on since `noted` was its newest mark.

    Raises OwnerMismatch, StorageError.
    """
    mark = Mark.parse(noted)
    found = None if mark is None else changed_since(mark, Marks(storage).look())
    if found is not None:
        raise OwnerMismatch(f"storage {storage} is not the one that the plan was made of: {found.found}", fix=found.fix)


def renew_identity(store: CoordinationStore, term: Term, *, clock: Clock) -> None:
    """Begin the next life of a scope that has no checkpoint, with the epoch after this term's: no mark and no run
    directory of an earlier epoch belongs to it. Raises TermLost, GuardFailed, StoreUnavailable, CorruptRecord."""
    record = read_under(term, lambda: store.read(term.scope, IDENTITY), clock=clock)
    name, epoch = new_uid(), term.epoch + 1
    birth = None if record is None else birth_in([record])
    put = put_identity(
        Birth(name, epoch) if birth is None else birth.next(name, epoch=epoch),
        replaces=None if record is None else record.version,
    )
    commit_under(store, term, writes=(put,), clock=clock)


def in_store(records: Sequence[Record]) -> InStore:
    """The life of a scope, as its records show. Raises Corrupt."""
    office, birth, result = office_in(records), birth_in(records), result_in(records)
    return InStore(
        identity=None if birth is None else birth.identity,
        epoch=0 if office is None else office.epoch,
        grants={} if office is None else {one.epoch: _name(one) for one in office.grants},
        newest={name: Newest(int(one.key.name), _epoch_of(one)) for name, one in newest_in(records).items()},
        ended=result is not None,
        clean=result is not None and result.stage is Stage.CLEAN,
        begins=0 if birth is None else birth.epoch,
        former=() if birth is None else birth.former,
    )


def _name(grant: Grant) -> str:
    return grant_name(grant.epoch, holder=grant.holder, since=grant.since)


def _epoch_of(record: Record) -> int | None:
    """The term that wrote a handle; None: the handle does not decode, which a takeover reports."""
    try:
        return int(decode(record, fields={"epoch": int})["epoch"])
    except CorruptRecord:
        return None


_AT_ONCE: Final = 8
"""Listings at a time, where a server answers them."""


def newest_done(storage: str, *, since: Callable[[str], int]) -> Mapping[str, Done]:
    """By query. `since`: run directories of epochs before are skipped. Raises StorageError."""
    by_query = {query: runs_of(storage, query) for query in run_queries(storage)}
    runs = [run for query, all_runs in by_query.items() for run in all_runs if run.epoch >= since(query)]
    shares = [share for first in range(_AT_ONCE) if (share := runs[first::_AT_ONCE])]
    found: dict[str, Done] = {}
    for listing in [_begin(storage, share) for share in shares]:
        for query, done in listing.result():
            if query not in found or done.batch > found[query].batch:
                found[query] = done
    return found


def _begin(storage: str, runs: Sequence[RunName]) -> Future[list[tuple[str, Done]]]:
    """`_all_done` in a daemon thread. An executor's threads would keep the process until they end."""
    answer: Future[list[tuple[str, Done]]] = Future()

    def do() -> None:
        try:
            answer.set_result(_all_done(storage, runs))
        except Exception as error:  # noqa: BLE001 - `newest_done` raises it
            answer.set_exception(error)

    threading.Thread(target=do, name="tenure-listing", daemon=True).start()
    return answer


def _all_done(storage: str, runs: Sequence[RunName]) -> list[tuple[str, Done]]:
    found = []
    for run in runs:
        newest = newest_logged(f"{storage}/{run}", "commits")
        if newest is not None:
            found.append((run.query, Done(newest, f"{run}/commits/{newest}")))
    return found
