"""How the ZooKeeper store follows a scope: one watch on the scope's node and all nodes below it, while a line stands.

Promise: an event marks its node, and the next look reads the marked nodes: so a client that does not look sends
nothing, and a scope that does not change costs nothing. The picture is as the scope was at one instant, as far as a
listing is. The end of a line ends its watches: the next look sets the watch on the next line, and then lists. A renewal
compares the revision of one scope with its picture.

The watch, and the reads of marked nodes, go over the line of a session where there is one: it stands anyway. A listing
can be long, and no renewal must wait behind it: it goes over the connection of requests, perhaps to another server. So
marked nodes that are older than the picture are not taken.

The watch is ZooKeeper's persistent recursive watch, which kazoo lacks: each change of a node below is one event, also
while the watch is answered. Servers older than 3.6 have no such watch. Uses `KazooClient._call` and `_prefix_root`,
which kazoo does not document, so its version is pinned.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import int_struct, write_string

from tenure.backends.shared.following import Followed, Following
from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.multi import key_of
from tenure.backends.zookeeper.reading import (
    ask,
    ask_revision,
    listing,
    nodes_at,
    path_of,
    read_revision,
    record_of,
    revision_of,
)
from tenure.clock import Clock
from tenure.coordination.records import Key, Listing, Record, Revision, Scope

_ROUNDS: Final = 3
"""How often marked nodes are read while the scope goes on changing. After the last round the rest is left to the next
look: a listing of a scope that goes on changing is of no single instant either."""

_LISTINGS: Final = 3
"""How often a listing is read again when the scope has changed meanwhile."""

_BREAKS_S: Final = 5.0
"""How long kazoo may take to notice that a line was broken."""


class Lines(Protocol):
    """The connections of a client. Both raise StoreUnavailable."""

    def standing(self) -> Connection:
        """That of a session that lives; without one, that of requests."""

    def of_requests(self) -> Connection:
        """For requests that may take long."""


class ZooKeeperFollowed(Followed):
    """One scope that a `ZooKeeperStore` follows."""

    def __init__(self, scope: Scope, lines: Lines, *, clock: Clock) -> None:
        super().__init__(scope, clock=clock)
        self._lines = lines
        self._turn = threading.Lock()  # held while the picture is made; guards the two below
        self._at: tuple[Connection, int] | None = None  # the line with the watch; None: there is none
        self._records: dict[Key, Record] = {}
        self._marks = threading.Lock()  # guards _marked
        self._marked: set[str] = set()

    def heard(self, path: str) -> None:
        """An event about this node, a full path. kazoo's thread calls this, before it reads the next answer."""
        with self._marks:
            self._marked.add(path)
        self.wake()

    def asks(self, client: KazooClient) -> Sequence[Any]:
        """Ask for the arguments of `told`."""
        return ask_revision(client, self.scope)

    def told(self, root: Any, markers: Any) -> None:
        """Compare the picture with the stats of the scope's nodes, of an answer over any connection."""
        revision = revision_of(root, markers)
        if self._turn.acquire(blocking=False):
            try:
                self._compared(agrees=bool(self._marked) or revision <= self._whole.revision)
            finally:
                self._turn.release()

    def _catch_up(self) -> None:
        with self._turn:
            connection = self._lines.standing()  # in turn: the line of a moment ago may be closed
            if self._at != (connection, connection.line):
                self._begin(connection)
            elif self._marked:
                self._read_marked(connection)

    def _list(self) -> Listing:
        found, revision = read_scope(self._lines.of_requests(), self.scope, "")
        return Listing(tuple(sorted(found, key=lambda record: record.key)), Revision(revision))

    def _look(self) -> None:
        with self._turn:
            self._take_all()

    def _leave(self) -> None:
        """The server that sends no events is passed over; its line takes all watches with it."""
        with self._turn:  # also until another reader has left it
            at, self._at = self._at, None
            if at is None:
                return
            connection, line = at
            news = threading.Event()
            self.add(news)
            until_s = self._clock.monotonic_s() + _BREAKS_S
            if connection.line == line:
                connection.drop(silent=True)
            # Else the next request may go to the old line. Other news than the end of the line wakes, too.
            while connection.line == line and (left_s := until_s - self._clock.monotonic_s()) > 0:
                self._clock.wait(news, timeout_s=left_s)
                news.clear()

    # --- under the turn -------------------------------------------------------------------------------------------

    def _begin(self, connection: Connection) -> None:
        line = connection.line
        ask(connection, lambda client: [watch_async(client, f"/{self.scope}")], f"watch scope {self.scope!r}")
        self._take_all()
        self._at = (connection, line)  # if that line broke meanwhile, the next look begins again
        self._compared(agrees=True)

    def _take_all(self) -> None:
        connection = self._lines.of_requests()
        with self._marks:
            marked, self._marked = self._marked, set()  # before the answers: a later mark counts again
        try:
            found, revision = read_scope(connection, self.scope, "")
        except BaseException:
            with self._marks:
                self._marked |= marked
            raise
        # A listing shows all that was committed before it: a lower revision is that of a server restored from a backup.
        self._publish({record.key: record for record in found}, revision, anew=revision < self._whole.revision)

    def _read_marked(self, connection: Connection) -> None:
        """Read the marked nodes, and then the revision: if nothing was marked meanwhile, the records are of it. Else
        they have all changes until the revision that was read a round before, and perhaps later changes. A scope that
        has no revision any more was removed, and is listed."""
        taken: set[str] = set()
        try:
            self._read_rounds(connection, taken)
        except BaseException:
            with self._marks:
                self._marked |= taken  # nothing was published
            raise

    def _read_rounds(self, connection: Connection, taken: set[str]) -> None:
        records = dict(self._records)
        whole_until = read = self._whole.revision
        for _ in range(_ROUNDS):
            with self._marks:
                marked, self._marked = self._marked, set()
            taken |= marked
            changed = self._nodes(connection, marked)
            revision = read_revision(connection, self.scope)
            if self._at != (connection, connection.line):
                self._begin(connection)  # events between the two lines were not heard
                return
            if revision < read:
                self._take_all()  # the server of the line is behind that of the last listing
                return
            for key, record in changed.items():
                if record is None:
                    records.pop(key, None)
                else:
                    records[key] = record
            quiet = not self._marked
            whole_until, read = Revision(revision) if quiet else read, Revision(revision)
            if quiet:
                break
        self._publish(records, whole_until)

    def _nodes(self, connection: Connection, marked: Iterable[str]) -> dict[Key, Record | None]:
        names = [name for path in marked if "/" not in (name := path.removeprefix(f"/{self.scope}/"))]
        keys = {path_of(self.scope, key): key for key in map(key_of, names) if key is not None}
        found = nodes_at(connection, list(keys)) if keys else {}
        return {keys[path]: record_of(keys[path], node) for path, node in found.items()}

    def _publish(self, records: dict[Key, Record], revision: int, *, anew: bool = False) -> None:
        changed = revision if anew or revision > self._whole.revision else None
        self._records = records
        self._take(records, revision, changed=changed, anew=anew)


