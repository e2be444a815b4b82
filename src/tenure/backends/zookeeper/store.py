"""The store on a ZooKeeper ensemble: a scope is a node, a record a node directly below it, a commit one multi.

Promise: the contract of `coordination.store`, as weakened by `GUARANTEES`. Every commit writes the scope's node, so its
transaction id is the scope's revision. A session marks each scope in which it binds records, so that its end changes
the scope. A session-bound record is an ephemeral node of that session of ZooKeeper; only the client that opened a
session can bind records to it. Foreign nodes below the chroot are not touched.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from tenure.backends.shared.following import FollowedChanges
from tenure.backends.zookeeper.connection import Connection, Ensemble, barrier
from tenure.backends.zookeeper.errors import NOT_ANSWERED, first_failure, unavailable, unknown
from tenure.backends.zookeeper.examination import ZooKeeperExamination
from tenure.backends.zookeeper.follower import ZooKeeperFollowing, read_scope
from tenure.backends.zookeeper.multi import (
    MARKERS,
    Check,
    Create,
    Multi,
    NodeState,
    Operation,
    SetData,
    first_failing,
    marker_of,
    multi_of,
)
from tenure.backends.zookeeper.reading import ask, nodes_at, path_of, read_revision, record_of
from tenure.backends.zookeeper.session import ZooKeeperSession, close_by_testament
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Commit, Guard, Key, Listing, Put, Record, Revision, Scope, SessionId, Write
from tenure.coordination.store import Guarantees, check_commit
from tenure.errors import CommitRefused, GuardFailed, SessionEnded, StoreError, StoreUnavailable, UsageError

GUARANTEES: Final = Guarantees(
    name="zookeeper",
    max_record_bytes=1_000_000,
    max_writes=1000,
    survives_restart=True,
    list_is_one_instant=False,
    scopes_have_records=False,
    versions_survive_deletion=False,
    revision_is_the_scopes_own=False,
    one_session_a_commit=True,
)
_REFUSED: Final = (NoNodeError, NodeExistsError, BadVersionError)
"""A guard does not hold, or a node of the scope itself is missing."""

MAX_REQUEST_BYTES: Final = 1_040_000
"""ZooKeeper's own limit (`jute.maxbuffer`) is 1,048,575; ZooKeeper answers a larger request by breaking the line."""

_ATTEMPTS = 30
"""How often a commit is sent again while other commits change its nodes."""

_OWN_TTL: Final = timedelta(seconds=10)
"""Of the session of requests; no record is bound to it."""

IDLE_S: Final = 60.0
"""After this time without a request a client that has a session closes its connection of requests."""


