"""The store on a cluster of etcd: a scope is a prefix, a record a key, a commit one transaction.

Promise: the contract of `coordination.store`. A version is the revision in which the key was last changed. etcd counts
revisions over all keys and never gives a revision twice, so the version of a deleted record names nothing any more.

The answer "database space exceeded" does not say what became of a commit. etcd asks for the size of its database when a
transaction arrives, and again when it applies the transaction. It applies a transaction that is over the quota only
then, and answers that it has no space. So this answer proves nothing. But the request is not on its way any more: it
was applied before the answer, or never will be, and one read shows which. A commit counts as applied when a record that
it writes has its very content, as every value is unique (`coordination.settle`). It counts as not applied while such a
record is as it was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final

import grpc

from tenure.backends.etcd.errors import LEASE_GONE, is_full, outcome, unavailable, words_of
from tenure.backends.etcd.examination import EtcdExamination
from tenure.backends.etcd.follower import EtcdFollowing
from tenure.backends.etcd.fullness import CURE
from tenure.backends.etcd.history import History
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Cluster, Rpc, end_of
from tenure.backends.etcd.session import EtcdSession, revoke, session_name
from tenure.backends.shared.following import FollowedChanges
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import (
    Commit,
    Exact,
    Guard,
    Key,
    Listing,
    Put,
    Record,
    Revision,
    Scope,
    SessionId,
    Version,
    Write,
    implied_guard,
    wanted_version,
)
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import CommitRefused, GuardFailed, OutcomeUnknown, SessionEnded, StoreUnavailable, UsageError


class Fate(Enum):
    """What became of a commit."""

    APPLIED = auto()
    NOT_APPLIED = auto()
    UNKNOWN = auto()


def telling(writes: Sequence[Write]) -> Write | None:
    """The write whose record shows the fate of all; None: nothing is written. A permanent record with content shows it
    best: a bound record goes with its session, and nobody signs a removal."""
    puts = [write for write in writes if isinstance(write, Put)]
    return next(iter((*(put for put in puts if put.session is None), *puts, *writes)), None)


def fate_of(write: Write, now: Record | None) -> Fate:
    """The fate of a commit with `write`, by the record at its key after the answer."""
    if isinstance(write, Put) and now is not None and now.value == write.value and now.version != write.replaces:
        return Fate.APPLIED
    before = None if now is None else now.version
    return Fate.NOT_APPLIED if before == write.replaces else Fate.UNKNOWN


GUARANTEES: Final = Guarantees(
    name="etcd",
    max_record_bytes=1_000_000,
    max_writes=128,
    survives_restart=True,
    revision_is_the_scopes_own=False,
)
MAX_REQUEST_BYTES: Final = 1_500_000
"""etcd's own limit (`--max-request-bytes`) is 1.5 MiB."""


