"""Watches of the etcd store: one stream each, begun after the revision that the reader has seen.

Promise: no change after that revision is missed, also when the stream breaks (it is begun again after what was seen, on
another endpoint) and when etcd has compacted what lies between (the reader is woken: it lists again anyway).
"""

from __future__ import annotations

import threading
from datetime import timedelta
from types import TracebackType
from typing import Any, Final, Self

import grpc

from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Requests, Rpc, end_of
from tenure.clock import Clock
from tenure.coordination.records import Revision, Scope
from tenure.errors import StoreUnavailable

_AGAIN_S: Final = 0.2
"""How long a stream that broke is left alone."""


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
        self._lock = threading.Lock()  # guards the three below
        self._newest = after
        self._broke = False
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
            if newest > self._seen:
                self._seen = newest
                return newest
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> None:
        """Begin a stream after what was seen. Raises StoreUnavailable."""
        endpoint = self._rpc.endpoint()
        requests = Requests()
        create = pb.WatchCreateRequest(key=self._prefix, range_end=end_of(self._prefix), start_revision=self._seen + 1)
        requests.put(pb.WatchRequest(create_request=create))
        call = endpoint.watch.Watch(iter(requests), metadata=self._rpc.metadata(endpoint))
        with self._lock:
            self._call = call
        threading.Thread(
            target=self._read, args=(call, requests, endpoint), name="tenure-etcd-watch", daemon=True
        ).start()

    def _read(self, call: Any, requests: Requests, endpoint: Endpoint) -> None:
        try:
            for response in call:
                self._note(response)
                if response.canceled:
                    break
        except grpc.RpcError:
            if not self._closed:
                self._rpc.leave(endpoint)
        self._broken(call)
        requests.close()
        call.cancel()

    def _note(self, response: Any) -> None:
        newest = max((event.kv.mod_revision for event in response.events), default=0)
        if response.canceled:
            newest = max(response.compact_revision, response.header.revision)  # what lies between is gone
        with self._lock:
            self._newest = Revision(max(self._newest, newest))
        if newest:
            self._news.set()

    def _broken(self, call: Any) -> None:
        with self._lock:
            if self._call is call:
                self._call, self._broke = None, True
        self._news.set()
