"""The outcome of a request to S3 that did not succeed.

Promise: one table, by the status and the code of the answer. A request that the server refused (4xx), or put off
(SlowDown), was not applied. A request without an answer, or with another 5xx, may have been applied, or may be applied
later.
"""

from __future__ import annotations

from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable
from tenure.wording import on_one_line

ERRORS: Final = (BotoCoreError, ClientError)
"""All that the client raises for a request."""
NOT_AS_SEEN: Final = (404, 409, 412)
"""A conditional write was refused: the object has changed, is gone, or is being written by another client."""
_SERVER_FAILED: Final = 500
_PUT_OFF: Final = frozenset({"SlowDown"})
_DENIED: Final = (401, 403)
_NO_BUCKET: Final = frozenset({"NoSuchBucket", "InvalidBucketName"})


def status_of(error: Exception) -> int:
    """The HTTP status of the answer; 0: there was none."""
    return int(_answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def code_of(error: Exception) -> str:
    """The code of S3; empty: there was no answer, or the answer has none."""
    return str(_answer(error).get("Error", {}).get("Code") or "")


def is_no_bucket(error: Exception) -> bool:
    """Whether the server has no such bucket."""
    return code_of(error) in _NO_BUCKET


def unavailable(error: Exception, what: str, *, where: str) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request; `where`: the store."""
    said = on_one_line(str(error))
    if is_no_bucket(error):
        return StoreUnavailable(f"store {where} cannot {what}: {said}", fix="make the bucket, or name another")
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return AccessDenied(f"store {where} cannot {what}: {said}", fix="set the variables or a profile of AWS")
    if status_of(error) in _DENIED:
        return AccessDenied(
            f"store {where} does not permit to {what}: {said}",
            fix="check the keys and the clock, and permit GetObject, PutObject, DeleteObject and ListBucket there",
        )
    return StoreUnavailable(f"store {where} cannot {what}: {said}")


def outcome(error: Exception, what: str, *, where: str) -> StoreUnavailable | OutcomeUnknown:
    """For a write that was sent, and failed."""
    status = status_of(error)
    was_refused = 0 < status < _SERVER_FAILED or code_of(error) in _PUT_OFF
    if was_refused or isinstance(error, NoCredentialsError | PartialCredentialsError):
        return unavailable(error, what, where=where)
    return OutcomeUnknown(f"store {where} did not say whether it did {what}: {on_one_line(str(error))}")


def _answer(error: Exception) -> dict[str, Any]:
    found = getattr(error, "response", None)
    return found if isinstance(found, dict) else {}
