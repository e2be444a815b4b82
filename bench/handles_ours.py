"""Tenure's handle store as a contender of `bench.handles`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from bench.handles_side import Book, name_of
from tenure.clock import SystemClock
from tenure.coordination.election import Election
from tenure.coordination.records import Key, Scope
from tenure.coordination.session import SessionKeeper
from tenure.coordination.store import CoordinationStore
from tenure.handles.handle import Handle
from tenure.handles.store import HandleStore
from tenure.storage.blobs import FileBlobs

TTL = timedelta(seconds=20)


class Tenure(Book):
    """A leader with a term, and one area of handles."""

    def __init__(self, store: CoordinationStore, files: Path, *, scope: str, inline_limit: int) -> None:
        super().__init__(files)
        clock = SystemClock()
        self._keeper = SessionKeeper(store, ttl=TTL, clock=clock)
        self._keeper.__enter__()
        term = Election(store, Scope(scope), member="bench", clock=clock).campaign(self._keeper, stop=threading.Event())
        assert term is not None
        self._term = term
        self._store = HandleStore(
            store,
            Scope(scope),
            area=Key("handles"),
            blobs=FileBlobs(str(files)),
            clock=clock,
            inline_limit=inline_limit,
        )
        self._handles: dict[int, Handle] = {}

    def do_add(self, number: int, payload: bytes) -> None:
        self._handles[number] = self._store.add(self._term, name_of(number), payload)

    def do_replace(self, number: int, payload: bytes) -> None:
        self._handles[number] = self._store.replace(self._term, self._handles[number], payload)

    def do_add_drop(self, number: int, payload: bytes, drop: int) -> None:
        out = self._handles.pop(drop)
        self._handles[number] = self._store.add(self._term, name_of(number), payload, remove=[out])

    def do_get_all(self) -> Mapping[str, bytes]:
        return self._store.get_all()

    def do_remove_all(self, numbers: Sequence[int]) -> None:
        self._store.remove_all(self._term, [self._handles.pop(number) for number in numbers])

    def close(self) -> None:
        """End the session."""
        self._keeper.__exit__(None, None, None)
