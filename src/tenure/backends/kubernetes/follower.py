"""One list of objects, and a watch from there on, kept up by one thread.

Promise: every state of the objects after the list reaches the owner in order, or a new list does. A watch goes on from
the resourceVersion of its last event or bookmark; after 410 Gone, or an event that is an error, the objects are listed
again. The server ends each watch after a while, so a line on which nothing comes is found to be dead soon after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, Protocol

from tenure.backends.kubernetes.api import Api, Line, Object
from tenure.backends.kubernetes.errors import GONE, NoAnswer, Refused, unavailable
from tenure.backends.kubernetes.objects import version_of
from tenure.clock import Clock
from tenure.errors import AccessDenied, StoreUnavailable, UsageError
from tenure.retry import RetryPolicy

WATCH_S: Final = 40
"""How long a watch lasts by the server."""
_LATE_S: Final = 5.0
"""A line that is silent for so much longer is dead."""
_AGAIN: Final = RetryPolicy(initial=timedelta(milliseconds=200), maximum=timedelta(seconds=2))
"""The pauses after a line broke."""
_DENIED_S: Final = 10.0
"""The pause after the server refused this account."""


class Listener(Protocol):
    """Hears of the objects, on the follower's thread."""

    def listed(self, objects: Sequence[Object], *, at: int) -> None:
        """All objects there are, at this resourceVersion."""
        ...

    def changed(self, kind: str, found: Object) -> None:
        """An event: ADDED, MODIFIED or DELETED."""
        ...

    def spoke(self) -> None:
        """The line was opened, or has broken: look at `Follower.error`."""
        ...


class Follower:
    """Follows the objects at `path` that the selector names."""

    def __init__(
        self,
        api: Api,
        path: Callable[[], str],
        *,
        selector: Callable[[], tuple[str, str]],
        owner: Listener,
        clock: Clock,
        name: str,
    ) -> None:
        """`selector`: makes `fieldSelector` or `labelSelector`, and its value. `name`: of the thread."""
        self._api = api
        self._path = path
        self._selector = selector
        self._owner = owner
        self._clock = clock
        self._stop = threading.Event()
        self._anew = threading.Event()  # set: the selector has changed, or nothing is heard, so list first
        self._lock = threading.Lock()  # guards _line
        self._line: Line | None = None  # None: there is no line; an ended line stays until the next is open
        self._from = ""  # empty: list first
        self._pauses = _AGAIN.delays_s()
        self._wake = threading.Event()  # set with `_stop` and `_anew`: ends a pause; changes under the lock, as they do
        self.tried = threading.Event()
        """Set once the objects were listed, or could not be listed."""
        self.error: StoreUnavailable | None = None
        """Why there is no line; None: there is one, or none was tried yet."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def check_rights(self) -> None:
        """Wait for the first try, as long as a request may take. Raises AccessDenied: this account may not follow."""
        self.tried.wait(self._api.request_s)
        if isinstance(self.error, AccessDenied):
            raise self.error

    def check(self) -> None:
        """As `check_rights`. Raises StoreUnavailable, too: there is no line; not while a line that has just come to its
        end is opened again."""
        self.check_rights()
        error = self.error
        if error is not None:
            raise error
        if not self.tried.is_set():
            raise StoreUnavailable(f"the API server does not answer: watch {self._selector()[1]}")

    def begin_anew(self) -> None:
        """List by the selector as it is now, and follow from there."""
        with self._lock:
            self.tried.clear()
            self._anew.set()
            self._wake.set()
            line = self._line
        if line is not None:
            line.close()

    def close(self) -> None:
        """Stop, without waiting for a server that hangs."""
        with self._lock:
            self._stop.set()
            self._wake.set()
            line = self._line
        if line is not None:
            line.close()

    def _run(self) -> None:
        try:
            self._run_until_stopped()
        finally:
            self.error = self.error or StoreUnavailable("the watch has ended")

    def _run_until_stopped(self) -> None:
        while not self._stop.is_set():
            try:
                self._follow()
            except (Refused, NoAnswer) as error:
                if isinstance(error, Refused) and error.status == GONE:
                    self._from = ""
                    continue
                self._broke(unavailable(error, f"watch {self._selector()[1]}"))
            except StoreUnavailable as error:
                self._broke(error)
            except UsageError as error:
                self._broke(StoreUnavailable(str(error)))

    def _broke(self, error: StoreUnavailable) -> None:
        if self._stop.is_set() or self._anew.is_set():
            return
        self.error = error
        self._has_tried()
        self._owner.spoke()
        pause_s = _DENIED_S if isinstance(error, AccessDenied) else next(self._pauses)
        self._clock.wait(self._wake, timeout_s=pause_s)

    def _has_tried(self) -> None:
        with self._lock:
            if not self._anew.is_set():  # else it has tried the former selector
                self.tried.set()

    def _follow(self) -> None:
        """List where that is needed, then follow one watch to its end. Raises Refused, NoAnswer, StoreUnavailable."""
        with self._lock:
            if self._anew.is_set():
                self._anew.clear()  # before the selector is made: a later change is not lost
                self._wake.clear()
                self._from = ""
        path, selector = self._path(), self._selector()
        if not self._from:
            found = self._api.ask("GET", path, query=[selector])
            self._owner.listed(found.get("items") or [], at=version_of(found))
            self._from = str(found["metadata"]["resourceVersion"])
        query = [
            selector,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._from),
            ("timeoutSeconds", str(WATCH_S)),
        ]
        line = self._api.line(path, query=query, silent_s=WATCH_S + _LATE_S)
        with self._lock:
            self._line = line
        if self._stop.is_set() or self._anew.is_set():  # by another thread, before it could close this line
            line.close()
        self.error = None
        self._pauses = _AGAIN.delays_s()
        self._has_tried()
        self._owner.spoke()
        for event in line:
            self._take(event)

    def _take(self, event: Object) -> None:
        kind, found = str(event["type"]), event["object"]
        if kind == "ERROR":
            raise Refused(int(found.get("code") or GONE), str(found.get("message")))
        self._from = str(found["metadata"]["resourceVersion"])
        if kind != "BOOKMARK":
            self._owner.changed(kind, found)