class EtcdStore:
    """A client of a cluster."""

    guarantees = GUARANTEES

    def __init__(self, cluster: Cluster, *, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock: Clock = clock or SystemClock()
        self._rpc = Rpc(cluster)
        self._following = EtcdFollowing(self._rpc, lambda scope: self._path(scope, ""), self._record, clock=self._clock)
        self._history = History(cluster, self._rpc, clock=self._clock)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        path = self._path(scope, key)
        kvs = self._range(pb.RangeRequest(key=path)).kvs
        return self._record(scope, kvs[0]) if kvs else None

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        start = self._path(scope, f"{prefix}/" if prefix else "")
        found = self._range(pb.RangeRequest(key=start, range_end=end_of(start)))
        self._following.listed(scope, prefix, found)
        records = [record for kv in found.kvs if (record := self._record(scope, kv)) is not None]
        return Listing(tuple(sorted(records, key=lambda record: record.key)), Revision(found.header.revision))

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._following.scope(scope).glance(prefix)

    def scopes(self) -> Sequence[Scope]:
        """One small request for each scope: the first key of a scope, and then the first key after the scope."""
        prefix = f"{self._cluster.prefix}/".encode()
        found: list[Scope] = []
        start, end = prefix, end_of(prefix)
        while start < end:
            kvs = self._range(pb.RangeRequest(key=start, range_end=end, limit=1, keys_only=True)).kvs
            if not kvs:
                break
            name, slash, path = bytes(kvs[0].key)[len(prefix) :].partition(b"/")
            scope = Scope.found(name)
            if scope is None or Key.found(path) is None:
                start = bytes(kvs[0].key) + b"\0"  # another program's key
            else:
                found.append(scope)
                start = end_of(prefix + name + slash)
        return sorted(found)

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        followed = self._following.scope(scope)
        followed.begin_after(after)
        return FollowedChanges(followed, after=after, clock=self._clock)

    def examination(self) -> EtcdExamination:
        """See `Examinable`."""
        return EtcdExamination(self._cluster, self._rpc, self._history)

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        judged = [*guards, *map(implied_guard, writes)]
        request = pb.TxnRequest(
            compare=[self._compare(scope, guard) for guard in judged],
            success=[self._operation(scope, write) for write in writes],
            failure=[self._look(scope, guard) for guard in judged],
        )
        if request.ByteSize() > MAX_REQUEST_BYTES:
            raise CommitRefused(
                f"commit of {request.ByteSize()} bytes is over the {MAX_REQUEST_BYTES} of store 'etcd'", fix="split it"
            )
        endpoint = self._rpc.endpoint()
        try:
            answer = self._rpc.send(endpoint, lambda at: at.kv.Txn, request)
        except grpc.RpcError as error:
            if LEASE_GONE in words_of(error):
                raise SessionEnded(self._ended(writes)) from error
            if is_full(error):
                return self._after_no_space(scope, writes, error)
            raise outcome(error, f"commit to scope {scope!r}") from error
        if not answer.succeeded:
            raise GuardFailed(_first_failing(judged, answer.responses), scope=scope)
        if guards and any(isinstance(write, Put) and write.session is not None for write in writes):
            self._history.takes_office()
        revision = int(answer.header.revision)
        self._following.seen(scope, Revision(revision))
        versions = {write.key: Version(str(revision)) for write in writes if isinstance(write, Put)}
        return Commit(versions, Revision(revision))

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> EtcdSession:
        seconds = ttl // timedelta(seconds=1)
        if timedelta(seconds=seconds) != ttl or seconds < 1:
            raise UsageError(f"a ttl of {ttl.total_seconds():g} s is not one of etcd's", fix="give it in whole seconds")
        endpoint = self._rpc.endpoint()
        self._history.begin(endpoint)
        try:
            granted = self._rpc.send(endpoint, lambda at: at.lease.LeaseGrant, pb.LeaseGrantRequest(TTL=seconds))
        except grpc.RpcError as error:
            raise outcome(error, "open a session") from error
        session = EtcdSession(
            self, self._rpc, int(granted.ID), ttl, term=self._following.term, renewed=self._history.renewed
        )
        if seconds != granted.TTL:
            session.close()
            raise UsageError(
                f"a ttl of {seconds} s is shorter than etcd permits: it makes it {granted.TTL} s",
                fix="choose that one, or set etcd's --election-timeout",
            )
        return session

    def end_session(self, testament: str) -> None:
        revoke(self._rpc, int(testament, 16))

    def close(self) -> None:
        self._following.close()
        self._rpc.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _after_no_space(self, scope: Scope, writes: Sequence[Write], error: grpc.RpcError) -> Commit:
        """The commit, if etcd has applied it in spite of its answer. Raises StoreUnavailable: it has not;
        OutcomeUnknown."""
        what = f"commit to scope {scope!r}"
        write = telling(writes)
        if write is None:
            raise unavailable(error, what) from error
        try:
            now = self.read(scope, write.key)
        except StoreUnavailable as away:
            raise OutcomeUnknown(f"etcd is full, and did not say whether it did {what}: {away.what}") from error
        match fate_of(write, now):
            case Fate.APPLIED:
                assert now is not None
                versions = {write.key: now.version for write in writes if isinstance(write, Put)}
                return Commit(versions, Revision(int(now.version)))  # all records of a transaction have its revision
            case Fate.NOT_APPLIED:
                raise unavailable(error, what) from error
            case Fate.UNKNOWN:
                raise OutcomeUnknown(f"etcd is full, and did not say whether it did {what}", fix=CURE) from error

    def _path(self, scope: Scope, key: str) -> bytes:
        return f"{self._cluster.prefix}/{scope}/{key}".encode()

    def _below(self, scope: Scope, found: Any) -> bytes:
        return bytes(found.key[len(self._path(scope, "")) :])

    def _record(self, scope: Scope, found: Any) -> Record | None:
        """The record; None: another program's key."""
        key = Key.found(self._below(scope, found))
        if key is None:
            return None
        session = session_name(found.lease) if found.lease else None
        return Record(key, bytes(found.value), Version(str(found.mod_revision)), session)

    def _range(self, request: Any) -> Any:
        return self._rpc.read(lambda at: at.kv.Range, request, "read records")

    def _compare(self, scope: Scope, guard: Guard) -> Any:
        if isinstance(guard, Exact):
            path, version = self._path(scope, guard.key), int(guard.version)
            return pb.Compare(key=path, result=pb.Compare.EQUAL, target=pb.Compare.MOD, mod_revision=version)
        path = self._path(scope, guard.key)  # no key was created in revision 0
        return pb.Compare(key=path, result=pb.Compare.EQUAL, target=pb.Compare.CREATE, create_revision=0)

    def _look(self, scope: Scope, guard: Guard) -> Any:
        """The read that shows whether the guard holds, in the instant in which the transaction was refused."""
        return pb.RequestOp(request_range=pb.RangeRequest(key=self._path(scope, guard.key), keys_only=True))

    def _operation(self, scope: Scope, write: Write) -> Any:
        path = self._path(scope, write.key)
        if isinstance(write, Put):
            lease = 0 if write.session is None else int(write.session, 16)
            return pb.RequestOp(request_put=pb.PutRequest(key=path, value=write.value, lease=lease))
        return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=path))

    def _ended(self, writes: Sequence[Write]) -> SessionId:
        """The first ended session of these writes, of which etcd has refused one."""
        bound = [write.session for write in writes if isinstance(write, Put) and write.session is not None]
        return next((session for session in bound if self._has_ended(session)), bound[0])

    def _has_ended(self, session: SessionId) -> bool:
        """Whether etcd answers that the session has ended."""
        request = pb.LeaseTimeToLiveRequest(ID=int(session, 16))
        try:
            return bool(self._rpc.read(lambda at: at.lease.LeaseTimeToLive, request, "ask for a session").TTL <= 0)
        except StoreUnavailable:
            return False  # no answer


def _first_failing(judged: Sequence[Guard], responses: Sequence[Any]) -> Guard:
    """The first guard that did not hold when the transaction was refused."""
    for guard, response in zip(judged, responses, strict=True):
        found = response.response_range.kvs
        version = str(found[0].mod_revision) if found else None
        if version != wanted_version(guard):
            return guard
    raise AssertionError("etcd refused a transaction all of whose comparisons hold")
