"""What the errors of botocore say of a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from tenure.backends.buckets import Cause, RequestFailed

_CAUSES: Final = {
    "NoSuchBucket": Cause.NO_BUCKET,
    "InvalidBucketName": Cause.NO_BUCKET,
    "SlowDown": Cause.PUT_OFF,
}
"""Code of S3 -> the cause."""


@contextmanager
def failures() -> Iterator[None]:
    """All that the client raises for a request becomes RequestFailed."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        answer = _answer(error)
        status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)
        cause = _CAUSES.get(str(answer.get("Error", {}).get("Code") or ""))
        if isinstance(error, NoCredentialsError | PartialCredentialsError):
            cause = Cause.NO_CREDENTIALS
        raise RequestFailed(str(error), status=status, cause=cause) from error


def _answer(error: Exception) -> dict[str, Any]:
    found = getattr(error, "response", None)
    return found if isinstance(found, dict) else {}
