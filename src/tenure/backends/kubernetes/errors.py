"""The outcome of a request to the API server that did not succeed.

Promise: one table, by the status of the answer. A request that the server refused (4xx) was not applied. A request
without an answer, or with a 5xx, may have been applied, or may be applied later.
"""

from __future__ import annotations

from typing import Final

from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable

CONFLICT: Final = 409
FORBIDDEN: Final = 403
GONE: Final = 410
INVALID: Final = 422
NOT_FOUND: Final = 404
TOO_MANY: Final = 429
UNAUTHORIZED: Final = 401
_SERVER_FAILED: Final = 500


class Refused(Exception):
    """The API server answered, and did not do it. `words`: the server's own."""

    def __init__(self, status: int, words: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(f"{words} ({status})")
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the server asks to wait; None: it does not say."""


class NoAnswer(Exception):
    """The request was sent, and no answer came."""


def unavailable(error: Refused | NoAnswer, what: str) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request."""
    if isinstance(error, Refused) and error.status == FORBIDDEN:
        return AccessDenied(f"the API server does not permit to {what}: {error}", fix="give the account this right")
    if isinstance(error, Refused) and error.status == UNAUTHORIZED:
        return AccessDenied(f"the API server does not know who we are: {error}", fix="check the token or certificate")
    if isinstance(error, Refused) and error.status == NOT_FOUND:
        return StoreUnavailable(f"the API server did not {what}: {error}", fix="create the namespace, or name another")
    return StoreUnavailable(f"the API server did not {what}: {error}")


def outcome(error: Refused | NoAnswer, what: str) -> StoreUnavailable | OutcomeUnknown:
    """For a request that would change something, was sent, and failed."""
    if isinstance(error, Refused) and error.status < _SERVER_FAILED:
        return unavailable(error, what)
    return OutcomeUnknown(f"the API server did not say whether it did {what}: {error}")
