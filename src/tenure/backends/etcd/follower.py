"""How the etcd store follows scopes: one stream a scope, which brings the records themselves.

Promise: no change after the picture's revision is missed: a stream begins there, also after a stream that broke. Where
etcd has compacted the revisions between, the scope is listed again. A server without the others ends its streams. A
stream that etcd refuses begins once more, with a new token; a second refusal is an error. The request by which a
renewal asks for etcd's term compares one scope with its picture: the number of its keys, and their newest revision. An
etcd that answers with a lower revision than was known before the question was restored from a backup: its streams would
be silent until it has caught up, so the scope is listed again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswer
from typing import Any, Final

import grpc

from tenure.backends.etcd.errors import REFUSED, code_of, refused, unavailable, words_of
from tenure.backends.etcd.messages import pb
from tenure.backends.etcd.rpc import Endpoint, Rpc, end_of
from tenure.backends.shared.following import Followed, Following
from tenure.clock import Clock
from tenure.coordination.records import Key, Listing, Record, Revision, Scope
from tenure.errors import StoreUnavailable

_AGAIN_S: Final = 0.2
"""The pause after a stream broke."""

_TRIES: Final = 4
"""How often a watch is begun, before the store counts as away."""

_REFUSALS: Final = 2
"""How many refusals in a row are an error; the second stream has a new token."""

_WITH_A_LEADER: Final = ("hasleader", "true")
"""Asks the server to end the stream when it has lost the others: it would be silent for ever."""

Decode = Callable[[Scope, Any], Record | None]
"""From a key and value of etcd to a record; None: another program has put it there."""


class EtcdFollowed(Followed):
    """One scope that an `EtcdStore` follows."""

    def __init__(self, following: EtcdFollowing, scope: Scope, prefix: bytes) -> None:
        """`prefix`: the beginning of the scope's keys."""
        super().__init__(scope, clock=following.clock)
        self.prefix = prefix
        self._following = following
        self._turn = threading.Lock()  # held while a watch is begun; guards the two below
        self._watch: _Watch | None = None  # None: the scope was not watched yet
        self._begun_s = float("-inf")
        self._after = 0  # the revision from which the first reader wants to hear of changes; 0: from the listing on
        self._picture = threading.Lock()  # guards the five below
        self._revision = 0  # 0: there is no picture
        self._anew = False  # the revisions of the next picture begin anew
        self._first_revision = 0  # of the first picture; 0: there was none
        self._keys: dict[bytes, int] = {}  # every key with its revision, also those that are no records
        self._records: dict[Key, Record] = {}

    def begin_after(self, revision: Revision) -> None:
        """Hear of the changes after this revision. Where the first picture is newer, the scope counts as changed then:
        a record that was deleted before leaves no trace."""
        with self._picture:
            if not self._revision:
                self._after = self._after or revision
            elif revision < self._first_revision:
                self._take(self._records, self._revision, changed=self._first_revision)

    def take(self, found: Any, *, changed: int | None, at: int = 0) -> None:
        """Take etcd's answer to a listing of the scope. `changed`: see `Followed._take`. A listing that differs from
        the picture is a change, too: its event comes later, and tells nothing new. `at`: the revision that was asked
        for; 0: the newest, which the head of each answer has."""
        decoded = [(bytes(kv.key), int(kv.mod_revision), self._following.decode(self.scope, kv)) for kv in found.kvs]
        records = {record.key: record for _, _, record in decoded if record is not None}
        revision = at or int(found.header.revision)
        with self._picture:
            if revision >= self._revision:
                keys = {key: modified for key, modified, _ in decoded}
                if self._revision and keys != self._keys:
                    news = [modified for key, modified in keys.items() if self._keys.get(key) != modified]
                    changed = max(news) if self._keys.keys() <= keys.keys() else revision  # at which a key was gone
                self._first_revision = self._first_revision or revision
                self._revision, self._records, self._keys = revision, records, keys
                anew, self._anew = self._anew, False
                self._take(records, revision, changed=revision if anew else changed, anew=anew)

    # --- on the stream's thread -----------------------------------------------------------------------------------

    def heard(self, response: Any) -> None:
        """Events, in the order of their revisions. One answer has all changes of a transaction."""
        with self._picture:
            news = [event for event in response.events if event.kv.mod_revision > self._revision]
            if not news:
                return
            records = dict(self._records)
            for event in news:
                path = bytes(event.kv.key)
                key = Key.found(path.removeprefix(self.prefix))
                self._keys.pop(path, None)
                record = None
                if event.type == pb.Event.PUT:
                    self._keys[path] = event.kv.mod_revision
                    record = self._following.decode(self.scope, event.kv)
                if record is not None:
                    records[record.key] = record
                elif key is not None:
                    records.pop(key, None)
            self._revision, self._records = news[-1].kv.mod_revision, records
            self._take(records, self._revision, changed=self._revision)

    def compacted(self) -> None:
        """The changes since are not to be had."""
        with self._picture:
            self._after, self._revision = self._revision or self._after, 0

    # --- asking ---------------------------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """That of the picture; 0: there is none. Asked before a request, it dates the answer."""
        return self._revision

    def told(self, found: Any, *, known: int) -> None:
        """Compare the picture with etcd's answer about the newest key of the scope. `known`: the revision before it."""
        if self._went_back(found, known=known):
            return
        newest = max((int(kv.mod_revision) for kv in found.kvs), default=0)
        with self._picture:
            agrees = (newest, int(found.count)) == (max(self._keys.values(), default=0), len(self._keys))
            agrees = agrees or int(found.header.revision) < self._revision  # the picture has heard more since
        self._compared(agrees=agrees)

    def close(self) -> None:
        super().close()
        if self._watch is not None:
            self._watch.close()

    def _catch_up(self) -> None:
        if self._watch is None or self._watch.over:
            with self._turn, self._following.rpc.while_open():
                if self._watch is None or self._watch.over:
                    self._begin()

    def _went_back(self, found: Any, *, known: int) -> bool:
        """Whether etcd was restored from a backup; the scope is then without a picture."""
        if int(found.header.revision) >= known:
            return False
        with self._picture:
            if self._revision < known:  # another answer has shown it
                return True
            self._revision = self._first_revision = self._after = 0
            self._anew = True
            watch = self._watch
        if watch is not None:
            watch.close()
        self.wake()
        return True

    def _list(self) -> Listing:
        known = self._revision
        found = self._ask()
        self._went_back(found, known=known)
        records = [record for kv in found.kvs if (record := self._following.decode(self.scope, kv)) is not None]
        return Listing(tuple(sorted(records, key=lambda record: record.key)), Revision(found.header.revision))

    def _look(self) -> None:
        self.take(self._ask(), changed=None)

    def _leave(self) -> None:
        watch = self._watch
        if watch is not None:
            watch.leave()

    def _begin(self) -> None:
        refusals, failed = 0, StoreUnavailable(f"etcd did not watch scope {self.scope!r}")
        rpc, clock = self._following.rpc, self._following.clock
        for _ in range(_TRIES):
            if not self._revision:
                self._first()
            pause_s = self._begun_s + _AGAIN_S - clock.monotonic_s()
            if pause_s > 0:
                clock.sleep(pause_s)
            watch = self._watch = _Watch(rpc, self, after=self._revision)
            self._begun_s = clock.monotonic_s()
            try:
                words = watch.begun.result(timeout=rpc.request_timeout_s)
            except NoAnswer:
                watch.leave()
                continue
            except grpc.RpcError as error:
                failed = unavailable(error, f"watch scope {self.scope!r}")
                words = words_of(error) if code_of(error) in REFUSED else ""
            else:
                if not words and not watch.over:
                    self._compared(agrees=True)
                    return
            if words:
                refusals += 1
                watch.forget_token()
                if refusals >= _REFUSALS:
                    raise refused(words, f"watch scope {self.scope!r}")
        raise failed

    def _first(self) -> None:
        """The first picture, or the picture after a compaction."""
        if self._after:
            try:
                self.take(self._ask(revision=self._after), changed=None, at=self._after)
            except StoreUnavailable as error:
                cause = error.__cause__
                if not (isinstance(cause, grpc.RpcError) and code_of(cause) is grpc.StatusCode.OUT_OF_RANGE):
                    raise
            else:
                return
        found = self._ask()
        newest = max((int(kv.mod_revision) for kv in found.kvs), default=None)
        self.take(found, changed=int(found.header.revision) if self._after else newest)

    def _ask(self, *, revision: int = 0) -> Any:
        request = pb.RangeRequest(key=self.prefix, range_end=end_of(self.prefix), revision=revision)
        return self._following.rpc.read(lambda at: at.kv.Range, request, f"watch scope {self.scope!r}")


