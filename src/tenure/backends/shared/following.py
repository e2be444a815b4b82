"""A scope as one client follows it: the records as last heard, without a question to the store.

Promise: a picture is never older than a commit, a listing or a change that its client has seen. While a store is away,
there is no picture: the call is StoreUnavailable. A line on which nothing arrives any more is found: a renewal, or once
in `LOOK_S` a listing, shows the scope as it is. Where the picture differs and stays so, another line is opened. Not
promised: that a picture is new. No decision is safe by it, only by the guards of the commit that follows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, Generic, Protocol, TypeVar
from weakref import WeakSet

from tenure.clock import Clock
from tenure.coordination.records import Key, Listing, Record, Revision, Scope
from tenure.coordination.store import Changes
from tenure.errors import StoreUnavailable

CONFIRMED_S: Final = 10.0
"""After this time a renewal that passes by compares the picture with the store."""

LOOK_S: Final = 60.0
"""After this time without a comparison the scope is listed: for clients that renew no session."""

GRACE_S: Final = 2.0
"""How long a change may be on its way to the follower."""

_ON_ITS_WAY_S: Final = 0.5
"""How long a glance waits for a commit of its own client to arrive, before it lists."""


class Picture:
    """The records of a scope at a revision. They are put in order for the first reader: most changes have none."""

    def __init__(self, records: Mapping[Key, Record], revision: Revision) -> None:
        """The records do not change any more."""
        self.revision = revision
        self._records = records
        self._listing: Listing | None = None  # None: nobody has read it

    def listing(self) -> Listing:
        """The records in the order of their keys."""
        if self._listing is None:
            self._listing = Listing(tuple(self._records[key] for key in sorted(self._records)), self.revision)
        return self._listing


class Followed(ABC):
    """One scope that is followed, for as long as its store is open. Thread-safe."""

    def __init__(self, scope: Scope, *, clock: Clock) -> None:
        self.scope = scope
        self._clock = clock
        self._lock = threading.Lock()  # guards the eight below
        self._whole = Picture({}, Revision(0))
        self._changed = 0  # the revision of the last change that was heard
        self._unnumbered = 0
        self._floor = 0  # what the client has seen otherwise
        self._confirmed_s = float("-inf")
        self._doubted_s: float | None = None  # since when the store shows something else; None: it does not
        self._waiters: WeakSet[threading.Event] = WeakSet()
        self._closed = False

    # --- reading ------------------------------------------------------------------------------------------------

    def glance(self, prefix: str) -> Listing:
        """The records under a prefix as last heard. Raises StoreUnavailable."""
        with self._lock:
            floor = self._floor  # of now: on a busy scope it rises all the time
        self._reach()
        self._catch_up_while(lambda: self._is_before(floor), at_most_s=_ON_ITS_WAY_S)
        if self._is_before(floor):
            self._look()
        with self._lock:
            picture = self._whole
        whole = picture.listing()
        if not prefix:
            return whole
        return Listing(tuple(one for one in whole.records if one.key.is_under(prefix)), whole.revision)

    def reached(self) -> Revision:
        """The revision of the last change that was heard. Raises StoreUnavailable."""
        self._reach()
        with self._lock:
            return Revision(self._changed)

    @property
    def unnumbered(self) -> int:
        """How many changes were heard that do not raise the revision."""
        with self._lock:
            return self._unnumbered

    def add(self, event: threading.Event) -> None:
        """Set the event at every change, and when the line breaks."""
        with self._lock:
            self._waiters.add(event)

    def until_look_s(self) -> float:
        """How long a waiter may sleep before the next comparison is due."""
        with self._lock:
            doubted_s, confirmed_s = self._doubted_s, self._confirmed_s
        due_s = confirmed_s + LOOK_S
        if doubted_s is not None:
            due_s = min(due_s, doubted_s + GRACE_S)
        return max(0.0, due_s - self._clock.monotonic_s())

    # --- what the client sees otherwise -------------------------------------------------------------------------

    def seen(self, revision: Revision) -> None:
        """Note a commit or a listing of this client: from now on no picture is older."""
        with self._lock:
            self._floor = max(self._floor, revision)

    def is_due(self) -> bool:
        """Whether the next renewal should compare the picture with the store. A picture in doubt waits for its next
        reader, who lists the scope: compared again and again, it would take the turns of all other scopes."""
        with self._lock:
            since_s, doubted_s = self._confirmed_s, self._doubted_s
        return doubted_s is None and since_s > float("-inf") and self._clock.monotonic_s() - since_s >= CONFIRMED_S

    @property
    def confirmed_s(self) -> float:
        """When the picture was compared last."""
        with self._lock:
            return self._confirmed_s

    def wake(self, *, unnumbered: bool = False) -> None:
        """Let all waiters look. `unnumbered`: something has changed, and the revision is as before."""
        with self._lock:
            self._unnumbered += unnumbered
            waiters = list(self._waiters)
        for event in waiters:
            event.set()

    def close(self) -> None:
        """Let nobody wait any more."""
        self._closed = True
        self.wake()

    # --- of one store ---------------------------------------------------------------------------------------------

    @abstractmethod
    def _catch_up(self) -> None:
        """Open a line if there is none, and take the changes that were heard. Raises StoreUnavailable."""

    @abstractmethod
    def _list(self) -> Listing:
        """The whole scope now, linearizable. Raises StoreUnavailable."""

    @abstractmethod
    def _look(self) -> None:
        """List the scope, and take the records. Raises StoreUnavailable."""

    @abstractmethod
    def _leave(self) -> None:
        """Give the line up: the next `_catch_up` opens another."""

    # --- inside -------------------------------------------------------------------------------------------------

    def _take(self, records: Mapping[Key, Record], revision: int, *, changed: int | None, anew: bool = False) -> None:
        """Take the records of the whole scope. `changed`: the revision of the change; None: there was none. `anew`: the
        revisions of the scope begin anew."""
        with self._lock:
            self._whole = Picture(records, Revision(revision))
            self._unnumbered += anew
            if anew:
                self._floor = min(self._floor, revision)  # of revisions that are no more
            if changed is not None and (changed > self._changed or anew):
                self._changed = changed
                self._doubted_s = None  # it hears
        if changed is not None:
            self.wake()

    def _compared(self, *, agrees: bool) -> None:
        """Note a comparison of the picture with the store."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            if agrees:
                self._confirmed_s, self._doubted_s = now_s, None
                return
            begins = self._doubted_s is None
            if begins:
                self._doubted_s = now_s
        if begins:
            self.wake()  # waiters sleep until the end of the grace only

    def _reach(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        self._catch_up()
        if self.until_look_s() <= 0:
            self._verify()
            self._catch_up()

    def _verify(self) -> None:
        """Compare the picture with a listing. If it differs, and no change is heard within the grace, the line is deaf.
        Where a change is heard, the listing may be older than the picture, or the picture than the listing."""
        heard = self._heard_until()
        for last_try in (False, True):
            found = self._list()
            self._catch_up()
            with self._lock:
                agrees = found.records == self._whole.listing().records or self._changed > heard
            if agrees:
                self._compared(agrees=True)
                return
            if not last_try:
                self._catch_up_while(lambda: self._heard_until() == heard, at_most_s=GRACE_S)
        self._compared(agrees=True)  # by the listing that the next line begins with
        self._leave()

    def _heard_until(self) -> int:
        with self._lock:
            return self._changed

    def _is_before(self, floor: int) -> bool:
        with self._lock:
            return self._whole.revision < floor

    def _catch_up_while(self, still: Callable[[], bool], *, at_most_s: float) -> None:
        """Take the changes that arrive, as long as `still`. Other news wakes, too. Raises StoreUnavailable."""
        news = threading.Event()
        news.set()  # a change may have arrived since the last look
        self.add(news)
        until_s = self._clock.monotonic_s() + at_most_s
        while still() and not self._closed and (left_s := until_s - self._clock.monotonic_s()) > 0:
            self._clock.wait(news, timeout_s=left_s)
            news.clear()  # before the look: a later change is not lost
            self._catch_up()


class Watched(Protocol):
    """A scope whose changes are waited for: followed, or looked at again and again."""

    @property
    def unnumbered(self) -> int:
        """See `Followed.unnumbered`."""
        ...

    def add(self, event: threading.Event) -> None:
        """Set the event at every change that shows by itself."""
        ...

    def reached(self) -> Revision:
        """The revision now. Raises StoreUnavailable."""
        ...

    def until_look_s(self) -> float:
        """How long a waiter may sleep before it looks again."""
        ...


class FollowedChanges(Changes):
    """A watch on one scope. The first look after a change returns the change."""

    def __init__(self, followed: Watched, *, after: Revision, clock: Clock) -> None:
        self._followed = followed
        self._seen = after
        self._unnumbered = followed.unnumbered
        self._clock = clock
        self._news = threading.Event()
        self._closed = False
        followed.add(self._news)

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline_s = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self._news.clear()  # before the look: a later change is not lost
            if self._closed:
                raise StoreUnavailable("the watch is closed")
            unnumbered = self._followed.unnumbered
            reached = self._followed.reached()
            if reached > self._seen or unnumbered != self._unnumbered:
                self._seen, self._unnumbered = reached, unnumbered
                return reached
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                return None
            self._clock.wait(self._news, timeout_s=min(left_s, self._followed.until_look_s()))

    def close(self) -> None:
        self._closed = True
        self._news.set()


F = TypeVar("F", bound=Followed)


class Following(Generic[F]):
    """All followed scopes of one client: a scope is followed from its first glance or watch on. Thread-safe."""

    def __init__(self, follow: Callable[[Scope], F]) -> None:
        self._follow = follow
        self._lock = threading.Lock()  # guards _scopes
        self._scopes: dict[Scope, F] = {}

    def scope(self, scope: Scope) -> F:
        """The scope, followed from now on."""
        with self._lock:
            if scope not in self._scopes:
                self._scopes[scope] = self._follow(scope)
            return self._scopes[scope]

    def known(self, scope: str) -> F | None:
        """The scope, if it is followed."""
        with self._lock:
            return self._scopes.get(Scope(scope))

    def all(self) -> list[F]:
        """Every scope that is followed."""
        with self._lock:
            return list(self._scopes.values())

    def seen(self, scope: Scope, revision: Revision) -> None:
        """Note a commit or a listing of this client."""
        followed = self.known(scope)
        if followed is not None:
            followed.seen(revision)

    def due(self) -> F | None:
        """The scope that the next renewal should compare with the store; None: all were compared a short time ago."""
        due = [followed for followed in self.all() if followed.is_due()]
        return min(due, key=lambda followed: followed.confirmed_s, default=None)

    def wake(self) -> None:
        """Let all waiters look."""
        for followed in self.all():
            followed.wake()

    def close(self) -> None:
        """Follow no more."""
        for followed in self.all():
            followed.close()
