"""The requests to S3, by botocore; see `ServiceClient`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final

from botocore.config import Config
from botocore.session import Session as BotoSession

from tenure.backends.buckets import BucketPlace
from tenure.backends.s3.errors import failures
from tenure.s3_settings import S3Settings

_CALLS: Final = 16
"""Connections of one client at most: a thread has one."""
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
        config = Config(
            connect_timeout=place.connect_s(request_s),
            read_timeout=request_s,
            retries={"total_max_attempts": 1},
            max_pool_connections=_CALLS,
            s3=style,
        )
        with _MAKING:
            self._client: Any = _session().create_client(
                "s3", region_name=settings.region, endpoint_url=settings.endpoint, config=config
            )

    def get(self, key: str, *, unless: str | None) -> tuple[bytes, str]:
        condition = {} if unless is None else {"IfNoneMatch": unless}
        with failures():
            answer = self._client.get_object(Bucket=self._bucket, Key=key, **condition)
            return answer["Body"].read(), str(answer["ETag"])

    def put(self, key: str, content: bytes, *, replaces: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if replaces is None else {"IfMatch": replaces}
        arguments = {"Bucket": self._bucket, "Key": key, "ContentType": "application/json"}
        with failures():
            return str(self._client.put_object(Body=content, **arguments, **condition)["ETag"])

    def delete(self, key: str) -> None:
        with failures():
            self._client.delete_object(Bucket=self._bucket, Key=key)

    def ages(self, prefix: str) -> Iterator[tuple[str, timedelta]]:
        with failures():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            for page in pages:
                now = parsedate_to_datetime(page["ResponseMetadata"]["HTTPHeaders"]["date"])
                for one in page.get("Contents", ()):
                    yield one["Key"], now - one["LastModified"]

    def close(self) -> None:
        self._client.close()
