"""What an object store of a cloud offers to the store in a bucket: five requests, each on a condition or read-only.

Promise of every client: each request is sent once. A repetition of a write would be refused by the condition that its
first sending has fulfilled. A request that did not succeed raises `RequestFailed`, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import Final, Protocol

from tenure.backends.shared.server_url import StoreUrl

FOLDER: Final = ".tenure-store"
"""Holds the objects of the store. No scope has such a name, so storage at the same URL takes them for no files of its
own."""


class Cause(Enum):
    """Why a request did not succeed, where its status does not say it."""

    NO_BUCKET = auto()
    """The service has no such bucket."""
    NO_CREDENTIALS = auto()
    """Nothing was sent: this process has no credentials."""
    PUT_OFF = auto()
    """The service was too busy to begin, or a token could not be fetched at this moment. Nothing was applied."""


class RequestFailed(Exception):
    """A request did not succeed. The text is the client's."""

    def __init__(self, said: str, *, status: int = 0, cause: Cause | None = None) -> None:
        """`status`: of the answer, as HTTP has it; 0: there was no answer."""
        super().__init__(said)
        self.status = status
        self.cause = cause


class ServiceClient(Protocol):
    """The requests to one bucket. Thread-safe. A tag names a state of an object, and is compared by equality only."""

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        """The content and its tag. Raises RequestFailed; with status 304: the object is in the state `unless`."""
        ...

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        """The tag of the object after the write in the place of the state `replaces`; None: of no object. Raises
        RequestFailed; with status 404, 409 or 412: the object is in another state."""
        ...

    def delete(self, key: str) -> None:
        """Remove the object, in any state. Raises RequestFailed."""
        ...

    def ages(self, prefix: str) -> Iterable[tuple[str, timedelta]]:
        """The keys with the prefix, and how long ago each object was written, by the clock of the service. Raises
        RequestFailed."""
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """An object store, and its words in errors. `connect` makes a client whose answers take at most so many seconds;
    it does no I/O, but that for credentials, and raises RequestFailed, UsageError."""

    scheme: str
    name: str
    connect: Callable[[BucketPlace, float], ServiceClient]
    conditions: tuple[str, str]
    """The names of the conditions of a write: there is no object; the object is in this state."""
    rights: str
    credentials: str
    """What helps where the right, or the credentials, are missing."""
    bucket: str = "bucket"
    """The service's word for it."""


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """Where a store is, and how long its requests may take. All else that a client needs to reach it comes from the
    variables and files of the service."""

    service: Service
    bucket: str
    prefix: str = ""
    """Empty, or without a slash at its ends."""
    host: str = ""
    """Of the bucket, where the URL names it."""
    connect_timeout: timedelta = timedelta(seconds=5)
    request_timeout: timedelta = timedelta(seconds=5)

    @classmethod
    def of(cls, service: Service, url: StoreUrl, bucket: str, *, host: str = "") -> BucketPlace:
        """The place with the path and the options of a URL. Raises UsageError."""
        return cls(
            service,
            bucket,
            url.path.strip("/"),
            host,
            connect_timeout=url.duration("connect_timeout", timedelta(seconds=5)),
            request_timeout=url.duration("request_timeout", timedelta(seconds=5)),
        )

    def key(self, name: str) -> str:
        """The key of an object of the store."""
        return f"{self.prefix}/{FOLDER}/{name}" if self.prefix else f"{FOLDER}/{name}"

    def connect_s(self, request_s: float) -> float:
        """The longest wait for a connection, for a request that may take so long."""
        return min(self.connect_timeout.total_seconds(), request_s)

    @property
    def shown(self) -> str:
        """For messages."""
        at = f"{self.bucket}@{self.host}" if self.host else self.bucket
        return f"{self.service.scheme}://{at}/{self.prefix}".rstrip("/")
