"""The outcome of a request that ended in an error of kazoo.

Promise: one table. A request that was answered with an error was not applied. A write without an answer may have been
applied, or may be applied later. A read without an answer is StoreUnavailable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    OperationTimeoutError,
    QuotaExceededError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError

from tenure.errors import AccessDenied, OutcomeUnknown, StoreUnavailable

NOT_ANSWERED: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    KazooTimeoutError,
)
"""The request may have been applied; where the session expired, before that."""

ROLLED_BACK: Final = (RolledBackError, RuntimeInconsistency)
"""The errors of the operations of a multi that did not fail themselves."""


def unavailable(error: KazooException | KazooTimeoutError, what: str) -> StoreUnavailable:
    """For a request of which nothing was applied. `what`: the request."""
    if isinstance(error, NoAuthError):
        return AccessDenied(
            f"ZooKeeper does not permit to {what}", fix="check the user, its password and the ACL of the chroot"
        )
    if isinstance(error, AuthFailedError):
        return AccessDenied("ZooKeeper refuses this user", fix="check the user and its password")
    if isinstance(error, UnimplementedError):
        return StoreUnavailable(f"ZooKeeper cannot {what}: its servers are older than 3.6", fix="upgrade the servers")
    if isinstance(error, QuotaExceededError | ThrottledOpError):
        return StoreUnavailable(f"ZooKeeper does not {what}: {type(error).__name__}")
    return StoreUnavailable(f"ZooKeeper did not {what}: {_words(error)}")


def unknown(error: BaseException, what: str) -> OutcomeUnknown:
    """For a request that was sent and not answered."""
    return OutcomeUnknown(f"ZooKeeper did not say whether it did {what}: {_words(error)}")


def first_failure(results: Sequence[object]) -> tuple[int, BaseException] | None:
    """The operation of a multi that failed by itself, and its error (kazoo returns errors); None: all were applied."""
    failed = [(number, result) for number, result in enumerate(results) if isinstance(result, BaseException)]
    own = [(number, error) for number, error in failed if not isinstance(error, ROLLED_BACK)]
    return next(iter(own or failed), None)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
