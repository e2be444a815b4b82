"""What every follower of a scope does, on a made-up store: when it compares, and when it gives its line up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta

from tenure.backends.shared.following import CONFIRMED_S, GRACE_S, LOOK_S, Followed, Following
from tenure.coordination.records import Key, Listing, Record, Revision, Scope, Version
from tests.kit.clock import ManualClock

KEY = Key("a")


class Waking(ManualClock):
    """A clock for one thread. `news`: what happens in each wait, one after the other, before the waiter is woken."""

    def __init__(self) -> None:
        super().__init__(sleeping_advances=True)
        self.news: list[Callable[[], None]] = []

    def wait(self, event: threading.Event, *, timeout_s: float) -> bool:
        if self.news:
            self.news.pop(0)()
            return True
        return super().wait(event, timeout_s=timeout_s)


class Made(Followed):
    """A scope with one record, whose value is its revision."""

    def __init__(self, scope: Scope, clock: ManualClock) -> None:
        super().__init__(scope, clock=clock)
        self.revision = 1  # in the store
        self.on_the_line: list[int] = []
        self.changes_at_each_look = False
        self.left = 0
        self._begun = False

    def change(self) -> None:
        """A change in the store; on the line it arrives at once."""
        self.revision += 1
        self.on_the_line.append(self.revision)

    def now(self) -> dict[Key, Record]:
        return {KEY: Record(KEY, b"%d" % self.revision, Version(str(self.revision)), None)}

    def _catch_up(self) -> None:
        if not self._begun:
            self._begun = True
            self._take(self.now(), self.revision, changed=self.revision)
            self._compared(agrees=True)
        for revision in self.on_the_line:
            record = Record(KEY, b"%d" % revision, Version(str(revision)), None)
            self._take({KEY: record}, revision, changed=revision)
        self.on_the_line.clear()

    def _list(self) -> Listing:
        if self.changes_at_each_look:
            self.change()
        found = Listing(tuple(self.now().values()), Revision(self.revision))
        if self.changes_at_each_look:
            self.change()
        return found

    def _look(self) -> None:
        self._take(self.now(), self.revision, changed=self.revision)

    def _leave(self) -> None:
        self.left += 1


def test_a_picture_in_doubt_takes_no_turn_of_another_scope() -> None:
    """Its readers have gone, so nobody ends the doubt. Each renewal compared that scope, and no other ever again."""
    clock = Waking()
    following = Following(lambda scope: Made(scope, clock))
    unread, read = following.scope(Scope("unread")), following.scope(Scope("read"))
    unread.glance("")
    clock.advance(timedelta(seconds=1))
    read.glance("")
    clock.advance(timedelta(seconds=CONFIRMED_S))
    assert following.due() is unread
    unread._compared(agrees=False)
    assert following.due() is read
    read._compared(agrees=True)
    unread.revision += 1  # nothing is heard of it
    clock.advance(timedelta(seconds=GRACE_S))
    unread.glance("")
    assert unread.left == 1, "its next reader compares it"
    clock.advance(timedelta(seconds=CONFIRMED_S))
    assert following.due() is not None


def test_a_line_that_hears_is_kept_while_the_scope_changes() -> None:
    """Each listing shows a change that the picture does not have yet, and the next picture one that it does not."""
    clock = Waking()
    followed = Made(Scope("busy"), clock)
    followed.glance("")
    followed.changes_at_each_look = True
    clock.advance(timedelta(seconds=LOOK_S))
    followed.glance("")
    assert followed.left == 0


def test_other_news_does_not_end_the_grace_of_a_change_on_its_way() -> None:
    """A renewal that compares the picture wakes all who wait, too."""
    clock = Waking()
    followed = Made(Scope("slow"), clock)
    followed.glance("")
    followed.revision += 1
    clock.news = [followed.wake, lambda: followed.on_the_line.append(followed.revision)]
    clock.advance(timedelta(seconds=LOOK_S))
    assert followed.glance("").records == tuple(followed.now().values())
    assert followed.left == 0


def test_a_glance_is_never_older_than_what_its_client_has_seen() -> None:
    """Where the change does not come on the line, the glance lists."""
    clock = Waking()
    followed = Made(Scope("written"), clock)
    followed.glance("")
    followed.revision = 7  # by a commit of this client, over another line
    followed.seen(Revision(7))
    clock.news = [followed.wake]
    assert followed.glance("").records == tuple(followed.now().values())
    assert followed.left == 0


def test_a_line_on_which_nothing_comes_is_left() -> None:
    clock = Waking()
    followed = Made(Scope("deaf"), clock)
    followed.glance("")
    followed.revision += 1
    clock.news = [followed.wake]
    clock.advance(timedelta(seconds=LOOK_S))
    before_s = clock.monotonic_s()
    followed.glance("")
    assert followed.left == 1
    assert clock.monotonic_s() - before_s >= GRACE_S
