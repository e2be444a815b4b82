"""Watches of the etcd store: one stream each, begun after the revision that the reader has seen.

Promise: no change after that revision is missed, also when the stream breaks (it is begun again after what was seen, on
another endpoint) and when etcd has compacted what lies between (the reader is woken: it lists again anyway). A stream
that etcd refuses is begun once more, with a new token; refused again, it is an error and not a change.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, Final, Self

import grpc

from tenure.backends.etcd.errors import REFUSED, code_of, refused, words_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Metadata, Requests, Rpc, end_of
from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.errors import StoreUnavailable

_AGAIN_S: Final = 0.2
"""How long a stream that broke is left alone."""

_REFUSALS: Final = 2
"""How many streams in a row etcd refuses before the reader is told; the second one has a new token."""


class EtcdChanges:
    """A watch on one scope of an `EtcdStore`."""

    def __init__(self, rpc: Rpc, scope: Scope, prefix: bytes, *, after: Revision, clock: Clock) -> None:
        """`prefix`: what the keys of the scope begin with."""
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
            self._news.clear()  # before looking: what comes after is not lost
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _open(self) -> None:
        """Begin a stream after what was seen. Raises StoreUnavailable."""
        endpoint = self._rpc.endpoint()
        requests = Requests()
        create = pb.WatchCreateRequest(key=self._prefix, range_end=end_of(self._prefix), start_revision=self._seen + 1)
        requests.put(pb.WatchRequest(create_request=create))
        metadata = self._rpc.metadata(endpoint)
        call = endpoint.watch.Watch(iter(requests), metadata=metadata)
        with self._lock:
            self._call = call
        if self._closed:  # by another thread, which did not see this stream
            call.cancel()
        threading.Thread(
            target=self._read, args=(call, requests, endpoint, metadata), name="tenure-etcd-watch", daemon=True
        ).start()

    def _read(self, call: Any, requests: Requests, endpoint: Endpoint, metadata: Metadata) -> None:
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
        requests.close()
        call.cancel()

    def _note(self, response: Any) -> None:
        newest = max((event.kv.mod_revision for event in response.events), default=0)
        if response.canceled:
            newest = max(response.compact_revision, response.header.revision)  # what lies between is gone
        with self._lock:
            self._newest = Revision(max(self._newest, newest))
            self._refusals = 0
        if newest:
            self._news.set()

    def _ended(self, call: Any, words: str) -> None:
        """A stream has ended; `words`: with which etcd refused it, empty: it did not."""
        with self._lock:
            if self._call is call:
                self._call, self._broke = None, True
                self._words = words
                self._refusals = self._refusals + 1 if words else 0
        self._news.set()
