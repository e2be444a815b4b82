"""Watches of the etcd store: one stream each, begun after the revision that the reader knows.

Promise: no change after that revision is missed, also when the stream breaks (it begins again after the newest known
revision, on another endpoint), and when etcd has compacted the revisions between (the watch reports a change, and the
reader lists again). A stream that etcd refuses begins once more, with a new token; a second refusal is an error.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from queue import SimpleQueue
from typing import Any, Final

import grpc

from tenure.backends.etcd.errors import REFUSED, code_of, refused, words_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Metadata, Rpc, end_of
from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.coordination.store import Changes
from tenure.errors import StoreUnavailable

_AGAIN_S: Final = 0.2
"""The pause after a stream broke."""

_REFUSALS: Final = 2
"""How many refusals in a row are an error; the second stream has a new token."""


class EtcdChanges(Changes):
    """A watch on one scope of an `EtcdStore`."""

    def __init__(self, rpc: Rpc, scope: Scope, prefix: bytes, *, after: Revision, clock: Clock) -> None:
        """`prefix`: the beginning of the scope's keys."""
        self._rpc = rpc
        self._scope = scope
        self._prefix = prefix
        self._seen = after
        self._clock = clock
        self._news = threading.Event()
        self._lock = threading.Lock()  # guards the five below
        self._newest = after
        self._broke = False
        self._refusals = 0
        self._words = ""
        self._call: Any = None  # None: there is no stream
        self._closed = False

    def wait(self, *, timeout: timedelta) -> Revision | None:
        deadline_s = self._clock.monotonic_s() + timeout.total_seconds()
        while True:
            self._news.clear()  # before the look: a later change is not lost
            if self._closed:
                raise StoreUnavailable(f"watch on scope {self._scope!r} is closed")
            with self._lock:
                newest, broke, call = self._newest, self._broke, self._call
                self._broke = False
                refusal = self._words if self._refusals >= _REFUSALS else ""
                if refusal:
                    self._refusals = 0
            if newest > self._seen:
                self._seen = newest
                return newest
            if refusal:
                raise refused(refusal, f"watch scope {self._scope!r}")
            left_s = deadline_s - self._clock.monotonic_s()
            if call is None:
                if broke and left_s > _AGAIN_S:
                    self._clock.sleep(_AGAIN_S)
                self._open()
            if left_s <= 0:
                return None
            self._clock.wait(self._news, timeout_s=left_s)

    def close(self) -> None:
        self._closed = True
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call.cancel()
        self._news.set()

    def _open(self) -> None:
        """Begin a stream after the newest known revision. Raises StoreUnavailable."""
        endpoint = self._rpc.endpoint()
        requests: SimpleQueue[Any] = SimpleQueue()  # None ends the stream
        create = pb.WatchCreateRequest(key=self._prefix, range_end=end_of(self._prefix), start_revision=self._seen + 1)
        requests.put(pb.WatchRequest(create_request=create))
        metadata = self._rpc.metadata(endpoint)
        call = endpoint.watch.Watch(iter(requests.get, None), metadata=metadata)
        with self._lock:
            self._call = call
        if self._closed:  # by another thread, before it could cancel this stream
            call.cancel()
        threading.Thread(
            target=self._read, args=(call, requests, endpoint, metadata), name="tenure-etcd-watch", daemon=True
        ).start()

    def _read(self, call: Any, requests: SimpleQueue[Any], endpoint: Endpoint, metadata: Metadata) -> None:
        words = ""  # of a refusal
        try:
            for response in call:
                if response.canceled and not response.compact_revision:
                    words = response.cancel_reason.rpartition("desc = ")[2] or "it was cancelled"
                    break
                self._note(response)
                if response.canceled:
                    break
        except grpc.RpcError as error:
            if code_of(error) in REFUSED:
                words = words_of(error)
            elif not self._closed:
                self._rpc.leave(endpoint)
        if words:
            self._rpc.forget_token(metadata)
        self._ended(call, words)
        call.cancel()
        requests.put(None)

    def _note(self, response: Any) -> None:
        newest = max((event.kv.mod_revision for event in response.events), default=0)
        if response.canceled:
            newest = max(response.compact_revision, response.header.revision)  # the changes between are compacted
        with self._lock:
            self._newest = Revision(max(self._newest, newest))
            self._refusals = 0
        if newest:
            self._news.set()

    def _ended(self, call: Any, words: str) -> None:
        """Note the end of a stream. `words`: etcd's words of refusal; empty: etcd did not refuse the stream."""
        with self._lock:
            if self._call is call:
                self._call, self._broke = None, True
                self._words = words
                self._refusals = self._refusals + 1 if words else 0
        self._news.set()
