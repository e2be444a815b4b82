"""Objects of JSON in a bucket, with conditional writes.

Promise: a write names the state that it replaces, and is sent once. A bucket whose server ignores conditions is refused
before the first write: two members would lead in it.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tenure.backends.buckets.errors import NOT_MODIFIED, is_absent, is_not_as_seen, outcome, unavailable
from tenure.backends.buckets.service import BucketPlace, RequestFailed, ServiceClient
from tenure.errors import CorruptRecord, UsageError


class NotAsSeen(Exception):
    """The object is not in the state that the write replaces; nothing was written."""


@dataclass(frozen=True, slots=True)
class SeenJson:
    """An object as it was seen."""

    data: dict[str, Any]
    tag: str
    """The service's name of this state, compared by equality only."""


class Bucket:
    """The objects of a store. Thread-safe. A constructor does no I/O."""

    def __init__(self, place: BucketPlace, *, request_s: float | None = None) -> None:
        """`request_s`: the longest wait for an answer; None: that of the place."""
        self.place = place
        self.request_s = place.request_timeout.total_seconds() if request_s is None else request_s
        self._lock = threading.Lock()  # guards the three below
        self._hastier: dict[float, Bucket] = {}
        self._made: ServiceClient | None = None  # None: not used yet
        self._honours = False  # whether the server was seen to honour conditions

    def within(self, request_s: float) -> Bucket:
        """The same objects for a caller with less time for an answer."""
        if request_s >= self.request_s:
            return self
        with self._lock:
            return self._hastier.setdefault(request_s, Bucket(self.place, request_s=request_s))

    def get(self, name: str, what: str, *, known: SeenJson | None = None) -> SeenJson | None:
        """The object; `known` itself, where it is still in that state; None: there is none. Raises StoreUnavailable,
        CorruptRecord."""
        try:
            content, tag = self._client().get(self.place.key(name), unless=None if known is None else known.tag)
        except RequestFailed as failed:
            if known is not None and failed.status == NOT_MODIFIED:
                return known
            if is_absent(failed):
                return None
            raise unavailable(failed, what, place=self.place) from failed
        return SeenJson(self._parsed(name, content), tag)

    def put(self, name: str, data: dict[str, Any], what: str, *, replaces: SeenJson | None) -> SeenJson:
        """Write the object in the place of `replaces`; None: there must be none. Raises NotAsSeen, StoreUnavailable:
        nothing was written; OutcomeUnknown."""
        content = json.dumps(data, separators=(",", ":")).encode()
        try:
            tag = self._client().put(self.place.key(name), content, replaces=None if replaces is None else replaces.tag)
        except RequestFailed as failed:
            if is_not_as_seen(failed, replaces=replaces is not None):
                raise NotAsSeen from failed
            raise outcome(failed, what, place=self.place) from failed
        return SeenJson(data, tag)

    def delete(self, name: str, what: str) -> None:
        """Remove the object, which may be gone. Raises StoreUnavailable, OutcomeUnknown."""
        try:
            self._client().delete(self.place.key(name))
        except RequestFailed as failed:
            if not is_absent(failed):
                raise outcome(failed, what, place=self.place) from failed

    def ages(self, folder: str, what: str) -> list[tuple[str, timedelta]]:
        """The names of the objects below a folder, without it, and how long ago each was written, by the clock of the
        server. Raises StoreUnavailable."""
        prefix = self.place.key(f"{folder}/")
        try:
            return [(key.removeprefix(prefix), age) for key, age in self._client().ages(prefix)]
        except RequestFailed as failed:
            raise unavailable(failed, what, place=self.place) from failed

    def check_conditions(self) -> None:
        """Prove on an object of its own, once, that the server honours conditions. Raises UsageError: it does not;
        StoreUnavailable, OutcomeUnknown."""
        with self._lock:
            if self._honours:
                return
        name, what = f"probes/{secrets.token_hex(8)}", "try a conditional write"
        first = self.put(name, {"is": "a probe of conditional writes"}, what, replaces=None)
        try:
            self._check_refused(name, what, replaces=None)
            self.put(name, {"is": "a write in the place of the probe"}, what, replaces=first)
            self._check_refused(name, what, replaces=first)
        finally:
            self.delete(name, what)
        with self._lock:
            self._honours = True

    def _check_refused(self, name: str, what: str, *, replaces: SeenJson | None) -> None:
        """Raises UsageError: the server takes a write that it should refuse."""
        try:
            self.put(name, {"is": "a write that the server should have refused"}, what, replaces=replaces)
        except NotAsSeen:
            return
        service = self.place.service
        raise UsageError(
            f"store {self.place.shown} ignores {service.conditions[replaces is not None]} in a PUT, "
            "so two members could lead",
            fix=f"use a server of {service.name} with conditional writes, or another store",
        )

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            made, self._made = self._made, None
            hastier = list(self._hastier.values())
        if made is not None:
            made.close()
        for one in hastier:
            one.close()

    def _client(self) -> ServiceClient:
        with self._lock:
            if self._made is None:
                self._made = self.place.service.connect(self.place, self.request_s)
            return self._made

    def _parsed(self, name: str, text: bytes) -> dict[str, Any]:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._corrupt(name, str(error)) from error
        if not isinstance(found, dict):
            raise self._corrupt(name, "it is no JSON object")
        return found

    def _corrupt(self, name: str, why: str) -> CorruptRecord:
        return CorruptRecord(
            f"object {self.place.key(name)} of {self.place.shown} does not decode: {why}",
            fix="restore it, or remove it and begin a new life of the pipeline",
        )