class ZooKeeperStore:
    """A client of an ensemble. The chroot must exist; the first commit to a scope makes its nodes."""

    guarantees = GUARANTEES

    def __init__(self, ensemble: Ensemble, *, clock: Clock | None = None) -> None:
        self._ensemble = ensemble
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()  # guards the five below
        self._connection: Connection | None = None  # of requests; None: not open
        self._used_s = float("-inf")
        self._down_s: float | None = None  # since when no line of requests was seen; None: there is one
        self._sessions: dict[SessionId, ZooKeeperSession] = {}
        self._closed = False
        self._following = ZooKeeperFollowing(self, clock=self._clock)

    # --- reading ------------------------------------------------------------------------------------------------

    def read(self, scope: Scope, key: Key) -> Record | None:
        _, found = self._look(lambda client: [barrier(client), client.get_async(path_of(scope, key))], "read a record")
        return None if isinstance(found, NoNodeError) else record_of(key, found)

    def list(self, scope: Scope, prefix: str = "") -> Listing:
        records, revision = read_scope(self.of_requests(), scope, prefix)
        found = Listing(tuple(sorted(records, key=lambda record: record.key)), Revision(revision))
        self._following.seen(scope, found.revision)
        return found

    def glance(self, scope: Scope, prefix: str = "") -> Listing:
        return self._following.scope(scope).glance(prefix)

    def scopes(self) -> Sequence[Scope]:
        """The nodes below the chroot with the node of markers, which the first commit to a scope makes."""
        _, names = self._look(lambda client: [barrier(client), client.get_children_async("/")], "list scopes")
        asked = sorted(scope for name in names if (scope := Scope.found(name)) is not None)
        there = self._look(lambda client: [client.exists_async(f"/{one}/{MARKERS}") for one in asked], "list scopes")
        return [scope for scope, stat in zip(asked, there, strict=True) if stat is not None]

    def watch(self, scope: Scope, *, after: Revision) -> FollowedChanges:
        self.standing()
        return FollowedChanges(self._following.scope(scope), after=after, clock=self._clock)

    def examination(self) -> ZooKeeperExamination:
        """See `Examinable`."""
        return ZooKeeperExamination(self._ensemble, self.of_requests)

    # --- connections --------------------------------------------------------------------------------------------

    def standing(self) -> Connection:
        """See `Lines`."""
        with self._lock:
            for session in self._sessions.values():
                if not session.connection.over:
                    return session.connection
        return self.of_requests()

    def of_requests(self) -> Connection:
        """See `Lines`; a new connection, if the session of the last is over, or would be without a line for so long: a
        server that was restored from a backup lets no client in that has seen later changes."""
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed")
            now_s = self._used_s = self._clock.monotonic_s()
            if self._connection is None or self._connection.stands:
                self._down_s = None
            elif self._down_s is None:
                self._down_s = now_s
            elif now_s - self._down_s >= _OWN_TTL.total_seconds():
                self._connection.abandon()
            if self._connection is None or self._connection.over:
                connection = Connection(self._ensemble, ttl=_OWN_TTL, pings=True, heard=self._following.heard)
                connection.open()
                try:
                    (root,) = ask(connection, lambda client: [client.exists_async("/")], "look for the chroot")
                except StoreError:
                    connection.abandon()
                    raise
                if self._ensemble.chroot and root is None:
                    connection.close()
                    raise StoreUnavailable(
                        f"chroot {self._ensemble.chroot} of ZooKeeper at {self._ensemble.hosts} does not exist",
                        fix=f"check the hosts and the path; for a new store: zkCli.sh create {self._ensemble.chroot}",
                    )
                self._connection, self._down_s = connection, None
            return self._connection

    def _rest(self) -> None:
        """A session was renewed: its line stands. The connection of requests has a thread and pings, also while nobody
        asks for anything. No renewal waits here."""
        if not self._lock.acquire(blocking=False):  # it is being opened, or used
            return
        try:
            connection = self._connection
            if connection is None or self._clock.monotonic_s() - self._used_s < IDLE_S:
                return
            self._connection = None
        finally:
            self._lock.release()
        threading.Thread(target=connection.close, name="tenure-zookeeper-rest", daemon=True).start()

    # --- writing ------------------------------------------------------------------------------------------------

    def commit(self, scope: Scope, *, guards: Sequence[Guard], writes: Sequence[Write]) -> Commit:
        check_commit(GUARANTEES, guards, writes)
        bound = next((write.session for write in writes if isinstance(write, Put) and write.session is not None), None)
        session = None if bound is None else self._session(bound)
        connection = self.of_requests() if session is None else session.connection
        multi = multi_of(guards, writes)
        try:
            for _ in range(_ATTEMPTS):
                try:
                    answer = self._send(connection, scope, multi, session=session, changes=bool(writes))
                except NOT_ANSWERED as error:
                    raise unknown(error, f"commit to scope {scope!r}") from error
                if not isinstance(answer, BaseException):
                    if session is not None:
                        session.marked.add(scope)
                    zxid = int(answer[-1].mzxid) if writes else read_revision(connection, scope)
                    versions = {
                        key: NodeState(zxid, count, owner).version() for key, (count, owner) in multi.puts.items()
                    }
                    self._following.seen(scope, Revision(zxid))
                    return Commit(versions, Revision(zxid))
                if not isinstance(answer, _REFUSED):
                    raise unavailable(answer, f"commit to scope {scope!r}")
                failing = self._failing(connection, scope, guards, writes, session=session)
                if failing is not None:
                    raise GuardFailed(failing, scope=scope)
        except StoreUnavailable as error:
            if session is not None and connection.over:
                raise SessionEnded(session.id) from error
            raise
        raise StoreUnavailable(f"scope {scope!r} changes faster than a commit to it can be made")

    def open_session(self, *, ttl: timedelta, purpose: str = "") -> ZooKeeperSession:
        self.of_requests()
        connection = Connection(self._ensemble, ttl=ttl, pings=False, heard=self._following.heard)
        connection.open()
        if connection.ttl != ttl:
            connection.close()
            raise UsageError(
                f"a ttl of {ttl.total_seconds():g} s is not what the ensemble permits: it makes it "
                f"{connection.ttl.total_seconds():g} s",
                fix="choose that one, or set the servers' tickTime and session timeouts",
            )
        session = ZooKeeperSession(
            self, connection, ttl, following=self._following, renewed=self._rest, forget=self._forget
        )
        with self._lock:
            self._sessions[session.id] = session
        return session

    def end_session(self, testament: str) -> None:
        close_by_testament(self._ensemble, testament)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            sessions, self._sessions = list(self._sessions.values()), {}
            connection, self._connection = self._connection, None
        self._following.close()
        for session in sessions:
            session.connection.abandon()
        if connection is not None:
            connection.close()

    # --- inside -------------------------------------------------------------------------------------------------

    def _send(
        self, connection: Connection, scope: Scope, multi: Multi, *, session: ZooKeeperSession | None, changes: bool
    ) -> Sequence[Any] | BaseException:
        """Send the multi; return its results, the scope's node last if `changes`, or the error of an operation."""
        operations: list[Operation] = list(multi.operations)
        if session is not None:
            marker = marker_of(session.id)
            operations.append(Check(marker, 0) if scope in session.marked else Create(marker, b"", ephemeral=True))
        if not operations and not changes:
            return ()
        size = sum(len(one.path) + len(getattr(one, "data", b"")) + 80 + len(scope) for one in operations)
        if size > MAX_REQUEST_BYTES:
            raise CommitRefused(
                f"commit of {size} bytes is over the {MAX_REQUEST_BYTES} of store 'zookeeper'", fix="split it"
            )

        def request(client: KazooClient) -> Sequence[Any]:
            multi = client.transaction()
            for one in operations:
                _add(multi, f"/{scope}/{one.path}", one)
            if changes:
                multi.set_data(f"/{scope}", b"")
            return [multi.commit_async()]

        (answer,) = connection.ask(request)
        if isinstance(answer, BaseException):
            return answer
        failed = first_failure(answer)
        return list(answer) if failed is None else failed[1]

    def _failing(
        self,
        connection: Connection,
        scope: Scope,
        guards: Sequence[Guard],
        writes: Sequence[Write],
        *,
        session: ZooKeeperSession | None,
    ) -> Guard | None:
        """The guard for which a commit was refused: the answers on one connection are in order. None: none fails now,
        so the scope's nodes were missing, or the records have changed since."""
        self._make_scope(connection, scope)
        paths = {path_of(scope, one.key): one.key for one in (*guards, *writes)}
        markers = [] if session is None else [f"/{scope}/{marker_of(session.id)}"]
        there = nodes_at(connection, [*markers, *paths])
        if session is not None:
            (session.marked.discard if there.pop(markers[0]) is None else session.marked.add)(scope)
        found = {key: record_of(key, there[path]) for path, key in paths.items()}
        versions = {key: None if record is None else record.version for key, record in found.items()}
        failing = first_failing(guards, writes, versions)
        foreign = next((path for path, key in paths.items() if there[path] is not None and found[key] is None), None)
        if failing is None and foreign is not None:
            raise StoreUnavailable(
                f"node {self._ensemble.chroot}{foreign} of ZooKeeper has no data, so it is no record",
                fix="another program has made it: zkCli.sh delete removes it",
            )
        return failing

    def _make_scope(self, connection: Connection, scope: Scope) -> None:
        """Make the scope's own nodes, which are no records, if they are missing."""

        def request(client: KazooClient) -> Sequence[Any]:
            multi = client.transaction()
            multi.create(f"/{scope}", b"")
            multi.create(f"/{scope}/{MARKERS}", b"")
            return [multi.commit_async()]

        (there,) = ask(connection, lambda client: [client.exists_async(f"/{scope}/{MARKERS}")], "read a scope")
        if there is not None:
            return
        (results,) = ask(connection, request, f"make scope {scope!r}")
        failed = first_failure(results)
        if failed is not None and not isinstance(failed[1], NodeExistsError):
            raise unavailable(failed[1], f"make scope {scope!r}")

    def _look(self, request: Callable[[KazooClient], Sequence[Any]], what: str) -> Sequence[Any]:
        return ask(self.of_requests(), request, what)

    def _session(self, session: SessionId) -> ZooKeeperSession:
        with self._lock:
            found = self._sessions.get(session)
        if found is None or found.connection.over:
            raise SessionEnded(session, why="it expired or was closed, or another client opened it")
        return found

    def _forget(self, session: SessionId) -> None:
        with self._lock:
            self._sessions.pop(session, None)


def _add(multi: Any, path: str, operation: Operation) -> None:
    if isinstance(operation, Check):
        multi.check(path, operation.changes)
    elif isinstance(operation, Create):
        multi.create(path, operation.data, ephemeral=operation.ephemeral)
    elif isinstance(operation, SetData):
        multi.set_data(path, operation.data, operation.changes)
    else:
        multi.delete(path, operation.changes)
