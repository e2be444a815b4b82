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


_RIGHT: Final = " cannot "
"""As the server says that an account lacks a right: User "x" cannot get resource "configmaps" ..."""

_RULES: Final = (
    ("because it is being terminated", "name another namespace, or create this one again when it is gone"),
    ("exceeded quota", "raise the ResourceQuota of the namespace, or delete objects that it counts"),
    ("admission webhook", "exempt the objects with the label tenure.store from that rule of the cluster"),
    ("ValidatingAdmissionPolicy", "exempt the objects with the label tenure.store from that rule of the cluster"),
    (
        "field is immutable when `immutable` is set",
        "create the ConfigMap anew, with its data and without `immutable`: see docs/kubernetes.md",
    ),
)
"""Words of the server -> the fix, where the account may make a request, and an object or a rule of the cluster forbids
it."""


def rule_of(words: str) -> str | None:
    """The fix, where the words of a refusal name a rule or an object of the cluster; None: they name none."""
    return next((fix for said, fix in _RULES if said in words), None)


def unavailable(error: Refused | NoAnswer, what: str) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request."""
    fix = rule_of(str(error)) if isinstance(error, Refused) else None
    if fix is not None:
        return AccessDenied(f"the API server does not {what}: {error}", fix=fix)
    if isinstance(error, Refused) and error.status == FORBIDDEN:
        fix = "give the account this right" if _RIGHT in str(error) else "change the rule that the server names"
        return AccessDenied(f"the API server does not permit to {what}: {error}", fix=fix)
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
