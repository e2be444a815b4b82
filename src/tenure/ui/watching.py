"""The threads that keep the boards of the pages: one for all pipelines, and two for each pipeline.

Promise: a pipeline is read when its scope changes, at most twice a second, as a takeover needs the cores; all pipelines
together are read every five seconds. A store that is away leaves the parts as they were, and the part `store` says
since when. A store that hangs holds up its own thread alone. `stop` ends the threads after their present read, and
waits for none of them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from tenure.clock import Clock, timestamp
from tenure.coordination.candidates import Candidate
from tenure.coordination.reading import wait_for_change
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import CoordinationStore
from tenure.errors import Corrupt, TenureError
from tenure.operate.picture import picture_in
from tenure.operate.scopes import scope_pictures
from tenure.ui import pages
from tenure.ui.asking import Asking
from tenure.ui.board import Board
from tenure.ui.rows import rows_of, verdict_of_all
from tenure.ui.store_client import StoreClient

POLL_S: Final = 5.0
"""How often all pipelines are read."""
APART_S: Final = 0.5
"""How long at least passes between two pictures of a pipeline."""
_LOOK: Final = timedelta(seconds=1)
"""How long at most passes between two pictures: a verdict has ages."""
_ASK_S: Final = 1.0
_OUTLIVE: Final = frozenset({"store", "says", "sweep"})
"""The parts that do not come from the records of a scope."""


class StoreState:
    """Whether the store answers, as a part of a board. Used by one thread."""

    def __init__(self, clock: Clock, *, name: str) -> None:
        self._clock = clock
        self._name = name
        self._read_at: str | None = None
        self._away_since: str | None = None

    def answers(self) -> dict[str, Any]:
        """The store was read just now."""
        self._read_at, self._away_since = timestamp(self._clock), None
        return self._part("")

    def is_away(self, error: TenureError) -> dict[str, Any]:
        """The store could not be read."""
        self._away_since = self._away_since or timestamp(self._clock)
        return self._part(str(error))

    def _part(self, why: str) -> dict[str, Any]:
        return {
            "store": {"name": self._name, "read_at": self._read_at, "away_since": self._away_since, "why": why},
        }


class FleetKeeper:
    """Keeps the board of all pipelines, by one thread."""

    def __init__(self, board: Board, client: StoreClient, *, clock: Clock, name: str) -> None:
        self._board = board
        self._client = client
        self._clock = clock
        self._state = StoreState(clock, name=name)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tenure-ui-fleet", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the present read."""
        self._stop.set()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._poll()
                self._clock.wait(self._stop, timeout_s=POLL_S)
        finally:
            self._client.close()

    def _poll(self) -> None:
        try:
            with self._client.use() as store:
                pictures = scope_pictures(store, now=self._clock.now())
        except TenureError as error:
            self._board.put(self._state.is_away(error))
        else:
            rows = rows_of(pictures)
            gone = {name: None for name in self._board.names() if name.startswith("row ")}
            here = {f"row {row['scope']}": row for row in rows}
            all_of_them = {"all": verdict_of_all(rows, total=len(pictures))}
            self._board.put({**gone, **here, **all_of_them, **self._state.answers()})


class ScopeKeeper:
    """Keeps the board of one pipeline, by a thread that follows the store and a thread that asks the members."""

    def __init__(self, board: Board, client: StoreClient, scope: Scope, *, clock: Clock, name: str) -> None:
        self._board = board
        self._client = client
        self._scope = scope
        self._clock = clock
        self._state = StoreState(clock, name=name)
        self._stop = threading.Event()
        self._members: tuple[Candidate, ...] = ()  # as read last; replaced as a whole
        self._threads = [
            threading.Thread(target=target, name=f"tenure-ui-{what}", daemon=True)
            for what, target in (("scope", self._follow), ("members", self._ask))
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, after the present read."""
        self._stop.set()

    def _follow(self) -> None:
        try:
            while not self._stop.is_set():
                started_s = self._clock.monotonic_s()
                self._read_and_wait()
                early_s = started_s + APART_S - self._clock.monotonic_s()
                if early_s > 0:
                    self._clock.wait(self._stop, timeout_s=early_s)
        finally:
            self._client.close()

    def _read_and_wait(self) -> None:
        try:
            with self._client.use() as store:
                revision = self._look(store)
                wait_for_change(store, self._scope, after=revision, timeout=_LOOK, clock=self._clock)
        except TenureError as error:
            self._board.put(self._state.is_away(error))
            self._clock.wait(self._stop, timeout_s=_LOOK.total_seconds())

    def _look(self, store: CoordinationStore) -> Revision:
        listing = store.list(self._scope, "")
        gone: dict[str, None] = {}
        try:
            picture = picture_in(self._scope, store.guarantees.name, listing, now=self._clock.now())
        except Corrupt as error:
            parts = pages.trouble(error)  # beside the parts of an earlier picture
        else:
            self._members = picture.snapshot.members
            parts = pages.parts_of(picture, listing.records) if listing.records else pages.missing(self._scope)
            gone = {name: None for name in self._board.names() if name not in _OUTLIVE}
        self._board.put({**gone, **parts, **self._state.answers()})
        return listing.revision

    def _ask(self) -> None:
        asking, sweep = Asking(), None
        try:
            while not self._stop.is_set():
                answers = asking.ask(self._members)
                at = timestamp(self._clock)
                says = [pages.answer_of(one.member, one.status, at=at) for one in answers]
                events = sorted((line for one in answers for line in one.events), key=_at)
                batches = sorted((line for one in answers for line in one.batches), key=_at)
                sweep = pages.sweep_in(events, sweep)
                behind = [
                    {"at": at, "query": query, "behind": count}
                    for one in answers
                    for query, count in pages.backlog_of(one.status).items()
                ]
                self._board.put({"says": says, "sweep": sweep})
                self._board.append("events", map(pages.event_of, events))
                self._board.append("batches", map(pages.batch_of, batches))
                self._board.append("backlog", behind)
                self._clock.wait(self._stop, timeout_s=_ASK_S if self._members else APART_S)
        finally:
            asking.close()


def _at(line: Mapping[str, Any]) -> str:
    return str(line["at"])