class EtcdFollowing(Following[EtcdFollowed]):
    """All followed scopes of an `EtcdStore`."""

    def __init__(self, rpc: Rpc, prefix_of: Callable[[Scope], bytes], decode: Decode, *, clock: Clock) -> None:
        super().__init__(lambda scope: EtcdFollowed(self, scope, prefix_of(scope)))
        self.rpc = rpc
        self.decode = decode
        self.clock = clock

    def term(self, endpoint: Endpoint, *, timeout_s: float) -> int:
        """As `Rpc.term`. The request compares the scope that has not been compared for longest. Raises what `Rpc.send`
        raises."""
        due = self.due()
        if due is not None:
            newest_first = {"sort_order": pb.RangeRequest.DESCEND, "sort_target": pb.RangeRequest.MOD}
            request = pb.RangeRequest(
                key=due.prefix, range_end=end_of(due.prefix), limit=1, keys_only=True, **newest_first
            )
            known = due.revision
            try:
                found = self.rpc.send(endpoint, lambda at: at.kv.Range, request, timeout_s=timeout_s)
            except grpc.RpcError as error:
                if code_of(error) not in REFUSED:
                    raise
            else:
                due.told(found, known=known)
                return int(found.header.raft_term)
        return self.rpc.term(endpoint, timeout_s=timeout_s)

    def listed(self, scope: Scope, prefix: str, found: Any) -> None:
        """Note a listing of this client."""
        followed = self.known(scope)
        if followed is not None and not prefix:
            followed.take(found, changed=None)
        self.seen(scope, Revision(found.header.revision))


