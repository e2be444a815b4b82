"""A scope that the ZooKeeper store follows, on a made-up connection: marks of changes, and a line that is left."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, cast

import pytest

from tenure.backends.zookeeper import follower
from tenure.backends.zookeeper.connection import Connection
from tenure.backends.zookeeper.follower import ZooKeeperFollowed
from tenure.clock import Clock, SystemClock
from tenure.coordination.records import Key, Record, Revision, Scope, Version
from tenure.errors import StoreUnavailable
from tests.kit.clock import ManualClock
from tests.kit.waiting import NEVER_S, wait_until

SCOPE, A = Scope("rows"), Key("a")


class Line:
    """A connection whose line breaks when the test says so."""

    def __init__(self) -> None:
        self.line = 0
        self.drops = 0

    def drop(self, *, silent: bool) -> None:
        self.drops += 1


class Lines:
    """The connections of a client: one."""

    def __init__(self, line: Line) -> None:
        self._connection = cast("Connection", line)

    def standing(self) -> Connection:
        return self._connection

    def of_requests(self) -> Connection:
        return self._connection


@dataclass(frozen=True)
class Stat:
    """What kazoo says of a node."""

    mzxid: int
    version: int = 0
    ephemeralOwner: int = 0  # noqa: N815 # kazoo's name


class Scene:
    """One scope on one line."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
        self.line = Line()
        self.records = [Record(A, b"1", Version("1"), None)]
        self.revision = 1
        self.away = False
        self.followed = ZooKeeperFollowed(SCOPE, Lines(self.line), clock=clock)

        def ask(connection: Connection, request: object, what: str) -> list[Any]:
            return [None, None]

        def read_scope(connection: Connection, scope: Scope, prefix: str) -> tuple[list[Record], int]:
            if self.away:
                raise StoreUnavailable("ZooKeeper did not list records: timeout")
            return self.records, self.revision

        monkeypatch.setattr(follower, "ask", ask)
        monkeypatch.setattr(follower, "read_scope", read_scope)
        monkeypatch.setattr(follower, "nodes_at", lambda connection, paths: {})
        monkeypatch.setattr(follower, "read_revision", lambda connection, scope: self.revision)

    def change(self) -> None:
        self.revision += 1
        self.records = [Record(A, b"%d" % self.revision, Version(str(self.revision)), None)]


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch, SystemClock())


def test_a_change_stays_marked_when_the_listing_fails_that_would_show_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line stands, so no other listing follows, and no second event: the change was missed for good."""
    assert [record.value for record in scene.followed.glance("").records] == [b"1"]
    scene.change()
    scene.followed.heard(f"/{SCOPE}/a")
    monkeypatch.setattr(follower, "read_revision", lambda connection, scope: 0)  # so the scope is listed
    scene.away = True
    with pytest.raises(StoreUnavailable):
        scene.followed.glance("")
    scene.away = False
    assert [record.value for record in scene.followed.glance("").records] == [b"2"]


def test_a_scope_that_goes_on_changing_is_not_listed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look of a leader listed the whole scope, while the leader itself wrote to it."""
    listings: list[int] = []
    listed = follower.read_scope

    def counted(connection: Connection, scope: Scope, prefix: str) -> tuple[list[Record], int]:
        listings.append(1)
        return listed(connection, scope, prefix)

    def busy(connection: Connection, paths: list[str]) -> dict[str, Any]:
        """The nodes as they are now; another commit follows at once."""
        now = {path: (b"%d" % scene.revision, Stat(scene.revision)) for path in paths}
        scene.change()
        scene.followed.heard(f"/{SCOPE}/a")
        return now

    monkeypatch.setattr(follower, "read_scope", counted)
    monkeypatch.setattr(follower, "nodes_at", busy)
    scene.followed.glance("")
    for _ in range(10):
        scene.change()
        scene.followed.heard(f"/{SCOPE}/a")
        mine = scene.revision
        scene.followed.seen(Revision(mine))
        found = scene.followed.glance("")
        assert int(found.records[0].value) >= found.revision >= mine
    assert len(listings) == 1


def test_marks_that_a_look_leaves_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events had come, and a glance waited half a second for events."""
    clock = ManualClock(sleeping_advances=True)
    scene = Scene(monkeypatch, clock)
    scene.followed.glance("")
    mine = scene.revision + follower._ROUNDS + 1

    def busy(connection: Connection, paths: list[str]) -> dict[str, Any]:
        now = {path: (b"%d" % scene.revision, Stat(scene.revision)) for path in paths}
        if scene.revision < mine:  # then the scope is quiet
            scene.change()
            scene.followed.heard(f"/{SCOPE}/a")
        return now

    monkeypatch.setattr(follower, "nodes_at", busy)
    scene.change()
    scene.followed.heard(f"/{SCOPE}/a")
    scene.followed.seen(Revision(mine))
    found = scene.followed.glance("")
    assert (found.revision, found.records[0].value) == (mine, b"%d" % mine)
    assert clock.monotonic_s() == 0


def test_events_between_two_lines_are_not_missed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes came over one line, and the revision over the next: what changed between was in no event."""
    scene.followed.glance("")

    def broken(connection: Connection, paths: list[str]) -> dict[str, Any]:
        scene.line.line += 1
        scene.change()
        return dict.fromkeys(paths)

    monkeypatch.setattr(follower, "nodes_at", broken)
    scene.followed.heard(f"/{SCOPE}/b")
    found = scene.followed.glance("")
    assert (found.revision, [record.value for record in found.records]) == (2, [b"2"])


def test_two_readers_that_leave_a_line_break_it_once_and_wait_for_its_end(scene: Scene) -> None:
    """The second returned at once, and asked over the line that was being broken."""
    scene.followed.glance("")
    readers = [threading.Thread(target=scene.followed._leave, daemon=True) for _ in range(2)]
    readers[0].start()
    wait_until(lambda: scene.line.drops, what="the first reader")
    readers[1].start()
    readers[1].join(timeout=0.3)
    assert readers[1].is_alive()
    scene.line.line += 1
    scene.followed.wake()
    for reader in readers:
        reader.join(timeout=NEVER_S)
    assert scene.line.drops == 1


def test_a_line_that_is_over_already_is_not_broken_again(scene: Scene) -> None:
    scene.followed.glance("")
    scene.line.line += 1
    scene.followed._leave()
    assert scene.line.drops == 0
