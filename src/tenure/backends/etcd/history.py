"""The history of etcd: who says that nobody compacts it, and who compacts it.

Promise: the first session of a process logs each fault of its server in one line, and so does, every hour, a
client that leads; a process logs no line twice. Where the store's URL asks for it, one of the leaders below the prefix
compacts: history that is older than the time in the URL goes, and at most as much again stays. A client that etcd does
not permit to compact logs that once, and does not try again. Nothing here fails a session or a commit.

Two records beside the scopes tell how old a revision is, by etcd's own clock: `~history/mark` stays, `~history/recent`
has a lease of that time, and one transaction writes both. Once the second is gone, the revision of the first is that
old. The next mark replaces exactly this mark, so one client writes it, and that client compacts.

A version of etcd that does not parse has no known fault: other programs speak etcd's protocol, too.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import grpc

from tenure.backends.etcd import fullness
from tenure.backends.etcd.errors import REFUSED, code_of, is_compacted, unavailable, words_of
from tenure.backends.etcd.fullness import Finding, Kept, finding_about
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Cluster, Endpoint, Rpc, end_of
from tenure.clock import Clock
from tenure.errors import AccessDenied, StoreUnavailable

_PARTS: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)")

_REVOKES: Final = "a server that led and was stopped may end living sessions when it wakes (etcd#15247)"
_DIFFERS: Final = "its servers may differ in their data after a crash (etcd#13766)"

_FAULTS: Final = (
    ((0, 0, 0), (3, 4, 31), _REVOKES, "3.4.31"),
    ((3, 5, 0), (3, 5, 3), _DIFFERS, "3.5.13"),
    ((3, 5, 3), (3, 5, 13), _REVOKES, "3.5.13"),
)
"""From this version, before that version: the fault, and the version without it."""


def fault_of(version: str) -> str | None:
    """The fault of a version and the fix, in one line; None: no fault is known."""
    parts = _PARTS.match(version)
    if parts is None:
        return None
    number = tuple(map(int, parts.groups()))
    for first, fixed, fault, better in _FAULTS:
        if first <= number < fixed:
            return f"etcd {version} has a known fault: {fault}; use {better} or newer"
    return None


LOG: Final = logging.getLogger("tenure")
"""For people: a program that sets up no logging shows the warnings on stderr."""

_ASKED: Final[set[tuple[str, ...]]] = set()
"""The endpoints of the clusters that this process has asked at a start."""

_SAID: Final[set[tuple[tuple[str, ...], str]]] = set()
"""The endpoints of a cluster and the kind of a line that this process has logged."""

_STATUS_S: Final = 1.0
"""The deadline of a request that nothing waits for but a warning."""

_EVERY: Final = timedelta(hours=1)
"""How often a leader looks, where it does not compact."""

_LOOKS: Final = 6
"""How often a leader looks within the time that is kept."""

_DENIED: Final = "start it with --auto-compaction-retention=1h, and leave compact out of the store URL"

_NAMES: Final = ("mark", "recent")
_TEXT: Final = b"tenure compacts the history of etcd up to this record's revision"


class History:
    """The history of one cluster, as one client cares for it. Thread-safe."""

    def __init__(self, cluster: Cluster, rpc: Rpc, *, clock: Clock) -> None:
        self._cluster = cluster
        self._rpc = rpc
        self._clock = clock
        self._lock = threading.Lock()  # guards the three below
        self._leads = False
        self._looked_s = float("-inf")
        self._denied = False
        every = _EVERY if cluster.compact is None else cluster.compact / _LOOKS
        self._every_s: Final = every.total_seconds()
        self._below: Final = f"{cluster.prefix}/~history/".encode()
        self._mark, self._recent = (self._below + name.encode() for name in _NAMES)

    def begin(self, endpoint: Endpoint) -> None:
        """Before the first session of this process: log a fault of the server's version, and how full it is."""
        if self._cluster.endpoints in _ASKED:
            return
        try:
            status = self._status(endpoint)
            _ASKED.add(self._cluster.endpoints)
            fault = fault_of(str(status.version))
            if fault is not None:
                LOG.warning("%s", fault)
            self._tell(endpoint, status)
        except (grpc.RpcError, StoreUnavailable):
            return  # a proxy may not pass the request on; a server that is away shows in the next request

    def takes_office(self) -> None:
        """From now on this client looks at the history as long as it renews a session."""
        with self._lock:
            self._leads = True

    def renewed(self) -> None:
        """A session was renewed. Looks on a thread of its own, where this client leads and a look is due."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if not self._leads or now_s - self._looked_s < self._every_s:
                return
            self._looked_s = now_s
        threading.Thread(target=self.look, name="tenure-etcd-history", daemon=True).start()

    def look(self) -> None:
        """Say how full the server is; compact, where that is asked for and due."""
        try:
            endpoint = self._rpc.endpoint()
            self._tell(endpoint, self._status(endpoint))
            if self._cluster.compact is not None and not self._denied:
                self._compact(endpoint, keep=self._cluster.compact)
        except (grpc.RpcError, StoreUnavailable):
            return  # the next look tries again

    # --- saying -------------------------------------------------------------------------------------------------

    def _status(self, endpoint: Endpoint) -> Any:
        return self._rpc.send(endpoint, lambda at: at.maintenance.Status, pb.StatusRequest(), timeout_s=_STATUS_S)

    def finding(self) -> Finding | None:
        """What an operator has to know about the room of the server in use; None: nothing. Raises StoreUnavailable."""
        endpoint = self._rpc.endpoint()
        try:
            return self._finding(endpoint, self._status(endpoint))
        except grpc.RpcError as error:
            raise unavailable(error, "say how full it is") from error

    def _tell(self, endpoint: Endpoint, status: Any) -> None:
        finding = self._finding(endpoint, status)
        if finding is not None:
            self._say(finding.line, kind=finding.kind)

    def _finding(self, endpoint: Endpoint, status: Any) -> Finding | None:
        newest = int(status.header.revision)
        has_many = newest > fullness.MANY and self._keeps(endpoint, newest - fullness.MANY)
        kept = Kept(
            newest=newest,
            in_use=int(status.dbSizeInUse),
            quota=int(status.dbSizeQuota),
            has_first=has_many and self._keeps(endpoint, 1),
            has_many=has_many,
            alarms=tuple(status.errors),
        )
        return finding_about(kept, compacts=self._cluster.compact is not None)

    def _keeps(self, endpoint: Endpoint, revision: int) -> bool:
        """Whether etcd still knows its keys as they were at a revision."""
        request = pb.RangeRequest(key=self._below, revision=revision, count_only=True)
        try:
            self._rpc.send(endpoint, lambda at: at.kv.Range, request, timeout_s=_STATUS_S)
        except grpc.RpcError as error:
            if is_compacted(error):
                return False
            raise
        return True

    def _say(self, line: str, *, kind: str) -> None:
        if (self._cluster.endpoints, kind) not in _SAID:
            _SAID.add((self._cluster.endpoints, kind))
            LOG.warning("%s", line)

    # --- compacting ---------------------------------------------------------------------------------------------

    def _compact(self, endpoint: Endpoint, *, keep: timedelta) -> None:
        request = pb.RangeRequest(key=self._below, range_end=end_of(self._below))
        found = {
            bytes(kv.key): int(kv.mod_revision) for kv in self._send(endpoint, lambda at: at.kv.Range, request).kvs
        }
        if self._recent in found:
            return
        old = found.get(self._mark, 0)
        if self._writes_mark(endpoint, instead_of=old, keep=keep) and old:
            try:
                self._send(endpoint, lambda at: at.kv.Compact, pb.CompactionRequest(revision=old))
            except grpc.RpcError as error:
                if not is_compacted(error):  # by etcd itself, or by leaders below another prefix
                    raise

    def _writes_mark(self, endpoint: Endpoint, *, instead_of: int, keep: timedelta) -> bool:
        """Whether this client wrote the next mark, and no other."""
        grant = pb.LeaseGrantRequest(TTL=max(1, keep // timedelta(seconds=1)))
        lease = self._send(endpoint, lambda at: at.lease.LeaseGrant, grant).ID
        same = pb.Compare(key=self._mark, result=pb.Compare.EQUAL, target=pb.Compare.MOD, mod_revision=instead_of)
        gone = pb.Compare(key=self._recent, result=pb.Compare.EQUAL, target=pb.Compare.CREATE, create_revision=0)
        puts = [
            pb.RequestOp(request_put=pb.PutRequest(key=self._mark, value=_TEXT)),
            pb.RequestOp(request_put=pb.PutRequest(key=self._recent, lease=lease)),
        ]
        return bool(
            self._send(endpoint, lambda at: at.kv.Txn, pb.TxnRequest(compare=[same, gone], success=puts)).succeeded
        )

    def _send(self, endpoint: Endpoint, call: Callable[[Endpoint], Any], request: Any) -> Any:
        """As `Rpc.send`. What etcd does not permit ends the compaction by this client."""
        try:
            return self._rpc.send(endpoint, call, request)
        except grpc.RpcError as error:
            if code_of(error) in REFUSED and isinstance(unavailable(error, ""), AccessDenied):
                self._denied = True
                self._say(f"etcd does not permit to compact its history: {words_of(error)}; {_DENIED}", kind="denied")
            raise
