"""The outcome of a request to an object store that did not succeed.

Promise: one table for all services, by the status of the answer. A request that the service refused (4xx), or put off,
was not applied. A request without an answer, with a 5xx, or with 408 (the server waited for the request too long), may
have been applied, or may be applied later.
"""

from __future__ import annotations

from typing import Final

from tenure.backends.buckets.service import BucketPlace, Cause, RequestFailed
from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable
from tenure.wording import on_one_line

NOT_MODIFIED: Final = 304
NOT_FOUND: Final = 404
_NOT_AS_SEEN: Final = (409, 412)
_DENIED: Final = (401, 403)
_TIMED_OUT: Final = 408
_SERVER_FAILED: Final = 500


def is_absent(failed: RequestFailed) -> bool:
    """Whether the service has no such object."""
    return failed.status == NOT_FOUND and failed.cause is None


def is_not_as_seen(failed: RequestFailed, *, replaces: bool) -> bool:
    """Whether a conditional write was refused: the object has changed, is gone, or is being written by another client.
    `replaces`: the write replaces an object. Where it makes one, 404 is the answer of a bucket that is not there."""
    return failed.cause is None and (failed.status in _NOT_AS_SEEN or (replaces and failed.status == NOT_FOUND))


def unavailable(failed: RequestFailed, what: str, *, place: BucketPlace) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request."""
    said = on_one_line(str(failed))
    if failed.cause is Cause.NO_BUCKET or failed.status == NOT_FOUND:
        fix = f"make the {place.service.bucket}, or name another"
        return StoreUnavailable(f"store {place.shown} cannot {what}: {said}", fix=fix)
    if failed.cause is Cause.NO_CREDENTIALS:
        return AccessDenied(f"store {place.shown} cannot {what}: {said}", fix=place.service.credentials)
    if failed.status in _DENIED:
        return AccessDenied(f"store {place.shown} does not permit to {what}: {said}", fix=place.service.rights)
    return StoreUnavailable(f"store {place.shown} cannot {what}: {said}")


def outcome(failed: RequestFailed, what: str, *, place: BucketPlace) -> StoreUnavailable | OutcomeUnknown:
    """For a write that was sent, and failed."""
    was_refused = 0 < failed.status < _SERVER_FAILED and failed.status != _TIMED_OUT
    if was_refused or failed.cause is not None:
        return unavailable(failed, what, place=place)
    return OutcomeUnknown(f"store {place.shown} did not say whether it did {what}: {on_one_line(str(failed))}")
