"""Objects of JSON in a bucket, with conditional writes, by botocore.

Promise: a write names the state that it replaces, and is sent once: the client repeats nothing, since a repetition
would be refused by the condition that its first sending has fulfilled. A bucket whose server ignores conditions is
refused before the first write: two members would lead in it.
"""

from __future__ import annotations

import json
import secrets
import threading
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

from botocore.config import Config
from botocore.session import Session as BotoSession

from tenure.backends.s3.errors import ERRORS, NOT_AS_SEEN, is_no_bucket, outcome, status_of, unavailable
from tenure.backends.s3.url import BucketPlace
from tenure.errors import CorruptRecord, UsageError
from tenure.s3_settings import S3Settings

_NOT_MODIFIED: Final = 304
_NOT_FOUND: Final = 404
_CALLS: Final = 16
"""Connections of one client at most: a thread has one."""


_MAKING: Final = threading.Lock()
"""A session of botocore makes one client at a time."""


@lru_cache(maxsize=1)
def _session() -> BotoSession:
    """The session of this process, which reads the description of S3 once."""
    return BotoSession()


class NotAsSeen(Exception):
    """The object is not in the state that the write replaces; nothing was written."""


@dataclass(frozen=True, slots=True)
class SeenJson:
    """An object as it was seen."""

    data: dict[str, Any]
    tag: str
    """The ETag, compared by equality only."""


class Bucket:
    """The objects of a store. Thread-safe. A constructor does no I/O."""

    def __init__(self, place: BucketPlace, *, request_s: float | None = None) -> None:
        """`request_s`: the longest wait for an answer; None: that of the place."""
        self.place = place
        self.request_s = place.request_timeout.total_seconds() if request_s is None else request_s
        self._lock = threading.Lock()  # guards the three below
        self._hastier: dict[float, Bucket] = {}
        self._made: Any = None  # None: not used yet
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
        unless = {} if known is None else {"IfNoneMatch": known.tag}
        try:
            answer = self._client().get_object(Bucket=self.place.bucket, Key=self.place.key(name), **unless)
            text = answer["Body"].read()
        except ERRORS as error:
            if known is not None and status_of(error) == _NOT_MODIFIED:
                return known
            if status_of(error) == _NOT_FOUND and not is_no_bucket(error):
                return None
            raise unavailable(error, what, where=self.place.shown) from error
        return SeenJson(self._parsed(name, text), str(answer["ETag"]))

    def put(self, name: str, data: dict[str, Any], what: str, *, replaces: SeenJson | None) -> SeenJson:
        """Write the object in the place of `replaces`; None: there must be none. Raises NotAsSeen, StoreUnavailable:
        nothing was written; OutcomeUnknown."""
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces.tag}
        body = json.dumps(data, separators=(",", ":")).encode()
        arguments = {"Bucket": self.place.bucket, "Key": self.place.key(name), "ContentType": "application/json"}
        try:
            done = self._client().put_object(Body=body, **arguments, **condition)
        except ERRORS as error:
            if status_of(error) in NOT_AS_SEEN and not is_no_bucket(error):
                raise NotAsSeen from error
            raise outcome(error, what, where=self.place.shown) from error
        return SeenJson(data, str(done["ETag"]))

    def delete(self, name: str, what: str) -> None:
        """Remove the object, which may be gone. Raises StoreUnavailable, OutcomeUnknown."""
        try:
            self._client().delete_object(Bucket=self.place.bucket, Key=self.place.key(name))
        except ERRORS as error:
            raise outcome(error, what, where=self.place.shown) from error

    def ages(self, folder: str, what: str) -> list[tuple[str, timedelta]]:
        """The names of the objects below a folder, without it, and how long ago each was written, by the clock of the
        server. Raises StoreUnavailable."""
        prefix = self.place.key(f"{folder}/")
        found = []
        try:
            pages = self._client().get_paginator("list_objects_v2").paginate(Bucket=self.place.bucket, Prefix=prefix)
            for page in pages:
                now = parsedate_to_datetime(page["ResponseMetadata"]["HTTPHeaders"]["date"])
                for one in page.get("Contents", ()):
                    found.append((one["Key"].removeprefix(prefix), now - one["LastModified"]))
        except ERRORS as error:
            raise unavailable(error, what, where=self.place.shown) from error
        return found

    def check_conditions(self) -> None:
        """Prove on an object of its own, once, that the server honours conditions. Raises UsageError: it does not;
        StoreUnavailable, OutcomeUnknown."""
        with self._lock:
            if self._honours:
                return
        name, what = f"probes/{secrets.token_hex(8)}", "try a conditional write"
        first = self.put(name, {"is": "a probe of conditional writes"}, what, replaces=None)
        try:
            for wrong in (None, SeenJson({}, f'"{secrets.token_hex(16)}"')):
                try:
                    self.put(name, {"is": "a write that the server should have refused"}, what, replaces=wrong)
                except NotAsSeen:
                    continue
                raise UsageError(
                    f"store {self.place.shown} ignores {'If-None-Match' if wrong is None else 'If-Match'} in a PUT, "
                    "so two members could lead",
                    fix="use a server of S3 with conditional writes, or another store",
                )
            self.put(name, {"is": "a write in the place of the probe"}, what, replaces=first)
        finally:
            self.delete(name, what)
        with self._lock:
            self._honours = True

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            made, self._made = self._made, None
            hastier = list(self._hastier.values())
        if made is not None:
            made.close()
        for one in hastier:
            one.close()

    def _client(self) -> Any:
        with self._lock:
            if self._made is None:
                self._made = self._new_client()
            return self._made

    def _new_client(self) -> Any:
        settings = S3Settings.read()
        connect_s = min(self.place.connect_timeout.total_seconds(), self.request_s)
        style = {} if settings.endpoint is None else {"addressing_style": "path" if settings.path_style else "virtual"}
        config = Config(
            connect_timeout=connect_s,
            read_timeout=self.request_s,
            retries={"total_max_attempts": 1},
            max_pool_connections=_CALLS,
            s3=style,
        )
        with _MAKING:
            return _session().create_client(
                "s3", region_name=settings.region, endpoint_url=settings.endpoint, config=config
            )

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