class _Watch:
    """The watch on one scope: a stream to one endpoint, and the thread that reads it."""

    def __init__(self, rpc: Rpc, followed: EtcdFollowed, *, after: int) -> None:
        """Watch after a revision. Raises StoreUnavailable."""
        self._rpc = rpc
        self._followed = followed
        self._endpoint = rpc.endpoint()
        self._metadata = rpc.metadata(self._endpoint)
        self.begun: Future[str] = Future()
        """etcd's words of refusal, or none; raises grpc.RpcError, NoAnswer."""
        self.over = False
        self._closed = False
        prefix = followed.prefix
        create = pb.WatchCreateRequest(key=prefix, range_end=end_of(prefix), start_revision=after + 1)
        request = pb.WatchRequest(create_request=create)
        self._call = self._endpoint.watch.Watch(request, metadata=(*self._metadata, _WITH_A_LEADER))
        threading.Thread(target=self._read, name="tenure-etcd-watch", daemon=True).start()

    def forget_token(self) -> None:
        """Etcd refuses: the next watch has a new token."""
        self._rpc.forget_token(self._metadata)
        self.close()

    def leave(self) -> None:
        """Nothing is heard on this stream: the next stream goes to another endpoint."""
        self._rpc.leave(self._endpoint)
        self.close()

    def close(self) -> None:
        """End the stream."""
        self._closed = self.over = True
        self._call.cancel()

    def _read(self) -> None:
        failed: Exception = NoAnswer()
        try:
            for response in self._call:
                self._note(response)
                if response.canceled:
                    break
        except grpc.RpcError as error:
            failed = error
            if not self._closed and code_of(error) not in REFUSED:
                self._rpc.leave(self._endpoint)
        self.over = True
        self._call.cancel()
        if not self.begun.done():
            self.begun.set_exception(failed)
        self._followed.wake()

    def _note(self, response: Any) -> None:
        if response.created:
            self.begun.set_result(_refusal(response) if response.canceled else "")
            return
        self._followed.heard(response)
        if response.compact_revision:
            self._followed.compacted()


def _refusal(response: Any) -> str:
    words: str = response.cancel_reason.rpartition("desc = ")[2] or "it was cancelled"
    return words
