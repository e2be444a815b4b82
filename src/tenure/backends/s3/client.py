"""The requests to S3, by botocore; see `ServiceClient`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import BotoCoreError
from botocore.session import Session as BotoSession

from tenure.backends.buckets import BucketPlace, Cause, RequestFailed
from tenure.backends.s3.errors import failures
from tenure.s3_settings import S3Settings

_CALLS: Final = 16
"""Connections of one client at most: a thread has one."""
_REFUSED: Final = (400, 401, 403)
"""The answers to keys that are not those of today; 400 to a token that has expired."""
_MAKING: Final = threading.Lock()
"""A session of botocore makes one client at a time."""


@lru_cache(maxsize=1)
def _session() -> BotoSession:
    """The session of this process, which reads the description of S3 once."""
    return BotoSession()


class S3Client:
    """The requests to one bucket."""

    def __init__(self, place: BucketPlace, request_s: float) -> None:
        self._bucket = place.bucket
        settings = S3Settings.read()
        style = {} if settings.endpoint is None else {"addressing_style": "path" if settings.path_style else "virtual"}
        self._arguments = {"region_name": settings.region, "endpoint_url": settings.endpoint}
        self._config = Config(
            connect_timeout=place.connect_s(request_s),
            read_timeout=request_s,
            retries={"total_max_attempts": 1},
            max_pool_connections=_CALLS,
            s3=style,
        )
        with _MAKING:
            self._make()

    def _make(self) -> None:
        session = _session()
        self._credentials = session.get_credentials()
        self._client: Any = session.create_client("s3", config=self._config, **self._arguments)

    @contextmanager
    def _asked(self) -> Iterator[Any]:
        """The client, for one request. After a refusal the next request has the keys that there are then: in a file
        they may have been replaced. botocore itself renews those of a role."""
        client = self._client
        try:
            with failures():
                yield client
        except RequestFailed as failed:
            if failed.status in _REFUSED or failed.cause is Cause.NO_CREDENTIALS:
                self._read_keys(refused=client)
            raise

    def _read_keys(self, *, refused: Any) -> None:
        with _MAKING:
            if self._client is not refused or isinstance(self._credentials, RefreshableCredentials):
                return
            _session.cache_clear()
            with suppress(BotoCoreError):  # the file is being written: the next refusal reads it again
                if _keys(_session().get_credentials()) != _keys(self._credentials):
                    self._make()

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        condition = {} if unless is None else {"IfNoneMatch": unless}
        with self._asked() as client:
            answer = client.get_object(Bucket=self._bucket, Key=key, **condition)
            return answer["Body"].read(), str(answer["ETag"])

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        arguments = {"Bucket": self._bucket, "Key": key, "ContentType": "application/json"}
        with self._asked() as client:
            return str(client.put_object(Body=content, **arguments, **condition)["ETag"])

    def delete(self, key: str) -> None:
        with self._asked() as client:
            client.delete_object(Bucket=self._bucket, Key=key)

    def ages(self, prefix: str) -> Iterator[tuple[str, timedelta]]:
        with self._asked() as client:
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                now = parsedate_to_datetime(page["ResponseMetadata"]["HTTPHeaders"]["date"])
                for one in page.get("Contents", ()):
                    yield one["Key"], now - one["LastModified"]

    def close(self) -> None:
        self._client.close()


def _keys(found: Any) -> tuple[str, str, str] | None:
    return None if found is None else (found.access_key, found.secret_key, found.token)