class ZooKeeperFollowing(Following[ZooKeeperFollowed]):
    """All followed scopes of a `ZooKeeperStore`."""

    def __init__(self, lines: Lines, *, clock: Clock) -> None:
        super().__init__(lambda scope: ZooKeeperFollowed(scope, lines, clock=clock))

    def heard(self, path: str | None) -> None:
        """An event of a watch; None: the line is broken."""
        if path is None:
            self.wake()
            return
        followed = self.known(path.split("/", 2)[1])
        if followed is not None:
            followed.heard(path)


def read_scope(connection: Connection, scope: Scope, prefix: str) -> tuple[list[Record], int]:
    """The records below a prefix, at one instant if the scope does not go on changing, and the scope's revision."""
    for _ in range(_LISTINGS):
        records, revision, after = listing(connection, scope, prefix)
        if after == revision:
            break
    return records, revision


_RECURSIVE: Final = 1


class AddWatch:
    """The request, as kazoo's connection sends it."""

    type: Final = 106

    def __init__(self, path: str) -> None:
        self._path = path

    def serialize(self) -> bytearray:
        """The path, and the kind of watch."""
        packed = bytearray(write_string(self._path))
        packed += int_struct.pack(_RECURSIVE)
        return packed

    def deserialize(self, packed: bytes, offset: int) -> bool:
        """The answer has nothing but its error."""
        return True


def watch_async(client: KazooClient, path: str) -> Any:
    """Ask for the watch; kazoo's promise of the answer."""
    answer = client.handler.async_result()
    client._call(AddWatch(_prefix_root(client.chroot, path)), answer)
    return answer
